"""Runners that are killed, or stand still and go on, at every named place: the mart is its query in the end."""

import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

import pytest

from vitrina import failpoints
from vitrina.domain.pipeline import Pipeline
from vitrina.log import configure_logging
from vitrina.runner.main import Runner
from vitrina.sinks.registry import abilities_of
from vitrina.sources.connections import Connections
from vitrina.testing.labs import Lab
from vitrina.testing.marts import CURSOR, AnyMart, add_items, assert_equal, items, went

FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["vitrina.testing.faults"])
SECONDS = 120.0  # that a child may take on a busy machine
SENDING = ["before shadow:3", "before send:2", "after send:2", "before checkpoint:5", "after checkpoint:5"]
SENDING += ["before confirm:1"]
BUILDING = ["index created:1", *SENDING, "before swap:1", "after swap:1"]


def run_once(
    connections: Connections, pipeline: Pipeline, points: str, environment: Mapping[str, str] | None = None
) -> None:
    """What a child does: one run, unless it gets to one of these places."""
    os.environ.update(environment or {})
    configure_logging("json")
    failpoints.arm(points)
    Runner(connections).run_once(pipeline.id)


@dataclass
class Nursery:
    """Runner processes that cost little to start, to be killed or stopped at a named place or at any moment."""

    lab: Lab
    children: list[ForkServerProcess] = field(default_factory=list)

    def start(self, pipeline: Pipeline, points: str = "", **options: bool) -> ForkServerProcess:
        """Ask for a run, and let a child begin it."""
        if self.lab.status(pipeline) != "RUNNING":
            assert self.lab.request(pipeline, **options)
        args = (self.lab.connections, pipeline, points, dict(os.environ))
        child = FORKS.Process(target=run_once, args=args)
        child.start()
        self.children.append(child)
        return child

    def kill_at(self, pipeline: Pipeline, point: str, **options: bool) -> None:
        """A run that ends at this place."""
        child = self.start(pipeline, point, **options)
        child.join(SECONDS)
        assert (point, child.exitcode) == (point, -signal.SIGKILL)

    def stop_at(self, pipeline: Pipeline, points: str, **options: bool) -> ForkServerProcess:
        """A run that stands still at this place."""
        child = self.start(pipeline, points, **options)
        wait_until(lambda: is_stopped(child) or not child.is_alive())
        assert child.is_alive()
        return child

    def go_on(self, zombie: ForkServerProcess) -> None:
        """One that stood still, to its end; that it came too late is no error."""
        os.kill(zombie.pid or 0, signal.SIGCONT)
        zombie.join(SECONDS)
        assert zombie.exitcode == 0

    def take_over(self, pipeline: Pipeline) -> dict[str, Any]:
        """The lease has run out; another runner, here, sees it through."""
        self.lab.sql("UPDATE etl.etl_leases SET expires_at = clock_timestamp() WHERE owner IS NOT NULL")
        Runner(self.lab.connections).run_once(pipeline.id)
        return self.lab.last_run(pipeline)

    def end(self) -> None:
        """Kill what is left."""
        for child in self.children:
            with suppress(ProcessLookupError):
                child.kill()
            child.join()


def wait_until(condition: Callable[[], object]) -> None:
    """A child is as far as that."""
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def is_stopped(child: ForkServerProcess) -> bool:
    """Whether it stands still, as the system sees it."""
    with suppress(FileNotFoundError, ProcessLookupError):  # it has just died
        return Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"
    return False


def killed(point: str) -> str:
    """As a failpoint: `after send:2` is the second time."""
    name, _, nth = point.partition(":")
    return f"{name}=kill:{nth or 1}"


def change(lab: Lab) -> None:
    """Updates, inserts and deletes of content.item."""
    lab.sql("UPDATE content.item SET title = title || '!', at = clock_timestamp() WHERE id % 2 = 0")
    last = lab.value("SELECT max(id) FROM content.item")
    lab.sql("INSERT INTO content.item SELECT %s::int + n, 'new' FROM generate_series(1, 5) n", last)
    lab.sql("DELETE FROM content.item WHERE id IN (SELECT id FROM content.item ORDER BY md5(title) LIMIT 5)")


class SinkUnderFaults:
    """Subclass it with a fixture `mart`; a kind whose runs get to other places names those."""

    building: Sequence[str] = BUILDING
    sending: Sequence[str] = SENDING
    standing: Sequence[str] = ("before send:2", "before swap:1")

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Each place by itself, where one run is enough."""
        if "point" in metafunc.fixturenames:
            is_load = "load" in metafunc.function.__name__
            metafunc.parametrize("point", self.building if is_load else self.standing)

    @pytest.fixture
    def nursery(self, mart: AnyMart) -> Iterator[Nursery]:
        """Of the mart's own lab."""
        nursery = Nursery(mart.lab)
        yield nursery
        nursery.end()

    def test_a_first_load_killed_anywhere_is_gone_on_with(self, mart: AnyMart, nursery: Nursery, point: str) -> None:
        pipeline = items(mart, 60, batch_size=10)
        nursery.kill_at(pipeline, killed(point))
        change(mart.lab)
        run = nursery.take_over(pipeline)
        assert (run["attempt"], run["error"], run["status"]) == (2, None, "SUCCESS")
        went(mart, pipeline)
        assert_equal(mart, pipeline)

    def test_changes_killed_anywhere_are_there_once(self, mart: AnyMart, nursery: Nursery) -> None:
        pipeline = items(mart, 60, batch_size=10)
        went(mart, pipeline)
        for point in self.sending:
            change(mart.lab)
            nursery.kill_at(pipeline, killed(point))
            nursery.take_over(pipeline)
            assert_equal(mart, pipeline)
        assert went(mart, pipeline) == (0, 0)

    def test_a_rebuild_killed_anywhere_leaves_the_old_one_served_or_the_new_one(
        self, mart: AnyMart, nursery: Nursery
    ) -> None:
        pipeline = items(mart, 60, batch_size=10)
        went(mart, pipeline)
        for point in self.building:
            before = mart.rows(["id"])
            change(mart.lab)
            nursery.kill_at(pipeline, killed(point), rebuild=True)
            if not point.startswith(("after", "before end")):
                assert mart.rows(["id"]) == before
            nursery.take_over(pipeline)
            assert_equal(mart, pipeline)

    def test_what_was_built_and_is_not_gone_on_with_leaves_nothing_unseen(
        self, mart: AnyMart, nursery: Nursery
    ) -> None:
        """The checkpoint is of what was being built: what is served still knows nothing of what came meanwhile."""
        if not abilities_of(mart.target).swaps:
            pytest.skip("this kind builds nothing beside what is served")
        pipeline = items(mart, 20, batch_size=10, **CURSOR)
        went(mart, pipeline)
        for point in ("before swap:1", "before checkpoint:5"):
            last = mart.lab.value("SELECT max(id) FROM content.item")
            add_items(mart.lab, last + 1, last + 20)
            nursery.kill_at(pipeline, killed(point), rebuild=True, restart=True)
            mart.lab.sql("UPDATE etl.etl_indexes SET index_uuid = 'lost' WHERE state = 'building'")
            mart.lab.sql("UPDATE etl.etl_runs SET options = '{}'")  # somebody asks for a run, and for no rebuild
            nursery.take_over(pipeline)
            assert_equal(mart, pipeline)
            assert went(mart, pipeline) == (0, 0)

    def test_a_runner_that_stood_still_changes_nothing_when_it_goes_on(
        self, mart: AnyMart, nursery: Nursery, point: str
    ) -> None:
        pipeline = items(mart, 60, batch_size=10)
        went(mart, pipeline)
        change(mart.lab)
        zombie = nursery.stop_at(pipeline, killed(point).replace("kill", "stop"), rebuild="swap" in point)
        mart.lab.sql("DELETE FROM content.item WHERE id > 50")
        nursery.take_over(pipeline)
        went(mart, pipeline, rebuild=True)
        assert_equal(mart, pipeline)
        nursery.go_on(zombie)
        assert_equal(mart, pipeline)
        assert went(mart, pipeline) == (0, 0)

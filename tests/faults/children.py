"""Runner processes that cost little to start, to be killed or stopped at a named place or at any moment."""

import multiprocessing
import signal
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

from tests.elastic import Search
from tests.faults.oracle import Oracle
from tests.patience import patient
from tests.support import Lab, wait_for
from vitrina import failpoints
from vitrina.domain.pipeline import Pipeline
from vitrina.log import configure_logging
from vitrina.runner.main import Runner
from vitrina.sources.connections import Connections

FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["tests.faults.children"])
ITEMS = "SELECT i.id, i.title, i.at FROM content.items i"
CURSOR = {"mode": "incremental", "incremental_key": "at", "incremental_id_key": "id"}


def run_once(connections: Connections, pipeline: Pipeline, points: str) -> None:
    """What a child does: one run, unless it gets to one of these places."""
    configure_logging("json")
    failpoints.arm(points)
    Runner(connections).run_once(pipeline.id)


@dataclass
class Nursery:
    """A lab with an index, its children, and what must hold when they are gone."""

    search: Search
    children: list[ForkServerProcess] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.lab: Lab = self.search.lab
        self.lab.sql("CREATE TABLE content.items (id int PRIMARY KEY, title text, at timestamptz DEFAULT now())")
        self.lab.sql("INSERT INTO content.items SELECT n, 'item ' || n FROM generate_series(1, 60) n")
        self.lab.sql("GRANT SELECT ON content.items TO vitrina_reader")
        self.oracle = Oracle(self.lab, self.search)
        self.oracle.watch()

    def add(self, name: str, **config: Any) -> Pipeline:
        """A pipeline of six batches."""
        values = {"source_query": ITEMS, "key": ["id"], "batch_size": 10}
        return self.search.add(name, **(values | config))

    def start(self, pipeline: Pipeline, points: str = "", **options: bool) -> ForkServerProcess:
        """Ask for a run, and let a child begin it."""
        if self.lab.status(pipeline) != "RUNNING":
            assert self.lab.request(pipeline, **options)
        child = FORKS.Process(target=run_once, args=(self.lab.connections, pipeline, points))
        child.start()
        self.children.append(child)
        return child

    def kill_at(self, pipeline: Pipeline, point: str, **options: bool) -> None:
        """A run that ends at this place."""
        child = self.start(pipeline, point, **options)
        child.join(patient(60))
        assert (point, child.exitcode) == (point, -signal.SIGKILL)

    def stop_at(self, pipeline: Pipeline, points: str, **options: bool) -> ForkServerProcess:
        """A run that stands still at this place."""
        child = self.start(pipeline, points, **options)
        wait_for(lambda: is_stopped(child) or not child.is_alive(), 60)
        assert child.is_alive()
        return child

    def take_over(self, pipeline: Pipeline) -> dict[str, Any]:
        """The lease has run out; another runner, here, sees it through."""
        self.lab.sql("UPDATE etl.etl_leases SET expires_at = clock_timestamp() WHERE owner IS NOT NULL")
        Runner(self.lab.connections).run_once(pipeline.id)
        return self.lab.last_run(pipeline)

    def change(self) -> None:
        """Updates, inserts and deletes; a cursor sees all but the deletes."""
        self.lab.sql("UPDATE content.items SET title = title || '!', at = clock_timestamp() WHERE id % 2 = 0")
        last = self.lab.value("SELECT max(id) FROM content.items")
        self.lab.sql("INSERT INTO content.items SELECT %s::int + n, 'new' FROM generate_series(1, 5) n", last)
        self.lab.sql("DELETE FROM content.items WHERE id IN (SELECT id FROM content.items ORDER BY md5(title) LIMIT 5)")

    def assert_all_well(self, pipeline: Pipeline) -> None:
        """Ask the oracle."""
        self.oracle.assert_all_well(pipeline)

    def end(self) -> None:
        """Kill what is left."""
        for child in self.children:
            with suppress(ProcessLookupError):
                child.kill()
            child.join()


def is_stopped(child: ForkServerProcess) -> bool:
    """Whether it stands still, as the system sees it."""
    with suppress(FileNotFoundError, ProcessLookupError):  # it has just died
        return Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"
    return False

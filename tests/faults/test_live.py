"""Followers and captures, killed or stopped at named places and at any moment: nothing is lost, all ends equal."""

import itertools
import os
import random
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing.context import ForkServerProcess
from threading import Event

import psycopg
import pytest

from tests.elastic import Search, open_search
from tests.faults.children import FORKS, Nursery, is_stopped, run_once
from tests.faults.driver import ROUNDS
from tests.faults.oracle import Oracle
from tests.integration.test_live import CARD
from tests.living import Living, living
from tests.patience import SHORT_LEASE, patient, stand_still
from tests.support import Lab, beside, wait_for
from vitrina.domain.pipeline import Pipeline
from vitrina.log import configure_logging
from vitrina.meta.repos.pipelines import PipelineRepo
from vitrina.runner.main import Runner
from vitrina.sources.connections import Connections

pytestmark = pytest.mark.faults

GOING = ["before comparison:1", "before checkpoint:2", "after checkpoint:3", "before checkpoint:6"]
FOLLOWING = ["live slice:1", "live slice:3", "before checkpoint:2", "before checkpoint:4", "after checkpoint:4"]
SENDING = ["before shadow:3", "before send:1", "after send:2", "before checkpoint:5", "after checkpoint:5"]
SENDING += ["before confirm:1", "live slice:2"]
CHANGES = (
    "UPDATE content.genre SET name = name || '!' WHERE id ="  # that of most films, so that there are several batches
    " (SELECT genre_id FROM content.genre_film_work GROUP BY 1 ORDER BY count(*) DESC LIMIT 1)",
    "UPDATE content.film_work SET title = md5(random()::text) WHERE id IN (SELECT id FROM content.film_work"
    " ORDER BY random() LIMIT 3)",
    "UPDATE content.genre_film_work SET film_work_id = (SELECT id FROM content.film_work ORDER BY random() LIMIT 1)"
    " WHERE ctid = (SELECT ctid FROM content.genre_film_work ORDER BY random() LIMIT 1)",
    "INSERT INTO content.film_work (id, title, type) VALUES (gen_random_uuid(), 'new', 'movie')",
    "DELETE FROM content.film_work WHERE id = (SELECT id FROM content.film_work ORDER BY random() LIMIT 1)",
)
CUT_OFF = """
    CREATE FUNCTION content.cut_off() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN
        PERFORM pg_terminate_backend(pg_backend_pid()) FROM etl.etl_runs WHERE id = new.run_id AND attempt = 6;
        RETURN NULL; END $$;
    CREATE TRIGGER cut_off AFTER INSERT ON etl.etl_run_events FOR EACH ROW WHEN (new.event = 'followed')
        EXECUTE FUNCTION content.cut_off()
"""


class Followers(Nursery):
    """Children that follow into a table."""

    def __init__(self, live: Living) -> None:
        self.live, self.lab, self.children = live, live.lab, []
        self.pipeline = live.add(CARD, batch_size=4)
        self.oracle = Oracle(self.lab)
        self.oracle.watch()

    def change(self) -> None:
        """A little of everything, in the log."""
        for statement in CHANGES:
            with suppress(psycopg.errors.UniqueViolation):  # the film has that genre already
                self.lab.sql(statement)
        self.live.catch_up()

    def expire(self) -> None:
        """Whoever held the lease has been silent for too long."""
        self.lab.sql("UPDATE etl.etl_leases SET expires_at = clock_timestamp() WHERE owner IS NOT NULL")

    def assert_equal_in_the_end(self) -> None:
        """After one more follow, with nothing left behind."""
        self.live.follow(self.pipeline)
        self.oracle.assert_all_well(self.pipeline)


@pytest.fixture
def followers(lab: Lab) -> Iterator[Followers]:
    with living(lab, "wal") as live:
        followers = Followers(live)
        yield followers
        followers.end()


def killed(point: str) -> str:
    name, _, nth = point.partition(":")
    return f"{name}=kill:{nth}"


def test_going_live_killed_anywhere_is_gone_on_with(followers: Followers) -> None:
    for point in GOING:
        followers.lab.sql("UPDATE etl.etl_state SET checkpoint = NULL")
        followers.lab.sql("UPDATE content.film_work SET title = title || '.'")
        followers.kill_at(followers.pipeline, killed(point))
        followers.change()
        assert followers.take_over(followers.pipeline)["status"] == "SUCCESS"
        followers.assert_equal_in_the_end()


def test_following_killed_anywhere_is_gone_on_with(followers: Followers) -> None:
    followers.live.follow(followers.pipeline)
    for point in FOLLOWING:
        followers.change()
        followers.kill_at(followers.pipeline, killed(point))
        followers.change()
        assert followers.take_over(followers.pipeline)["status"] == "SUCCESS"
        assert followers.live.why(followers.pipeline) == ""
        followers.assert_equal_in_the_end()


def test_an_audit_killed_anywhere_loses_nothing_and_finds_what_it_was_after(followers: Followers) -> None:
    lab, pipeline = followers.lab, followers.pipeline
    lab.configure(audit_share=1.0, audit_rest_seconds=3600)
    followers.live.follow(pipeline)
    for number, point in enumerate(("audit:1", "audit repair:1", "before checkpoint:2", "after checkpoint:2"), 1):
        lab.sql("UPDATE analytics.mart SET title = 'by hand' WHERE ctid = (SELECT ctid FROM analytics.mart LIMIT 1)")
        lab.sql("UPDATE etl.etl_mart_audits SET next_at = now()")
        followers.kill_at(pipeline, killed(point))
        followers.change()
        assert followers.take_over(pipeline)["status"] == "SUCCESS"
        lab.sql("UPDATE etl.etl_mart_audits SET next_at = now()")
        followers.assert_equal_in_the_end()
        assert lab.value("SELECT whole_since IS NOT NULL AND wrong <= %s FROM etl.etl_mart_audits", number)
    assert lab.value("SELECT wrong FROM etl.etl_mart_audits") > 0


def test_a_zombie_commits_nothing(followers: Followers) -> None:
    followers.live.follow(followers.pipeline)
    for point in ("live slice", "before checkpoint", "after checkpoint"):
        followers.change()
        zombie = followers.stop_at(followers.pipeline, f"{point}=stop:2")
        followers.change()
        assert followers.take_over(followers.pipeline)["status"] == "SUCCESS"
        followers.assert_equal_in_the_end()
        position = followers.live.position(followers.pipeline)
        send(zombie, signal.SIGCONT)
        zombie.join(patient(30))
        assert zombie.exitcode is not None
        assert followers.live.position(followers.pipeline) == position
        followers.assert_equal_in_the_end()


STANDING = ["following:2", "live slice:1", "live slice:3", "before checkpoint:3", "after checkpoint:4"]


def stand(followers: Followers, points: str) -> ForkServerProcess:
    """A child that follows what is to be followed, and runs nothing."""
    args = (followers.lab.connections, followers.pipeline, points, dict(os.environ))
    child = FORKS.Process(target=run_once, args=args)
    child.start()
    followers.children.append(child)
    return child


def test_a_follower_between_two_runs_killed_anywhere_is_gone_on_with(followers: Followers) -> None:
    lab, pipeline = followers.lab, followers.pipeline
    followers.live.follow(pipeline)
    runs = lab.value("SELECT count(*) FROM etl.etl_runs WHERE bursts = 0")
    for point in STANDING:
        followers.change()
        child = stand(followers, killed(point))
        child.join(patient(60))
        assert (point, child.exitcode) == (point, -signal.SIGKILL)
        followers.change()
        followers.expire()
        Runner(lab.connections).run_once()
        followers.live.assert_equal(pipeline)
        assert lab.status(pipeline) == "FOLLOWING"
        assert lab.sql("SELECT owner, crashes FROM etl.etl_leases") == [(None, 0)]
    assert lab.value("SELECT count(*) FROM etl.etl_runs WHERE bursts = 0") == runs, "no run was needed for it"
    followers.assert_equal_in_the_end()


@pytest.mark.parametrize("how", ["another follows", "a run is asked for", "a pause is asked for"])
def test_a_follower_that_stood_still_commits_nothing(followers: Followers, how: str) -> None:
    lab, pipeline = followers.lab, followers.pipeline
    followers.live.follow(pipeline)
    for point in ("live slice", "before checkpoint", "after checkpoint"):
        followers.change()
        zombie = stand(followers, f"{point}=stop:2")
        wait_for(lambda zombie=zombie: is_stopped(zombie), 30)  # type: ignore[misc]
        followers.change()
        if how == "another follows":
            followers.expire()
            Runner(lab.connections).run_once()
        elif how == "a pause is asked for":
            assert PipelineRepo(lab.db).request_pause(pipeline.id)
            assert lab.status(pipeline) == "PAUSED"
        else:
            followers.live.follow(pipeline)
        position = followers.live.position(pipeline)
        send(zombie, signal.SIGCONT)
        zombie.join(patient(30))
        assert zombie.exitcode is not None
        assert followers.live.position(pipeline) == position
        followers.assert_equal_in_the_end()


def test_runners_killed_by_others_do_not_fail_a_follower_that_gets_on(followers: Followers) -> None:
    followers.live.follow(followers.pipeline)
    for _ in range(5):
        followers.lab.sql(CHANGES[1])
        followers.live.catch_up()
        followers.kill_at(followers.pipeline, "after checkpoint=kill:2")
        followers.expire()
    followers.lab.sql(CHANGES[1])
    followers.live.catch_up()
    followers.lab.sql(CUT_OFF)  # and then the network, too
    run = followers.take_over(followers.pipeline)
    assert (run["status"], run["attempt"]) == ("SUCCESS", 7)
    followers.assert_equal_in_the_end()


@pytest.mark.scenario(9)
@pytest.mark.parametrize("nth", [1, 2], ids=["first batch", "second batch of a slice"])
def test_a_follower_that_kills_its_runner_at_the_same_place_fails(followers: Followers, nth: int) -> None:
    followers.live.follow(followers.pipeline)
    followers.lab.sql("UPDATE content.film_work SET title = title || '.'")
    followers.live.catch_up()
    for _ in range(3):
        followers.kill_at(followers.pipeline, f"live slice=kill:{nth}")
        followers.expire()
    Runner(followers.lab.connections).run_once(followers.pipeline.id)
    assert followers.lab.status(followers.pipeline) == "FAILED"
    followers.assert_equal_in_the_end()


@pytest.fixture
def search(lab: Lab, elastic: str, index_prefix: str) -> Iterator[Search]:
    with open_search(lab, elastic, index_prefix) as search:
        yield search


def test_following_into_an_index_killed_anywhere_is_gone_on_with(search: Search) -> None:
    nursery = Nursery(search)
    with living(search.lab, "wal", ["content.items"]) as live:
        pipeline = nursery.add("followed", mode="live")
        live.follow(pipeline)
        for point in SENDING:
            nursery.change()
            live.catch_up()
            nursery.kill_at(pipeline, killed(point))
            nursery.change()
            nursery.take_over(pipeline)
            live.follow(pipeline)
            nursery.assert_all_well(pipeline)
        nursery.end()


# ── at any moment ────────────────────────────────────────────────────────────────────────────────────────────


def main_loop(connections: Connections) -> None:
    """What a child does: everything that a runner does, capturing included."""
    configure_logging("json")
    Runner(connections).main_loop()


@contextmanager
def writing(lab: Lab) -> Iterator[None]:
    """An application that never stops."""
    stopping = Event()

    def write() -> None:
        with psycopg.connect(lab.conninfo, autocommit=True) as conn:
            for statement in itertools.cycle(CHANGES[1:]):
                if stopping.wait(0.01):
                    return
                with suppress(psycopg.errors.IntegrityError, psycopg.errors.DeadlockDetected):
                    conn.execute(statement.encode())

    with beside(stopping, write, write):
        yield


class Children:
    """Two runners, of which one is always in trouble."""

    def __init__(self, connections: Connections) -> None:
        self.connections = connections
        self.running = [self._start(), self._start()]

    def _start(self) -> ForkServerProcess:
        child = FORKS.Process(target=main_loop, args=(self.connections,))
        child.start()
        return child

    def disturb(self) -> None:
        """After a moment the older one is killed and replaced, or stands still for longer than its lease."""
        time.sleep(random.uniform(0.3, 1.5))
        victim = self.running.pop(0)
        if random.random() < 0.3:
            stop(victim)
            time.sleep(1.5 * SHORT_LEASE)
            send(victim, signal.SIGCONT)
            self.running.append(victim)
        else:
            victim.kill()
            victim.join()
            self.running.append(self._start())

    def end(self) -> None:
        """Kill them."""
        for child in self.running:
            child.kill()
            child.join()


@pytest.mark.parametrize("kind", ["wal", "trigger"])
def test_runners_killed_and_stopped_at_any_moment_lose_nothing(lab: Lab, kind: str) -> None:
    lab.configure(max_crashes=100, lease_seconds=SHORT_LEASE, poll_seconds=0.1, max_delete_rows=10**6)
    with living(lab, kind) as live:
        live.captured.stop()  # the runners do that
        pipeline = live.add(CARD)
        children = Children(lab.connections)
        try:
            with writing(lab):
                for _ in range(max(4, ROUNDS)):
                    children.disturb()
            wait_for(lambda: is_equal(live, pipeline) and went_live(lab, pipeline), 60)
        finally:
            children.end()
        assert live.tip.generation == 1
        assert went_live(lab, pipeline) == 1, "once, and it followed ever after"


def went_live(lab: Lab, pipeline: Pipeline) -> int:
    """How often."""
    return sum(event["event"] == "live" for event in lab.events(pipeline))


def is_equal(live: Living, pipeline: Pipeline) -> bool:
    with suppress(AssertionError, psycopg.errors.UndefinedTable):
        live.assert_equal(pipeline)
        return True
    return False


def stop(child: ForkServerProcess) -> None:
    """All of it."""
    assert child.pid is not None
    stand_still(child.pid)


def send(child: ForkServerProcess, number: signal.Signals) -> None:
    """A signal."""
    assert child.pid is not None
    os.kill(child.pid, number)

"""Claims, leases and takeovers: one holder at a time, whoever crashes, stalls or races."""

import os
import time
from asyncio import CancelledError
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from threading import Barrier, Event, Thread
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from bench.costs import buffers
from tests.patience import short_lease, wait_for
from tests.support import Lab
from vitrina import transform
from vitrina.domain.errors import ConfigError, DatabaseLost, FatalError, LeaseLost, RetryableError
from vitrina.domain.pipeline import Pipeline
from vitrina.domain.positions import IncrementalPosition
from vitrina.meta.db import Connection, connect, queries
from vitrina.meta.repos.leases import Claim, LeaseRepo
from vitrina.meta.repos.pipelines import PipelineRepo
from vitrina.meta.repos.state import Checkpoint, StateRepo
from vitrina.runner.control import RunControl
from vitrina.runner.dispatcher import PipelineDispatcher
from vitrina.runner.executor import PipelineExecutor
from vitrina.runner.heartbeat import Heartbeat
from vitrina.runner.identity import Identity
from vitrina.runner.main import Runner
from vitrina.runner.manager import PipelineManager
from vitrina.sources.postgres.reader import PostgresReader

HERE = " AND datname = current_database()"  # the server is shared with other tests
ROUNDS = int(os.environ.get("VITRINA_ROUNDS", "0"))
CLAIMS = 1_000
TABLES = ["etl.etl_pipelines", "etl.etl_state", "etl.etl_leases"]  # with a row for each pipeline
FILMS = "SELECT f.id AS film_id, f.title FROM content.film_work f"


def mart(lab: Lab, **config: Any) -> Pipeline:
    return lab.add(**({"source_query": FILMS, "key": ["film_id"], "batch_size": 10} | config))


def leases(lab: Lab, seconds: float = 60, conn: Connection | None = None) -> LeaseRepo:
    return LeaseRepo(conn or lab.db, uuid4(), "somebody", seconds)


def claimed(lab: Lab, seconds: float = 60, **options: bool) -> tuple[LeaseRepo, Claim]:
    """A pipeline in the hands of a runner; of one that is lost at once if `seconds` is 0."""
    lab.sql(
        "UPDATE etl.etl_pipelines SET status = 'RUN_REQUESTED', run_options = %s WHERE status = 'IDLE'",
        psycopg.types.json.Jsonb(options),
    )
    repo = leases(lab, seconds)
    claim = repo.claim()
    assert claim
    return repo, claim


@contextmanager
def dispatcher(lab: Lab) -> Iterator[PipelineDispatcher]:
    identity = Identity()
    heartbeat = Heartbeat(lab.connections, identity, lab.connections.settings.lease_seconds, 1)
    heartbeat.service.start()
    dispatcher = PipelineDispatcher(lab.connections, identity, heartbeat, Event())
    try:
        yield dispatcher
    finally:
        dispatcher.close()
        heartbeat.service.stop()


def runs(lab: Lab) -> list[Any]:
    """Their attempts, in order."""
    return lab.sql("SELECT attempt, status, error FROM etl.etl_run_attempts ORDER BY run_id, attempt")


# ── claiming ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_second_runner_cannot_claim_a_running_pipeline(lab: Lab) -> None:
    mart(lab)
    claimed(lab)
    assert leases(lab).claim() is None
    assert leases(lab).expired() == []


@pytest.mark.long
@pytest.mark.scenario(5)
def test_eight_runners_and_a_thousand_claims_of_one_pipeline_never_hold_one_epoch_twice(lab: Lab) -> None:
    mart(lab)
    seen: list[int] = []
    holders = 0

    def work(_: int) -> None:
        nonlocal holders
        with connect(lab.connections.warehouse, "test") as conn:
            repo = leases(lab, conn=conn)
            while len(seen) < CLAIMS:
                PipelineRepo(conn).request_run(pipeline_id)
                claim = repo.claim()
                if claim:
                    holders += 1
                    assert holders == 1, "two runners hold it"
                    seen.append(claim.epoch)
                    holders -= 1
                    repo.succeed(claim)

    pipeline_id = lab.value("SELECT id FROM etl.etl_pipelines")
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert len(set(seen)) == len(seen) >= CLAIMS
    assert sorted(seen) == list(range(1, len(seen) + 1))


def test_the_oldest_request_comes_first(lab: Lab) -> None:
    asked = [mart(lab, name=f"p{n}", target_table=f"analytics.p{n}") for n in (3, 1, 2)]
    for pipeline in asked:
        lab.request(pipeline)
    repo = leases(lab)
    assert [claim.name for claim in (repo.claim(), repo.claim(), repo.claim()) if claim] == ["p3", "p1", "p2"]


@pytest.mark.scenario(19)
def test_a_run_uses_the_configuration_of_the_version_it_names(lab: Lab) -> None:
    """However edits and claims interleave."""
    pipeline = mart(lab)
    done = Event()

    def edit() -> None:
        with connect(lab.conninfo, "editor") as conn:
            while not done.is_set():
                conn.execute("UPDATE etl.etl_pipelines SET batch_size = 1 + batch_size % 1000")

    editor = Thread(target=edit)
    editor.start()
    try:
        for _ in range(max(150, ROUNDS)):
            lab.request(pipeline)
            repo = leases(lab)
            claim = repo.claim()
            if claim:
                kept = lab.value("SELECT config FROM etl.etl_config_versions WHERE version = %s", claim.version)
                assert claim.config == kept
                repo.succeed(claim)
    finally:
        done.set()
        editor.join()


def test_what_a_runner_asks_again_and_again_reads_no_whole_table_of_10_000_pipelines(lab: Lab) -> None:
    lab.sql(
        "INSERT INTO etl.etl_captures (source, kind, tables, slot, installed_at, position)"
        " VALUES ('warehouse', 'wal', '{}', 's', now(), '0/0')"
    )
    few = pages(lab, 100)
    many = pages(lab, 10_000)
    smallest = lab.value("SELECT min(relpages) FROM pg_class WHERE oid = ANY (%s::regclass[])", TABLES)
    assert {name: count for name, count in many.items() if count > few[name] + smallest / 2} == {}


def pages(lab: Lab, count: int) -> dict[str, int]:
    """Pages that each statement of a tick touches, with so many pipelines, some of them asked for."""
    lab.sql("TRUNCATE etl.etl_pipelines CASCADE")
    with lab.db.transaction():
        lab.sql("SET LOCAL session_replication_role = replica")  # the triggers have nothing to add here
        lab.sql(
            "INSERT INTO etl.etl_pipelines (name, status, schedule_interval, due_at)"
            " SELECT 'p' || n, CASE WHEN n %% 50 = 0 THEN 'RUN_REQUESTED' ELSE 'IDLE' END, '1h',"
            " now() + make_interval(hours => CASE WHEN n %% 50 = 0 THEN -1 ELSE 1 END)"
            " FROM generate_series(1, %s) n",
            count,
        )
        for table in TABLES[1:]:
            lab.sql(f"INSERT INTO {table} (pipeline_id) SELECT id FROM etl.etl_pipelines")
    lab.sql("VACUUM ANALYZE")
    return buffers(lab.db)


# ── lost runners ─────────────────────────────────────────────────────────────────────────────────────────────


def test_an_expired_lease_is_taken_over_with_the_next_epoch_and_attempt(lab: Lab) -> None:
    mart(lab)
    _, lost = claimed(lab, 0, allow_deletes=True, restart=True)
    successor = leases(lab)
    (dead,) = successor.expired()
    claim = successor.reclaim(dead)
    assert claim
    assert (claim.epoch, claim.attempt) == (lost.epoch + 1, lost.attempt + 1)
    assert (claim.options.allow_deletes, claim.options.restart) == (True, False)
    assert [status for _, status, _ in runs(lab)] == ["FAILED", "RUNNING"]
    assert "somebody was lost" in runs(lab)[0][2]


def test_a_zombie_can_neither_write_nor_finish_nor_renew(lab: Lab) -> None:
    mart(lab)
    zombie, lost = claimed(lab, 0)
    successor = leases(lab)
    assert successor.reclaim(successor.expired()[0])
    with pytest.raises(LeaseLost):
        StateRepo(lab.db).fence(lost.pipeline_id, lost.epoch, lost.seq, Checkpoint(None, {}, None))
    for leave in (zombie.succeed, zombie.pause):
        with pytest.raises(LeaseLost):
            leave(lost)
    with pytest.raises(LeaseLost):
        zombie.begin_attempt(lost, "an error")
    assert zombie.renew([lost.run_id]) == {}


def test_a_lease_that_expired_is_not_renewed_even_if_nobody_took_it(lab: Lab) -> None:
    mart(lab)
    repo, claim = claimed(lab, 0)
    assert repo.renew([claim.run_id]) == {}


def test_a_pause_asked_of_a_lost_runner_is_granted(lab: Lab) -> None:
    pipeline = mart(lab)
    claimed(lab, 0)
    PipelineRepo(lab.db).request_pause(pipeline.id)
    with dispatcher(lab) as runner:
        assert runner.dispatch_next() is None
    assert lab.status(pipeline) == "PAUSED"
    assert "paused, as was asked for" in lab.last_run(pipeline)["said"]


def test_a_disabled_pipeline_of_a_lost_runner_fails(lab: Lab) -> None:
    pipeline = mart(lab)
    claimed(lab, 0)
    lab.sql("UPDATE etl.etl_pipelines SET enabled = false")
    with dispatcher(lab) as runner:
        assert runner.dispatch_next() is None
    assert lab.status(pipeline) == "FAILED"
    assert "disabled" in lab.last_run(pipeline)["said"]


def test_nothing_is_buried_for_a_reason_that_no_longer_holds(lab: Lab) -> None:
    pipeline = mart(lab)
    claimed(lab, 0)
    PipelineRepo(lab.db).request_pause(pipeline.id)
    successor = leases(lab)
    (dead,) = successor.expired()
    lab.request(pipeline)
    assert not successor.bury(dead, "the runner was lost; paused, as was asked for")
    assert lab.status(pipeline) == "RUNNING"


def test_the_third_lost_runner_in_a_row_is_the_last(lab: Lab) -> None:
    pipeline = mart(lab)
    claimed(lab, 0)
    for _ in range(2):
        quick = leases(lab, 0)
        assert quick.reclaim(quick.expired()[0])
    with dispatcher(lab) as runner:
        assert runner.dispatch_next() is None
    assert lab.status(pipeline) == "FAILED"
    assert "lost 3 times in a row" in lab.last_run(pipeline)["said"]
    assert [attempt for attempt, _, _ in runs(lab)] == [1, 2, 3]
    assert lab.run(pipeline)["status"] == "SUCCESS"


def test_a_crash_long_ago_does_not_count(lab: Lab) -> None:
    pipeline = mart(lab)
    for _ in range(3):
        claimed(lab, 0)
        with dispatcher(lab) as runner:
            assert runner.dispatch_next()
        assert lab.status(pipeline) == "IDLE"
    lab.assert_equal(pipeline)


@pytest.mark.scenario(7)
def test_a_runner_restarted_under_its_old_name_waits_for_its_old_lease_and_goes_on(lab: Lab) -> None:
    lab.configure(poll_seconds=0.1)
    pipeline = mart(lab)
    lab.request(pipeline)
    claim = LeaseRepo(lab.db, uuid4(), "vm:1", 2).claim()
    assert claim
    expires = expiry(lab, claim)
    runner = Runner(lab.connections, Identity(name="vm:1"))
    thread = Thread(target=runner.main_loop)
    thread.start()
    wait_for(lambda: lab.status(pipeline) == "IDLE", 20)
    runner.stopping.set()
    thread.join()
    assert [(attempt, status) for attempt, status, _ in runs(lab)] == [(1, "FAILED"), (2, "SUCCESS")]
    assert lab.last_run(pipeline)["tried_at"] >= expires
    lab.assert_equal(pipeline)


@pytest.mark.scenario(6)
def test_completion_races_takeover_and_exactly_one_wins(lab: Lab) -> None:
    pipeline = mart(lab)
    with connect(lab.connections.warehouse, "a") as one, connect(lab.connections.warehouse, "b") as other:
        for _ in range(max(60, ROUNDS)):
            holder, claim = claimed(lab)
            holder = LeaseRepo(one, holder.owner, holder.runner, 60)
            lab.sql("UPDATE etl.etl_leases SET expires_at = clock_timestamp()")
            won = race(partial(holder.succeed, claim), partial(take_over, leases(lab, conn=other)))
            assert len(won) == 1, won
            if won == [1]:
                assert lab.status(pipeline) == "RUNNING"
                lab.sql("UPDATE etl.etl_runs SET status = 'FAILED', finished_at = now() WHERE status = 'RUNNING'")
                lab.sql("UPDATE etl.etl_leases SET owner = NULL, expires_at = NULL, run_id = NULL")
                lab.sql("UPDATE etl.etl_pipelines SET status = 'IDLE'")
            assert lab.status(pipeline) == "IDLE"


def test_of_two_successors_exactly_one_takes_over(lab: Lab) -> None:
    mart(lab)
    claimed(lab)
    with connect(lab.connections.warehouse, "a") as one, connect(lab.connections.warehouse, "b") as other:
        for _ in range(max(60, ROUNDS)):
            lab.sql("UPDATE etl.etl_leases SET expires_at = clock_timestamp()")
            assert len(race(*[partial(take_over, leases(lab, conn=conn)) for conn in (one, other)])) == 1
    assert lab.value("SELECT count(*) FROM etl.etl_runs WHERE status = 'RUNNING'") == 1


def test_a_successor_that_stalls_amid_its_takeover_keeps_nobody_else_from_it(lab: Lab) -> None:
    """The server ends its session, which has the pipeline locked: found by the model of the protocol."""
    mart(lab)
    _, lost = claimed(lab, 0)
    with connect(lab.connections.warehouse, "stalled") as conn:
        stalled, successor = leases(lab, 1, conn), leases(lab)
        (dead,) = successor.expired()
        where = stalled._params(pipeline_id=lost.pipeline_id, owner_before=dead["owner"])
        with pytest.raises(DatabaseLost), stalled._transaction():  # noqa: PT012 - it is lost by waiting
            assert conn.execute(queries("leases")["reclaim"], where).fetchone()
            assert successor.reclaim(dead) is None
            wait_for(lambda: successor.reclaim(dead))


def take_over(repo: LeaseRepo) -> None:
    expired = repo.expired()
    if not expired or not repo.reclaim(expired[0]):
        raise LeaseLost("another was first")


def race(*calls: Any) -> list[int]:
    """Start all at once; the numbers of those that succeeded."""
    barrier = Barrier(len(calls))

    def attempt(numbered: tuple[int, Any]) -> int | None:
        barrier.wait()
        try:
            numbered[1]()
        except LeaseLost:
            return None
        return numbered[0]

    with ThreadPoolExecutor(len(calls)) as pool:
        return [number for number in pool.map(attempt, enumerate(calls)) if number is not None]


# ── the heartbeat ────────────────────────────────────────────────────────────────────────────────────────────


@contextmanager
def beating(lab: Lab, seconds: float) -> Iterator[tuple[Heartbeat, LeaseRepo]]:
    identity = Identity()
    heartbeat = Heartbeat(lab.connections, identity, seconds, 1)
    heartbeat.service.start()
    try:
        yield heartbeat, LeaseRepo(lab.db, identity.id, identity.name, seconds)
    finally:
        heartbeat.service.stop()


def expiry(lab: Lab, claim: Claim) -> Any:
    return lab.value("SELECT expires_at FROM etl.etl_leases WHERE run_id = %s", claim.run_id)


@pytest.mark.scenario(13)
def test_leases_are_renewed_while_every_slot_is_busy(lab: Lab) -> None:
    """A batch that takes longer than the lease, in the only slot."""
    lease = short_lease()
    lab.configure(lease_seconds=lease, slots=1)
    pipeline = mart(lab)
    slowly(lab, 1.6 * lease)
    run = lab.run(pipeline)
    assert (run["status"], run["attempt"]) == ("SUCCESS", 1)


def slowly(lab: Lab, seconds: float) -> None:
    """Make the first row of the mart take its time."""
    lab.sql("CREATE TABLE analytics.mart (film_id uuid PRIMARY KEY, title text)")
    lab.sql("ALTER TABLE analytics.mart OWNER TO vitrina_runner")
    lab.sql(
        "CREATE FUNCTION analytics.nap() RETURNS trigger LANGUAGE plpgsql AS"
        f" $$ BEGIN PERFORM pg_sleep({seconds}); RETURN NULL; END $$"
    )
    lab.sql("CREATE TRIGGER nap AFTER INSERT ON analytics.mart EXECUTE FUNCTION analytics.nap()")
    lab.sql("UPDATE etl.etl_pipelines SET batch_size = 1000")


def test_a_lost_lease_is_told_to_its_run(lab: Lab) -> None:
    mart(lab)
    with beating(lab, 0.3) as (heartbeat, repo):
        lab.sql("UPDATE etl.etl_pipelines SET status = 'RUN_REQUESTED'")
        claim = repo.claim()
        assert claim
        control = RunControl(Event())
        lab.sql("UPDATE etl.etl_leases SET owner = %s", uuid4())
        heartbeat.watch(claim.run_id, control)
        assert control.lost.wait(5)
        with pytest.raises(LeaseLost):
            control.check()


def test_a_pause_is_told_to_its_run(lab: Lab) -> None:
    pipeline = mart(lab)
    with beating(lab, 0.3) as (heartbeat, repo):
        lab.request(pipeline)
        claim = repo.claim()
        assert claim
        control = RunControl(Event())
        heartbeat.watch(claim.run_id, control)
        PipelineRepo(lab.db).request_pause(pipeline.id)
        wait_for(control.asked.is_set)


def test_one_locked_lease_does_not_keep_the_others_from_being_renewed(lab: Lab) -> None:
    """Somebody deletes a pipeline by hand and thinks before COMMIT."""
    with connect(lab.conninfo, "somebody") as other, beating(lab, 3) as (heartbeat, repo):
        claims = []
        for name in ("one", "two"):
            lab.request(mart(lab, name=name, target_table=f"analytics.{name}"))
            claim = repo.claim()
            assert claim
            claims.append(claim)
        with other.transaction():
            other.execute("DELETE FROM etl.etl_pipelines WHERE id = %s", [claims[0].pipeline_id])
            controls = [RunControl(Event()) for _ in claims]
            before = expiry(lab, claims[1])
            for claim, control in zip(claims, controls, strict=True):
                heartbeat.watch(claim.run_id, control)
            wait_for(lambda: expiry(lab, claims[1]) > before)
            assert not any(control.lost.is_set() for control in controls)


def test_the_heartbeat_outlives_its_connection(lab: Lab) -> None:
    mart(lab)
    with beating(lab, 0.6) as (heartbeat, repo):
        lab.sql("UPDATE etl.etl_pipelines SET status = 'RUN_REQUESTED'")
        claim = repo.claim()
        assert claim
        heartbeat.watch(claim.run_id, RunControl(Event()))
        wait_for(lambda: lab.value("SELECT count(*) FROM etl.etl_runners") == 1)
        lab.sql(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'vitrina heartbeat'" + HERE
        )
        lab.sql("DELETE FROM etl.etl_runners")
        wait_for(lambda: lab.value("SELECT count(*) FROM etl.etl_runners") == 1)


def test_a_runner_signs_off(lab: Lab) -> None:
    Runner(lab.connections).run_once()
    assert lab.value("SELECT count(*) FROM etl.etl_runners") == 0


# ── attempts ─────────────────────────────────────────────────────────────────────────────────────────────────


def failing(monkeypatch: pytest.MonkeyPatch, *errors: BaseException) -> None:
    """The first runs fail with these errors; later ones work."""
    left = list(errors)
    execute = PipelineExecutor._run

    def run(self: PipelineExecutor, *args: Any) -> Any:
        if left:
            raise left.pop(0)
        return execute(self, *args)

    monkeypatch.setattr(PipelineExecutor, "_run", run)


def test_what_a_retry_can_cure_is_tried_again_within_its_run(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = mart(lab)
    failing(monkeypatch, RetryableError("deadlock"), RetryableError("timeout"))
    assert lab.run(pipeline)["status"] == "SUCCESS"
    assert runs(lab) == [(1, "FAILED", "deadlock"), (2, "FAILED", "timeout"), (3, "SUCCESS", None)]
    assert lab.sql("SELECT attempt, status, error, rows_read FROM etl.etl_runs") == [(3, "SUCCESS", None, 60)]
    lab.assert_equal(pipeline)


def test_three_attempts_are_enough(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = mart(lab)
    failing(monkeypatch, *[RetryableError("deadlock")] * 4)
    lab.run(pipeline)
    assert (lab.status(pipeline), runs(lab)) == ("FAILED", [(n, "FAILED", "deadlock") for n in (1, 2, 3)])


@pytest.mark.parametrize(
    "error",
    [
        ConfigError("wrong"),
        FatalError("wrong"),
        ValueError("wrong"),
        SystemExit("wrong"),
        CancelledError("wrong"),
        RecursionError("wrong"),
        ConfigError("wrong \0 \ud800 " + "x" * 10_000),
    ],
)
def test_what_no_retry_can_cure_fails_at_once(lab: Lab, monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    pipeline = mart(lab)
    failing(monkeypatch, error)
    lab.run(pipeline)
    assert lab.status(pipeline) == "FAILED"
    ((attempt, status, said),) = runs(lab)
    assert (attempt, status, "wrong" in said, len(said) <= 4_000) == (1, "FAILED", True, True)
    assert lab.run(pipeline)["status"] == "SUCCESS"


def test_a_source_that_is_not_there_is_waited_for(lab: Lab) -> None:
    pipeline = mart(lab, source="elsewhere")
    lab.connections = type(lab.connections)(
        lab.connections.warehouse,
        lab.connections.reader,
        lab.connections.listen,
        {"elsewhere": "postgresql://nobody:planted@127.0.0.1:1/nothing"},
        lab.connections.settings,
    )
    run = lab.run(pipeline)
    assert (lab.status(pipeline), run["status"], run["waiting_since"] is None) == ("RUN_REQUESTED", "RUNNING", False)
    [(neighbour, tries)] = lab.sql("SELECT neighbour, tries FROM etl.etl_postponed")  # more than one, on a busy machine
    assert (neighbour, tries > 0) == ("elsewhere", True)
    assert [attempt for attempt, _, error in runs(lab) if "cannot connect" in error] == [*range(1, 2 * tries + 1)]


def test_a_batch_whose_session_is_ended_is_tried_again(lab: Lab) -> None:
    """As after a short restart of the database: the meta-store can be reached again at once."""
    pipeline = mart(lab)
    slowly(lab, 0.5)
    lab.sql("UPDATE etl.etl_pipelines SET batch_size = 30")
    lab.request(pipeline)
    worker = Thread(target=Runner(lab.connections).run_once)
    worker.start()
    wait_for(lambda: lab.value("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'" + HERE))
    lab.sql(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'vitrina run %%'" + HERE
    )
    worker.join()
    assert [(attempt, status) for attempt, status, _ in runs(lab)] == [(1, "FAILED"), (2, "SUCCESS")]
    lab.assert_equal(pipeline)


def test_a_source_may_take_longer_than_the_lease(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """The session that writes is idle meanwhile, in its transaction: that alone must not end it."""
    lease = short_lease()
    lab.configure(lease_seconds=lease)
    pipeline = mart(lab)
    lab.run(pipeline)
    fetch = PostgresReader.fetch

    def fetch_late(*args: Any) -> Any:
        time.sleep(1.2 * lease)
        return fetch(*args)

    monkeypatch.setattr(PostgresReader, "fetch", fetch_late)
    lab.sql("UPDATE content.film_work SET title = title || '!'")
    run = lab.run(pipeline)
    assert (run["status"], run["attempt"]) == ("SUCCESS", 1)


def test_late_news_of_the_last_attempt_do_not_end_the_next(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """The heartbeat looks for a run that was closed a moment ago."""
    pipeline = mart(lab)
    controls: list[RunControl] = []
    execute = PipelineExecutor.execute

    def run(self: PipelineExecutor, claim: Claim, control: RunControl) -> None:
        controls.append(control)
        if len(controls) == 1:
            raise RetryableError("deadlock")
        controls[0].lost.set()
        execute(self, claim, control)

    monkeypatch.setattr(PipelineExecutor, "execute", run)
    assert lab.run(pipeline)["status"] == "SUCCESS"


def test_begin_attempt_goes_on_from_the_checkpoint(lab: Lab) -> None:
    mart(lab)
    repo, claim = claimed(lab)
    StateRepo(lab.db).fence(claim.pipeline_id, claim.epoch, claim.seq, Checkpoint(IncrementalPosition("7"), {}, "hash"))
    again = repo.begin_attempt(claim, "an error")
    assert (again.attempt, again.epoch, again.seq) == (2, claim.epoch, claim.seq + 1)
    assert (again.checkpoint, again.config_hash) == ({"value": "7"}, "hash")
    assert again.run_id == claim.run_id


# ── what fails in one pipeline stays there ───────────────────────────────────────────────────────────────────


@transform("test_claims_exit")
def leave_the_process(rows: Any) -> Any:
    raise SystemExit("out of here")


@pytest.mark.scenario(15)
def test_others_never_notice_a_pipeline_that_fails_in_every_way(lab: Lab) -> None:
    bad: list[dict[str, Any]] = [
        {"source_query": "SELECT nonsense"},
        {"source_query": "DELETE FROM content.film_work"},
        {"source_query": FILMS, "target_table": "content.film_work"},
        {"source_query": FILMS, "key": ["nothing"]},
        {"source_query": FILMS, "type": "PYTHON", "python_task": "unknown"},
        {"source_query": FILMS, "type": "PYTHON", "python_task": "test_claims_exit"},
        {"source_query": FILMS, "source": "nowhere"},
        {"source_query": "SELECT f.id AS film_id, 1 / 0 AS x FROM content.film_work f"},
    ]
    for number, config in enumerate(bad):
        lab.request(lab.add(**({"name": f"bad {number}", "target_table": f"analytics.b{number}"} | config)))
    lab.sql("INSERT INTO etl.etl_pipelines (name, status, key) VALUES ('by hand', 'RUN_REQUESTED', '{\"\"}')")
    good = mart(lab)
    lab.request(good)
    Runner(lab.connections).run_once()
    assert lab.status(good) == "IDLE"
    assert lab.value("SELECT count(*) FROM etl.etl_pipelines WHERE status = 'FAILED'") == len(bad) + 1
    lab.assert_equal(good)


def test_a_pipeline_moved_by_hand_while_it_runs_stops_neither_itself_nor_the_queue(lab: Lab) -> None:
    pipeline = mart(lab)
    repo, claim = claimed(lab)
    lab.sql("UPDATE etl.etl_pipelines SET status = 'FAILED'")
    other = mart(lab, name="other", target_table="analytics.other")
    lab.request(pipeline)
    lab.request(other)
    Runner(lab.connections).run_once()
    assert [lab.last_run(p)["status"] for p in (pipeline, other)] == ["SUCCESS", "SUCCESS"]
    assert runs(lab)[0] == (1, "FAILED", "the pipeline was moved by hand while it ran")
    with pytest.raises(LeaseLost):
        StateRepo(lab.db).fence(claim.pipeline_id, claim.epoch, claim.seq, Checkpoint(None, {}, None))
    with pytest.raises(LeaseLost):
        repo.succeed(claim)


def test_a_transform_that_raises_what_no_exception_is_costs_no_slot(lab: Lab) -> None:
    @transform("cancel")
    def cancel(_: Any) -> Any:
        raise CancelledError

    lab.configure(slots=1)
    pipeline = mart(lab, type="PYTHON", python_task="cancel")
    other = mart(lab, name="other", target_table="analytics.other")
    with lab.runner():
        lab.request(pipeline)
        wait_for(lambda: lab.status(pipeline) == "FAILED")
        lab.request(other)
        wait_for(lambda: lab.status(other) == "IDLE")
    lab.assert_equal(other)


def test_a_pipeline_deleted_between_two_batches_writes_no_more(lab: Lab) -> None:
    pipeline = mart(lab, batch_size=20)
    slowly(lab, 0.2)
    lab.sql("UPDATE etl.etl_pipelines SET batch_size = 20")
    lab.request(pipeline)
    worker = Thread(target=Runner(lab.connections).run_once)
    worker.start()
    wait_for(lambda: lab.value("SELECT coalesce(max(batches), 0) FROM etl.etl_runs") >= 1)
    lab.sql("DELETE FROM etl.etl_pipelines")
    written = lab.value("SELECT count(*) FROM analytics.mart")
    worker.join()
    assert lab.value("SELECT count(*) FROM analytics.mart") == written < 60
    PipelineManager(lab.db).tidy()
    assert lab.value("SELECT count(*) FROM pg_tables WHERE schemaname = 'etl_stage'") == 0


# ── scratch tables ───────────────────────────────────────────────────────────────────────────────────────────


def stage_of(lab: Lab, pipeline: Pipeline) -> str:
    name = f"etl_stage.k_{pipeline.id.hex}"
    lab.sql(f"SET ROLE vitrina_runner; CREATE TABLE {name} (); RESET ROLE")
    return name


def test_tidying_drops_what_no_run_holds(lab: Lab) -> None:
    pipeline = mart(lab)
    stage_of(lab, pipeline)
    lab.sql("CREATE TABLE etl_stage.k_00000000000000000000000000000000 ()")
    PipelineManager(lab.db).tidy()
    assert lab.value("SELECT count(*) FROM pg_tables WHERE schemaname = 'etl_stage'") == 0


def test_tidying_leaves_what_a_run_holds(lab: Lab) -> None:
    pipeline = mart(lab)
    stage_of(lab, pipeline)
    claimed(lab)
    PipelineManager(lab.db).tidy()
    assert lab.value("SELECT count(*) FROM pg_tables WHERE schemaname = 'etl_stage'") == 1


def test_tidying_leaves_what_was_claimed_after_it_looked(lab: Lab) -> None:
    pipeline = mart(lab)
    name = stage_of(lab, pipeline).removeprefix("etl_stage.")
    claimed(lab)
    PipelineManager(lab.db)._drop_stage(name)
    assert lab.value("SELECT count(*) FROM pg_tables WHERE schemaname = 'etl_stage'") == 1


def test_a_scratch_table_that_cannot_be_dropped_stops_nothing(lab: Lab) -> None:
    lab.sql("CREATE TABLE etl_stage.k_00000000000000000000000000000000 ()")
    lab.sql("CREATE TABLE etl_stage.by_hand ()")
    with connect(lab.connections.warehouse, "test") as conn:
        PipelineManager(conn).tidy()
    assert lab.value("SELECT count(*) FROM pg_tables WHERE schemaname = 'etl_stage'") == 2

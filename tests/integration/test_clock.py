"""Leases and schedules when the database's clock jumps by hours, either way."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from psycopg.types.json import Jsonb

from tests.clocks import jump
from tests.support import Lab
from vitrina.cli import checking_warehouse
from vitrina.domain.pipeline import Pipeline
from vitrina.meta.db import connect
from vitrina.meta.repos.clock import ClockRepo
from vitrina.meta.repos.leases import Claim, LeaseRepo
from vitrina.meta.repos.requests import RequestRepo
from vitrina.runner.clock import ClockWatch
from vitrina.runner.control import RunControl
from vitrina.runner.heartbeat import Heartbeat
from vitrina.runner.identity import Identity
from vitrina.runner.main import Runner
from vitrina.runner.manager import PipelineManager

FILMS = "SELECT f.id AS film_id, f.title FROM content.film_work f"
LEASE = 60


def add(lab: Lab, name: str = "mart", **config: Any) -> Pipeline:
    return lab.add(
        **({"name": name, "target_table": f"analytics.{name}", "source_query": FILMS, "key": ["film_id"]} | config)
    )


def hold(lab: Lab, pipeline: Pipeline) -> tuple[LeaseRepo, Claim]:
    """Somebody else runs it."""
    lab.request(pipeline)
    leases = LeaseRepo(lab.db, uuid4(), "another", LEASE)
    claim = leases.claim(pipeline.id)
    assert claim
    return leases, claim


def seconds_left(lab: Lab, table: str = "etl_leases", column: str = "expires_at") -> float:
    query = (
        f"SELECT extract(epoch FROM {column} - clock_timestamp())::float8 FROM etl.{table} WHERE {column} IS NOT NULL"
    )
    return float(lab.value(query))


def seen(lab: Lab) -> ClockWatch:
    """Somebody who has looked at the clock before it jumps."""
    watch = ClockWatch()
    assert not watch.look(lab.db)
    return watch


def due_in(lab: Lab, pipeline: Pipeline) -> timedelta:
    due: timedelta = lab.value("SELECT due_at - clock_timestamp() FROM etl.etl_pipelines WHERE id = %s", pipeline.id)
    return due


# ── set forward ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.scenario(70)
def test_a_clock_set_forward_takes_no_pipeline_from_a_runner_that_works(lab: Lab) -> None:
    leases, claim = hold(lab, pipeline := add(lab))
    runner = Runner(lab.connections)
    runner.clock.look(lab.db)
    jump(lab, 3, runner.clock)
    runner.run_once()
    assert (lab.status(pipeline), lab.last_run(pipeline)["attempt"]) == ("RUNNING", 1)
    assert leases.renew([claim.run_id]) == {claim.run_id: "RUNNING"}
    leases.succeed(claim)
    assert lab.value("SELECT crashes FROM etl.etl_leases") == 0


@pytest.mark.scenario(70)
def test_a_runner_whose_clock_was_set_forward_under_it_keeps_what_it_has(lab: Lab) -> None:
    """Its own heartbeat may be the first to look."""
    pipeline, identity = add(lab), Identity()
    lab.request(pipeline)
    claim = LeaseRepo(lab.db, identity.id, identity.name, LEASE).claim(pipeline.id)
    assert claim
    heart, control = Heartbeat(lab.connections, identity, LEASE, 1), RunControl(Runner(lab.connections).stopping)
    heart.watch(claim.run_id, control)
    heart._beat(lab.db)
    jump(lab, 3, heart.clock)
    heart._beat(lab.db)
    assert not control.lost.is_set()
    assert LEASE - 5 < seconds_left(lab) <= LEASE


@pytest.mark.scenario(70)
def test_who_was_lost_before_the_clock_was_set_forward_is_taken_over_one_lease_later(lab: Lab) -> None:
    hold(lab, pipeline := add(lab))
    watch = seen(lab)
    jump(lab, 3, watch)
    assert watch.look(lab.db)
    assert 0 < seconds_left(lab) <= LEASE
    assert not watch.look(lab.db)
    lab.sql("UPDATE etl.etl_leases SET expires_at = clock_timestamp()")
    Runner(lab.connections).run_once()
    assert (lab.status(pipeline), lab.last_run(pipeline)["attempt"]) == ("IDLE", 2)


def test_a_lease_that_had_run_out_before_is_not_given_back(lab: Lab) -> None:
    """Also if it was this process that stood still, which looks the same from here."""
    hold(lab, add(lab))
    lab.sql("UPDATE etl.etl_leases SET expires_at = clock_timestamp()")
    watch = seen(lab)
    jump(lab, 3, watch)
    assert watch.look(lab.db)
    assert seconds_left(lab) < -3600


@pytest.mark.scenario(70)
def test_after_a_clock_set_forward_each_schedule_is_served_once_and_goes_on(lab: Lab) -> None:
    pipeline = add(lab, schedule_interval="5m")
    runner = Runner(lab.connections)
    runner.run_once()
    PipelineManager(lab.db).tick()
    jump(lab, 3)
    for _ in range(3):
        Runner(lab.connections).run_once()
    assert lab.value("SELECT count(*) FROM etl.etl_runs") == 2
    assert timedelta(0) < due_in(lab, pipeline) <= timedelta(minutes=5)


# ── set back ─────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.scenario(70)
def test_a_clock_set_back_keeps_a_lost_runner_no_longer_than_its_lease(lab: Lab) -> None:
    hold(lab, pipeline := add(lab))
    jump(lab, -3)
    PipelineManager(lab.db).tick()
    assert 0 < seconds_left(lab) <= LEASE
    lab.sql("UPDATE etl.etl_leases SET expires_at = clock_timestamp()")
    Runner(lab.connections).run_once()
    assert (lab.status(pipeline), lab.last_run(pipeline)["attempt"]) == ("IDLE", 2)


@pytest.mark.scenario(70)
@pytest.mark.parametrize("schedule", ["5m", "*/5 * * * *"])
def test_a_clock_set_back_holds_no_schedule_up(lab: Lab, schedule: str) -> None:
    pipeline = add(lab, schedule_interval=schedule)
    PipelineManager(lab.db).tick()
    lab.sql("UPDATE etl.etl_pipelines SET due_at = now()")
    Runner(lab.connections).run_once()
    PipelineManager(lab.db).tick()
    jump(lab, -3)
    PipelineManager(lab.db).tick()
    assert due_in(lab, pipeline) <= timedelta(minutes=5)
    lab.sql("UPDATE etl.etl_pipelines SET due_at = now()")
    Runner(lab.connections).run_once()
    assert lab.value("SELECT array_agg(status) FROM etl.etl_runs") == ["SUCCESS", "SUCCESS"]
    PipelineManager(lab.db).tick()
    assert timedelta(0) < due_in(lab, pipeline) <= timedelta(minutes=5)


@pytest.mark.scenario(70)
def test_a_scheduled_time_that_comes_twice_is_served_twice_and_stops_nobody(lab: Lab) -> None:
    pipeline, other = add(lab, schedule_interval="*/5 * * * *"), add(lab, "other")
    PipelineManager(lab.db).tick()
    at = datetime.now(UTC).replace(microsecond=0)
    for _ in range(2):
        lab.sql("UPDATE etl.etl_pipelines SET due_at = %s, last_due_at = NULL WHERE id = %s", at, pipeline.id)
        Runner(lab.connections).run_once()
    assert lab.sql("SELECT due_at, status FROM etl.etl_runs ORDER BY id") == [(at, "SUCCESS"), (None, "SUCCESS")]
    assert lab.run(other)["status"] == "SUCCESS"


@pytest.mark.scenario(70)
def test_what_was_asked_for_before_the_clock_was_set_back_runs_at_once(lab: Lab) -> None:
    pipeline = add(lab)
    lab.request(pipeline)
    jump(lab, -3)
    Runner(lab.connections).run_once()
    assert lab.last_run(pipeline)["status"] == "SUCCESS"


def test_a_schedule_that_is_far_off_stays_so_when_the_clock_is_set_back(lab: Lab) -> None:
    pipeline = add(lab, schedule_interval="0 0 1 1 *")
    PipelineManager(lab.db).tick()
    before = due_in(lab, pipeline)
    jump(lab, -3)
    PipelineManager(lab.db).tick()
    assert abs(due_in(lab, pipeline) - before) < timedelta(minutes=1)


def test_a_clock_set_back_holds_up_nothing_that_was_to_come(lab: Lab) -> None:
    """Requests, captures, audits, followers that rest, runners that are gone: each after the time that was left."""
    pipeline = add(lab)
    lab.ask("reconcile", pipeline)
    assert RequestRepo(lab.db).claim(uuid4(), "another", LEASE, ["reconcile"], 3)
    lab.sql("INSERT INTO etl.etl_runners (id, name, version, slots, busy) VALUES (gen_random_uuid(), 'a', '0', 1, 0)")
    lab.sql(
        "INSERT INTO etl.etl_captures (source, kind, tables, slot, owner, expires_at, retry_at, generation_at)"
        " VALUES ('other', 'wal', '{}', 's', gen_random_uuid(), now() + interval '1 min', now() + interval '1 min',"
        " now())"
    )
    lab.sql("INSERT INTO etl.etl_mart_audits (pipeline_id, next_at) VALUES (%s, now() + interval '1 min')", pipeline.id)
    rests = {"live": {"not_before": "2999-01-01T00:00:00+00:00", "compare_after": "2999-01-01T00:00:00+00:00", "id": 7}}
    lab.sql("UPDATE etl.etl_state SET checkpoint = %s", Jsonb(rests))
    jump(lab, -3)
    assert ClockWatch().look(lab.db)
    left = {
        (table, column): seconds_left(lab, table, column)
        for table, column in (
            ("etl_requests", "expires_at"),
            ("etl_captures", "expires_at"),
            ("etl_captures", "retry_at"),
            ("etl_captures", "generation_at"),
            ("etl_mart_audits", "next_at"),
            ("etl_runners", "seen_at"),
        )
    }
    assert {place: seconds for place, seconds in left.items() if seconds > LEASE} == {}
    assert left["etl_requests", "expires_at"] > 0
    assert lab.value("SELECT checkpoint FROM etl.etl_state") == {"live": {"id": 7}}


# ── noticing ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_eight_who_look_put_things_right_once(lab: Lab) -> None:
    hold(lab, add(lab))
    jump(lab, -3)

    def look(_: int) -> bool:
        with connect(lab.connections.warehouse, "test") as conn:
            return ClockWatch().look(conn)

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(look, range(8))) == 1
    assert lab.value("SELECT set_back FROM etl.etl_clock") == 1
    assert 0 < seconds_left(lab) <= LEASE


def test_who_keeps_a_pipeline_locked_keeps_nothing_else_from_going_by_the_new_time(lab: Lab) -> None:
    locked, free = add(lab, schedule_interval="5m"), add(lab, "free", schedule_interval="5m")
    lab.sql("UPDATE etl.etl_pipelines SET last_due_at = now()")
    jump(lab, -3)
    with connect(lab.conninfo, "stranger") as stranger, stranger.transaction():
        stranger.execute("SELECT 1 FROM etl.etl_pipelines WHERE id = %s FOR UPDATE", [locked.id])
        PipelineManager(lab.db).tick()
    assert due_in(lab, free) <= timedelta(0)


def test_a_clock_that_goes_on_as_it_should_is_never_called_jumped(lab: Lab) -> None:
    hold(lab, add(lab))
    before = lab.sql("SELECT expires_at FROM etl.etl_leases")
    watch = seen(lab)
    for _ in range(3):
        ClockRepo(lab.db).see()
        assert not watch.look(lab.db)
    assert checking_warehouse.clock(ClockRepo(lab.db).look()).level == "ok"
    jump(lab, -1 / 3600)  # as time servers do
    assert not watch.look(lab.db)
    assert lab.sql("SELECT expires_at - interval '1 second' FROM etl.etl_leases") == before


@pytest.mark.parametrize("hours", [3, -3])
def test_a_jump_is_kept_for_people(lab: Lab, hours: int) -> None:
    watch = seen(lab)
    jump(lab, hours, watch)
    watch.look(lab.db)
    clock = ClockRepo(lab.db).look()
    assert clock.jumped_at
    assert clock.jumped_by == pytest.approx(hours * 3600, abs=60)
    check = checking_warehouse.clock(clock)
    assert (check.level, "set forward by" in check.message, "set back by" in check.message) == (
        "warn",
        hours > 0,
        hours < 0,
    )

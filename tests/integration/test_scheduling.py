"""Schedules, by the database's clock, with any number of runners."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from tests.support import Lab, wait_for
from vitrina.domain.pipeline import Pipeline
from vitrina.meta.db import connect
from vitrina.meta.repos.leases import LeaseRepo
from vitrina.meta.repos.pipelines import PipelineRepo
from vitrina.runner.main import Runner
from vitrina.runner.manager import PipelineManager

FILMS = "SELECT f.id AS film_id, f.title FROM content.film_work f"
CHANGED = "SELECT f.id AS film_id, f.title, f.modified FROM content.film_work f"


def scheduled(lab: Lab, schedule: str = "1h", **config: Any) -> Pipeline:
    return lab.add(**({"source_query": FILMS, "key": ["film_id"], "schedule_interval": schedule} | config))


def tick(lab: Lab) -> None:
    PipelineManager(lab.db).tick()


def due_at(lab: Lab) -> Any:
    return lab.value("SELECT due_at FROM etl.etl_pipelines")


def make_due(lab: Lab, ago: str = "1 second") -> None:
    lab.sql("UPDATE etl.etl_pipelines SET due_at = now() - %s::interval", ago)


def test_a_scheduled_pipeline_runs_and_is_planned_again(lab: Lab) -> None:
    pipeline = scheduled(lab)
    Runner(lab.connections).run_once()
    run = lab.last_run(pipeline)
    assert (run["status"], run["due_at"] is not None) == ("SUCCESS", True)
    tick(lab)
    assert due_at(lab) == run["due_at"] + timedelta(hours=1)
    lab.assert_equal(pipeline)


def test_who_ends_a_run_plans_the_next_and_wakes_nobody(lab: Lab) -> None:
    lab.configure(poll_seconds=60)
    scheduled(lab)
    with lab.connections.open_listener() as listener:
        listener.execute("LISTEN vitrina_wake")
        with lab.runner():
            wait_for(lambda: (due_at(lab) or datetime.min.replace(tzinfo=UTC)) > datetime.now(UTC))
        assert lab.value("SELECT array_agg(status) FROM etl.etl_runs") == ["SUCCESS"]
        assert [*listener.notifies(timeout=0.2)] == []
        lab.sql("UPDATE etl.etl_pipelines SET schedule_interval = '2h'")
        assert len([*listener.notifies(timeout=10, stop_after=1)]) == 1


def test_a_planned_pipeline_waits_for_its_time(lab: Lab) -> None:
    scheduled(lab, "0 0 1 1 *")
    Runner(lab.connections).run_once()
    assert lab.value("SELECT count(*) FROM etl.etl_runs") == 0
    assert due_at(lab) > datetime.now(UTC)


def test_what_was_missed_is_made_up_for_by_one_run(lab: Lab) -> None:
    scheduled(lab, "1m")
    tick(lab)
    make_due(lab, "3 hours")
    for _ in range(3):
        Runner(lab.connections).run_once()
    assert lab.value("SELECT count(*) FROM etl.etl_runs") == 1
    assert lab.value("SELECT due_at - now() BETWEEN interval '0' AND interval '1 min' FROM etl.etl_pipelines")


def test_eight_runners_run_a_due_time_once(lab: Lab) -> None:
    scheduled(lab)

    def plan_and_claim(_: int) -> int:
        with connect(lab.connections.warehouse, "test") as conn:
            PipelineManager(conn).tick()
            claim = LeaseRepo(conn, uuid4(), "somebody", 60).claim()
            if claim:
                LeaseRepo(conn, uuid4(), "somebody", 60)
            return int(claim is not None)

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(plan_and_claim, range(32))) == 1
    assert lab.value("SELECT count(*) FROM etl.etl_runs") == 1


def test_a_slow_planner_cannot_bring_a_due_time_back(lab: Lab) -> None:
    """It read the pipeline before a whole run of somebody else's, and writes its plan after it."""
    pipeline = scheduled(lab, "* * * * *")
    tick(lab)
    make_due(lab)
    planned = due_at(lab)
    Runner(lab.connections).run_once()
    PipelineRepo(lab.db).schedule(pipeline.id, "* * * * *", planned)
    assert due_at(lab) is None
    tick(lab)
    assert due_at(lab) > planned


@pytest.mark.parametrize("hindrance", ["paused", "failed", "disabled", "unscheduled"])
def test_a_schedule_does_not_start_what_should_rest(lab: Lab, hindrance: str) -> None:
    pipeline = scheduled(lab, "1s")
    tick(lab)
    match hindrance:
        case "paused":
            PipelineRepo(lab.db).request_pause(pipeline.id)
        case "failed":
            repo = LeaseRepo(lab.db, uuid4(), "somebody", 60)
            claim = repo.claim()
            assert claim
            repo.fail(claim, "an error")
        case "disabled":
            lab.sql("UPDATE etl.etl_pipelines SET enabled = false")
        case "unscheduled":
            lab.sql("UPDATE etl.etl_pipelines SET schedule_interval = NULL")
    before = lab.value("SELECT count(*) FROM etl.etl_runs")
    tick(lab)
    assert LeaseRepo(lab.db, uuid4(), "somebody", 60).claim() is None
    assert lab.value("SELECT count(*) FROM etl.etl_runs") == before


def test_an_edited_schedule_is_planned_anew(lab: Lab) -> None:
    scheduled(lab, "0 0 1 1 *")
    tick(lab)
    lab.sql("UPDATE etl.etl_pipelines SET schedule_interval = '* * * * *'")
    assert due_at(lab) is None
    tick(lab)
    assert lab.value("SELECT due_at - now() <= interval '1 min' FROM etl.etl_pipelines")


def test_an_edit_of_something_else_keeps_the_plan(lab: Lab) -> None:
    scheduled(lab, "0 0 1 1 *")
    tick(lab)
    planned = due_at(lab)
    lab.sql("UPDATE etl.etl_pipelines SET batch_size = 7")
    assert due_at(lab) == planned


def test_a_bad_schedule_written_by_hand_hinders_nobody_else(lab: Lab) -> None:
    for number, schedule in enumerate(["never", "", "9" * 5_000 + "s", "TZ=Nowhere * * * * *"]):
        lab.sql("INSERT INTO etl.etl_pipelines (name, schedule_interval) VALUES (%s, %s)", f"bad {number}", schedule)
    pipeline = scheduled(lab)
    Runner(lab.connections).run_once()
    assert lab.last_run(pipeline)["status"] == "SUCCESS"


def test_a_request_between_due_times_leaves_the_schedule_alone(lab: Lab) -> None:
    pipeline = scheduled(lab)
    Runner(lab.connections).run_once()
    last_due = lab.last_run(pipeline)["due_at"]
    tick(lab)
    assert lab.run(pipeline)["due_at"] is None
    tick(lab)
    assert due_at(lab) == last_due + timedelta(hours=1)


@pytest.mark.scenario(10)
@pytest.mark.parametrize("hours", [-1, 1])
def test_a_runner_whose_clock_is_an_hour_off_keeps_schedules_leases_and_horizon(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, hours: int
) -> None:
    """They come from the database: the runner's own clock is never asked."""
    cursor = {"mode": "incremental", "incremental_key": "modified"}
    early = scheduled(lab, name="early", target_table="analytics.early")
    late = scheduled(lab, name="late", target_table="analytics.late")
    held = lab.add(name="held", target_table="analytics.held", source_query=FILMS, key=["film_id"])
    followed = lab.add(source_query=CHANGED, key=["film_id"], **cursor)
    tick(lab)
    lab.sql("UPDATE etl.etl_pipelines SET due_at = now() + interval '30 min' WHERE name = 'early'")
    lab.sql("UPDATE etl.etl_pipelines SET due_at = now() - interval '30 min' WHERE name = 'late'")
    lab.request(held)
    assert LeaseRepo(lab.db, uuid4(), "another", 60).claim(held.id)
    monkeypatch.setattr("time.time", lambda: datetime.now(UTC).timestamp() + 3600 * hours)
    with psycopg.connect(lab.conninfo) as writer:
        writer.execute("UPDATE content.film_work SET title = title || '!', modified = clock_timestamp()")
        lab.request(followed)
        Runner(lab.connections).run_once()
    runs = {p.name: lab.value("SELECT count(*) FROM etl.etl_runs WHERE pipeline_id = %s", p.id) for p in (early, late)}
    assert runs == {"early": 0, "late": 1}
    assert (lab.status(held), lab.last_run(held)["attempt"]) == ("RUNNING", 1)
    lab.run(followed)
    lab.assert_equal(followed)

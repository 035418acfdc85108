"""A run stopped between batches, by a pause or by the end of its runner, and what goes on from there."""

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from threading import Thread
from typing import Any

import pytest

from tests.patience import short_lease, wait_for
from tests.support import Lab
from vitrina import transform
from vitrina.domain.pipeline import Pipeline
from vitrina.meta.repos.pipelines import PipelineRepo
from vitrina.runner.main import Runner

FILMS = "SELECT f.id AS film_id, f.title, f.modified FROM content.film_work f"
CURSOR = {"mode": "incremental", "incremental_key": "modified", "incremental_id_key": "film_id"}


@transform("test_pause_slow")
def slow(rows: Iterable[Any]) -> Iterable[Any]:
    time.sleep(0.1)
    return rows


def mart(lab: Lab, **config: Any) -> Pipeline:
    """A pipeline whose batches take a moment each."""
    lab.sql("CREATE TABLE analytics.mart (film_id uuid PRIMARY KEY, title text, modified timestamptz)")
    lab.sql("ALTER TABLE analytics.mart OWNER TO vitrina_runner")
    lab.sql(
        "CREATE FUNCTION analytics.nap() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN PERFORM pg_sleep(0.05); RETURN NULL; END $$"
    )
    lab.sql("CREATE TRIGGER nap AFTER INSERT ON analytics.mart EXECUTE FUNCTION analytics.nap()")
    return lab.add(**({"source_query": FILMS, "key": ["film_id"], "batch_size": 5} | config))


@contextmanager
def running(lab: Lab, pipeline: Pipeline) -> Iterator[Runner]:
    """A run in the background, waited for at the end."""
    lab.request(pipeline)
    runner = Runner(lab.connections)
    thread = Thread(target=runner.run_once, args=(pipeline.id,))
    thread.start()
    try:
        yield runner
    finally:
        thread.join()


def wait_for_batches(lab: Lab, count: int) -> None:
    query = "SELECT coalesce((SELECT batches FROM etl.etl_runs ORDER BY id DESC LIMIT 1), 0)"
    wait_for(
        lambda: lab.value(query) >= count and lab.value("SELECT count(*) FROM etl.etl_leases WHERE owner IS NULL") == 0
    )


def pause_after(lab: Lab, pipeline: Pipeline, batches: int) -> dict[str, Any]:
    """Start a run, ask for a pause after some batches, and tell how it ended."""
    with running(lab, pipeline):
        wait_for_batches(lab, batches)
        assert PipelineRepo(lab.db).request_pause(pipeline.id)
    return lab.last_run(pipeline)


def written(lab: Lab) -> set[Any]:
    """Which transaction wrote each row that equals its source."""
    return set(lab.sql("SELECT m.film_id, m.xmin FROM analytics.mart m JOIN content.film_work f ON f.id = m.film_id"
                       " AND f.title = m.title"))  # fmt: skip


def assert_paused_then_goes_on(lab: Lab, pipeline: Pipeline, run: dict[str, Any]) -> dict[str, Any]:
    assert (run["status"], run["error"], lab.status(pipeline)) == ("PAUSED", None, "PAUSED")
    assert lab.value("SELECT count(*) FROM etl.etl_leases WHERE owner IS NOT NULL") == 0
    done = written(lab)
    again = lab.run(pipeline)
    assert (again["status"], again["error"]) == ("SUCCESS", None)
    lab.assert_equal(pipeline)
    assert done <= written(lab), "rows that were done have been rewritten"
    return again


@pytest.mark.scenario(16)
def test_a_load_pauses_after_its_batch_and_goes_on(lab: Lab) -> None:
    pipeline = mart(lab)
    run = pause_after(lab, pipeline, 2)
    assert lab.value("SELECT count(*) FROM analytics.mart") == run["rows_written"] == 5 * run["batches"] < 60
    again = assert_paused_then_goes_on(lab, pipeline, run)
    assert again["rows_written"] == 60 - run["rows_written"]


@pytest.mark.scenario(16)
def test_a_convergence_pauses_after_its_batch_and_goes_on(lab: Lab) -> None:
    pipeline = mart(lab)
    lab.run(pipeline)
    lab.sql("UPDATE content.film_work SET title = title || '!'")
    run = pause_after(lab, pipeline, 2)
    assert len(written(lab)) == run["rows_written"] == 5 * run["batches"] < 60
    again = assert_paused_then_goes_on(lab, pipeline, run)
    assert again["rows_written"] == 60 - run["rows_written"]


@pytest.mark.scenario(16)
def test_an_incremental_run_pauses_after_its_batch_and_goes_on(lab: Lab) -> None:
    pipeline = mart(lab, **CURSOR)
    run = pause_after(lab, pipeline, 2)
    assert lab.value("SELECT count(*) FROM analytics.mart") == run["rows_read"] < 60
    again = assert_paused_then_goes_on(lab, pipeline, run)
    assert again["rows_read"] == 60 - run["rows_read"]


@pytest.mark.parametrize("mode", [{}, CURSOR])
def test_a_pause_reaches_a_run_that_is_busy_with_transforms(lab: Lab, mode: dict[str, Any]) -> None:
    """Staging is one step: it looks up between batches of rows, told by the heartbeat."""
    lab.configure(lease_seconds=short_lease())
    pipeline = mart(lab, type="PYTHON", python_task="test_pause_slow", batch_size=3, **mode)
    with running(lab, pipeline):
        wait_for(lambda: any(e["event"] == "mart_ready" for e in lab.events(pipeline)))
        PipelineRepo(lab.db).request_pause(pipeline.id)
    assert_paused_then_goes_on(lab, pipeline, lab.last_run(pipeline))


def test_a_pause_asked_for_during_the_last_batch_rests_after_success(lab: Lab) -> None:
    pipeline = mart(lab, batch_size=60)
    with running(lab, pipeline):
        wait_for(
            lambda: lab.value(
                "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND datname = current_database()"
            )
        )
        PipelineRepo(lab.db).request_pause(pipeline.id)
    assert lab.status(pipeline) == "PAUSED"
    lab.request(pipeline)
    Runner(lab.connections).run_once(pipeline.id)
    assert lab.status(pipeline) == "IDLE"
    lab.assert_equal(pipeline)


def test_a_pause_that_is_called_off_in_time_changes_nothing(lab: Lab) -> None:
    pipeline = mart(lab)
    with running(lab, pipeline):
        wait_for_batches(lab, 1)
        with lab.db.transaction():
            PipelineRepo(lab.db).request_pause(pipeline.id)
            assert lab.request(pipeline)
    assert (lab.status(pipeline), lab.value("SELECT count(*) FROM etl.etl_runs")) == ("IDLE", 1)
    lab.assert_equal(pipeline)


def test_pauses_asked_for_and_called_off_at_random_never_fail_a_run(lab: Lab) -> None:
    pipeline = mart(lab, batch_size=2)
    with running(lab, pipeline):
        wait_for_batches(lab, 1)
        for _ in range(60):
            PipelineRepo(lab.db).request_pause(pipeline.id)
            lab.request(pipeline)
    if lab.status(pipeline) != "IDLE":
        lab.request(pipeline)
        Runner(lab.connections).run_once(pipeline.id)
    assert lab.status(pipeline) == "IDLE"
    assert lab.value("SELECT count(*) FROM etl.etl_runs WHERE error IS NOT NULL OR status = 'FAILED'") == 0
    lab.assert_equal(pipeline)


def test_a_paused_pipeline_stays_paused(lab: Lab) -> None:
    pipeline = mart(lab, schedule_interval="1s")
    pause_after(lab, pipeline, 1)
    Runner(lab.connections).run_once()
    assert lab.status(pipeline) == "PAUSED"
    assert not PipelineRepo(lab.db).request_pause(pipeline.id)


def test_a_stopping_runner_hands_back_and_another_goes_on(lab: Lab) -> None:
    pipeline = mart(lab)
    with running(lab, pipeline) as runner:
        wait_for_batches(lab, 2)
        runner.stopping.set()
    run = lab.last_run(pipeline)
    assert (run["status"], lab.status(pipeline)) == ("PAUSED", "RUN_REQUESTED")
    done = written(lab)
    Runner(lab.connections).run_once()
    assert (lab.status(pipeline), done <= written(lab)) == ("IDLE", True)
    lab.assert_equal(pipeline)


# ── what an edit does to the checkpoint ──────────────────────────────────────────────────────────────────────


def dropped(lab: Lab, pipeline: Pipeline) -> bool:
    return any(event["event"] == "checkpoint_dropped" for event in lab.events(pipeline))


def test_another_query_drops_the_checkpoint_and_says_so(lab: Lab) -> None:
    pipeline = mart(lab, **CURSOR)
    pause_after(lab, pipeline, 2)
    lab.sql("UPDATE etl.etl_pipelines SET source_query = source_query || ' WHERE true'")
    run = lab.run(pipeline)
    assert (run["status"], run["rows_read"], dropped(lab, pipeline)) == ("SUCCESS", 60, True)
    lab.assert_equal(pipeline)


def test_another_batch_size_keeps_the_checkpoint(lab: Lab) -> None:
    pipeline = mart(lab, **CURSOR)
    paused = pause_after(lab, pipeline, 2)
    lab.sql("UPDATE etl.etl_pipelines SET batch_size = 50, description = 'new', schedule_interval = '1d'")
    run = lab.run(pipeline)
    assert (run["status"], run["rows_read"]) == ("SUCCESS", 60 - paused["rows_read"])
    assert not dropped(lab, pipeline)


def test_restart_drops_the_checkpoint(lab: Lab) -> None:
    pipeline = mart(lab, **CURSOR)
    lab.run(pipeline)
    assert lab.run(pipeline)["rows_read"] == 0
    assert lab.run(pipeline, restart=True)["rows_read"] == 60
    assert lab.run(pipeline)["rows_read"] == 0


@pytest.mark.scenario(19)
def test_a_run_keeps_the_configuration_it_was_claimed_with(lab: Lab) -> None:
    pipeline = mart(lab)
    with running(lab, pipeline):
        wait_for_batches(lab, 1)
        lab.sql("UPDATE etl.etl_pipelines SET batch_size = 1000")
    run = lab.last_run(pipeline)
    assert run["config_version"] == 1
    assert run["batches"] >= 12
    assert lab.run(pipeline)["config_version"] == 2

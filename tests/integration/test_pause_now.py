"""A pause at once: what a run has under way is cancelled where it runs, and nothing has failed."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from threading import Thread
from typing import Any

import pytest
from psycopg.conninfo import make_conninfo

from tests.patience import patient
from tests.support import Lab, wait_for
from vitrina.domain.pipeline import Pipeline
from vitrina.meta.db import Connection, connect
from vitrina.meta.repos.pipelines import PipelineRepo
from vitrina.runner.main import Runner

# A run of it ends when content.effort says so; until then it would take months.
RUNAWAY = """
    SELECT f.id AS film_id, f.title, f.modified,
           (SELECT count(*) FROM generate_series(1, e.n) a, generate_series(1, e.n) b WHERE a + b < f.rating) AS work
    FROM content.film_work f CROSS JOIN content.effort e
"""
BUSY = """SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND pid <> pg_backend_pid()
    AND datname = current_database() AND usename IN ('vitrina_reader', 'vitrina_runner')
    AND clock_timestamp() - query_start > interval '0.2 s'"""
CURSOR = {"mode": "incremental", "incremental_key": "modified", "incremental_id_key": "film_id"}
EFFORT = """CREATE TABLE content.effort (n bigint); INSERT INTO content.effort VALUES ({});
    GRANT SELECT ON content.effort TO vitrina_reader"""
MUCH = 1_000_000_000


def source(lab: Lab, where: str) -> tuple[str, Connection]:
    """The name of a source with a query that does not end, and a session of its owner."""
    conn, name = lab.db, "warehouse"
    if where == "elsewhere":
        conninfo, name = lab.other_database(), "other"
        conn = connect(conninfo, "owner")
        lab.connections = replace(lab.connections, sources={"other": make_conninfo(conninfo, user="vitrina_reader")})
    conn.execute(EFFORT.format(MUCH).encode())
    return name, conn


@contextmanager
def running(lab: Lab, pipeline: Pipeline) -> Iterator[None]:
    lab.request(pipeline)
    thread = Thread(target=Runner(lab.connections).run_once, args=(pipeline.id,), daemon=True)
    thread.start()
    yield
    thread.join(patient(30))
    assert not thread.is_alive()


def is_busy(conn: Connection) -> bool:
    row: Any = conn.execute(BUSY.encode()).fetchone()
    return bool(row["count"])


@pytest.mark.parametrize("where", ["here", "elsewhere"])
@pytest.mark.parametrize("mode", [{}, CURSOR], ids=["full", "incremental"])
def test_a_runaway_query_is_cancelled_and_the_pipeline_rests(lab: Lab, where: str, mode: dict[str, Any]) -> None:
    name, owner = source(lab, where)
    pipeline = lab.add(source_query=RUNAWAY, key=["film_id"], source=name, **mode)
    with running(lab, pipeline):
        wait_for(lambda: is_busy(owner))
        assert PipelineRepo(lab.db).request_pause(pipeline.id, now=True)
    run = lab.last_run(pipeline)
    assert (run["status"], run["error"], run["attempt"], lab.status(pipeline)) == ("PAUSED", None, 1, "PAUSED")
    assert not is_busy(owner)
    assert lab.value("SELECT run_options FROM etl.etl_pipelines") == {}

    owner.execute("UPDATE content.effort SET n = 1")
    assert lab.run(pipeline)["status"] == "SUCCESS"
    if where == "here":
        lab.assert_equal(pipeline)


def test_what_was_committed_before_stays_and_is_not_done_again(lab: Lab) -> None:
    lab.sql(EFFORT.format(1))
    pipeline = lab.add(source_query=RUNAWAY, key=["film_id"], batch_size=20, **CURSOR)
    assert lab.run(pipeline)["status"] == "SUCCESS"
    lab.sql("UPDATE content.film_work SET modified = clock_timestamp(), title = title || '!'")
    lab.sql("UPDATE content.effort SET n = %s", MUCH)
    before = lab.sql("SELECT checkpoint, seq FROM etl.etl_state")
    with running(lab, pipeline):
        wait_for(lambda: is_busy(lab.db))
        PipelineRepo(lab.db).request_pause(pipeline.id, now=True)
    ((checkpoint, seq),) = lab.sql("SELECT checkpoint, seq FROM etl.etl_state")
    assert (checkpoint["value"], seq >= before[0][1]) == (before[0][0]["value"], True)
    lab.sql("UPDATE content.effort SET n = 1")
    assert lab.run(pipeline)["status"] == "SUCCESS"
    lab.assert_equal(pipeline)


def test_one_that_was_asked_to_pause_may_be_told_to_hurry(lab: Lab) -> None:
    lab.sql(EFFORT.format(MUCH))
    pipeline, repo = lab.add(source_query=RUNAWAY, key=["film_id"]), PipelineRepo(lab.db)
    with running(lab, pipeline):
        wait_for(lambda: is_busy(lab.db))
        assert repo.request_pause(pipeline.id)
        assert repo.request_pause(pipeline.id, now=True)
        assert not repo.request_pause(pipeline.id, now=True)
    assert (lab.last_run(pipeline)["status"], lab.status(pipeline)) == ("PAUSED", "PAUSED")


def test_one_that_does_not_run_rests_at_once(lab: Lab) -> None:
    pipeline = lab.add(source_query="SELECT id AS film_id FROM content.film_work", key=["film_id"])
    assert PipelineRepo(lab.db).request_pause(pipeline.id, now=True)
    assert (lab.status(pipeline), lab.value("SELECT run_options FROM etl.etl_pipelines")) == ("PAUSED", {})


def test_a_pause_called_off_leaves_the_next_one_without_hurry(lab: Lab) -> None:
    pipeline = lab.add(source_query="SELECT id AS film_id FROM content.film_work", key=["film_id"])
    repo = PipelineRepo(lab.db)
    lab.sql("UPDATE etl.etl_pipelines SET status = 'RUNNING'")
    repo.request_pause(pipeline.id, now=True)
    assert lab.request(pipeline)
    repo.request_pause(pipeline.id)
    assert lab.sql("SELECT status, run_options FROM etl.etl_pipelines") == [("PAUSE_REQUESTED", {})]

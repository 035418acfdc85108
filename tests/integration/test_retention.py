"""The meta-store is bounded: what is old goes, in small transactions, and nothing goes that is still needed."""

from typing import Any
from uuid import uuid4

import psycopg
import pytest

from tests.support import Lab
from vitrina.meta.db import connect
from vitrina.meta.repos.leases import LeaseRepo
from vitrina.meta.repos.marks import TURN, Mark
from vitrina.meta.repos.retention import BATCH, NEWEST_RUNS, Ages, RetentionRepo
from vitrina.meta.repos.tokens import TokenRepo
from vitrina.runner.manager import PipelineManager

FILMS = "SELECT f.id AS film_id, f.title FROM content.film_work f"
AGES = Ages(events=14, runs=90, audit=365, versions=365)
OLD_RUNS = """
    INSERT INTO etl.etl_runs (pipeline_id, status, config_version, runner, started_at, finished_at)
    SELECT p.id, %s, 1, 'r', now() - interval '200 days', now() - interval '199 days'
    FROM etl.etl_pipelines p, generate_series(1, %s)
"""


def count(lab: Lab, table: str) -> int:
    return int(lab.value(f"SELECT count(*) FROM etl.{table}"))


def forget(lab: Lab, ages: Ages = AGES) -> dict[str, int]:
    """As the runner's role, with all the time it takes."""
    with connect(lab.connections.warehouse, "test") as conn:
        return dict(RetentionRepo(conn, ages).forget(60))


def mart(lab: Lab, name: str = "mart", **config: Any) -> None:
    lab.add(name=name, source_query=FILMS, key=["film_id"], target_table=f"analytics.{name}", **config)


def test_ten_thousand_old_runs_and_their_events_become_a_few(lab: Lab) -> None:
    mart(lab)
    lab.sql(OLD_RUNS, "SUCCESS", 10_000)
    lab.sql("INSERT INTO etl.etl_run_events (run_id, level, event) SELECT id, 'info', 'started' FROM etl.etl_runs")
    assert forget(lab) == {"runs": 10_000 - NEWEST_RUNS}
    assert (count(lab, "etl_runs"), count(lab, "etl_run_events")) == (NEWEST_RUNS, NEWEST_RUNS)
    newest = "SELECT min(id) FROM etl.etl_runs"
    assert lab.value(newest) == 10_000 - NEWEST_RUNS + 1
    assert forget(lab) == {}


def test_a_backlog_goes_in_turns_and_small_transactions(lab: Lab) -> None:
    mart(lab)
    lab.sql(OLD_RUNS, "SUCCESS", 3 * BATCH)
    with connect(lab.connections.warehouse, "test") as conn:
        assert RetentionRepo(conn, AGES).forget(0) == {}
        assert RetentionRepo(conn, AGES)._forget_some("runs") == {"runs": BATCH}
    assert count(lab, "etl_runs") == 2 * BATCH


def test_the_last_success_stays_however_long_it_has_failed_since(lab: Lab) -> None:
    mart(lab)
    lab.sql(OLD_RUNS, "SUCCESS", 2)
    lab.sql(OLD_RUNS, "FAILED", 200)
    last = lab.value("SELECT max(id) FROM etl.etl_runs WHERE status = 'SUCCESS'")
    forget(lab)
    assert lab.sql("SELECT id FROM etl.etl_runs WHERE status = 'SUCCESS'") == [(last,)]
    assert count(lab, "etl_runs") == NEWEST_RUNS + 1


def test_what_is_young_or_under_way_stays(lab: Lab) -> None:
    mart(lab)
    lab.sql(OLD_RUNS, "SUCCESS", NEWEST_RUNS)
    lab.sql("UPDATE etl.etl_runs SET finished_at = now() - interval '89 days'")
    lab.request(lab.add(name="other", source_query=FILMS, key=["film_id"], target_table="analytics.other"))
    claim = LeaseRepo(lab.db, uuid4(), "somebody", 60).claim()
    assert claim
    lab.sql("UPDATE etl.etl_runs SET started_at = now() - interval '400 days' WHERE status = 'RUNNING'")
    lab.sql("UPDATE etl.etl_config_versions SET changed_at = now() - interval '400 days'")
    assert forget(lab) == {}
    assert lab.value("SELECT run_id FROM etl.etl_leases WHERE owner IS NOT NULL") == claim.run_id


def test_old_versions_go_except_the_present_one_and_that_of_a_run(lab: Lab) -> None:
    pipeline = lab.add(source_query=FILMS, key=["film_id"], batch_size=1)
    lab.sql("UPDATE etl.etl_pipelines SET batch_size = 2")
    lab.request(pipeline)
    assert LeaseRepo(lab.db, uuid4(), "somebody", 60).claim()
    for size in (3, 4, 5):
        lab.sql("UPDATE etl.etl_pipelines SET batch_size = %s", size)
    lab.sql("UPDATE etl.etl_config_versions SET changed_at = now() - interval '400 days'")
    assert forget(lab) == {"versions": 3}
    assert lab.sql("SELECT version FROM etl.etl_config_versions ORDER BY 1") == [(2,), (5,)]
    lab.sql("UPDATE etl.etl_pipelines SET batch_size = 6")
    assert lab.value("SELECT max(version) FROM etl.etl_config_versions") == 6


def test_sessions_lost_runners_and_old_deeds_are_forgotten(lab: Lab) -> None:
    TokenRepo(lab.db).create("somebody", "admin")
    lab.sql(
        "INSERT INTO etl.etl_sessions (hash, token_id, kind, expires_at)"
        " SELECT sha256(n::text::bytea), t.id, 'session', now() + make_interval(mins => 60 * n + 30)"
        " FROM etl.etl_tokens t, generate_series(-3, 3) n WHERE t.name = 'somebody'"
    )
    lab.sql(
        "INSERT INTO etl.etl_audit (actor, action, at)"
        " SELECT 'somebody', 'run', now() - make_interval(days => n) FROM generate_series(300, 400) n"
    )
    lab.sql(
        "INSERT INTO etl.etl_runners (id, name, version, slots, seen_at)"
        " SELECT gen_random_uuid(), 'r', '1', 4, now() - make_interval(mins => 60 * n + 30)"
        " FROM generate_series(0, 47) n"
    )
    assert forget(lab) == {"sessions": 3, "audit": 36, "runners": 24}
    assert forget(lab) == {}


def test_one_runner_forgets_at_a_time(lab: Lab) -> None:
    mart(lab)
    lab.sql(OLD_RUNS, "SUCCESS", 100)
    with lab.connections.open_warehouse("other") as other, other.transaction():
        assert Mark(other, "vitrina retention", TURN).take()
        assert forget(lab) == {}
    assert forget(lab) == {"runs": 100 - NEWEST_RUNS}


def test_a_runner_cannot_have_anything_of_the_last_month_forgotten_that_people_did(lab: Lab) -> None:
    lab.sql("INSERT INTO etl.etl_audit (actor, action, at) VALUES ('thief', 'delete', now() - interval '29 days')")
    assert forget(lab, Ages(0, 0, 0, 0)) == {}
    with connect(lab.connections.warehouse, "test") as conn, pytest.raises(psycopg.errors.InsufficientPrivilege):
        conn.execute("DELETE FROM etl.etl_audit")


def test_a_runner_tidies_up_by_itself(lab: Lab) -> None:
    mart(lab)
    lab.sql(OLD_RUNS, "SUCCESS", 100)
    with connect(lab.connections.warehouse, "test") as conn:
        PipelineManager(conn).tidy()
    assert count(lab, "etl_runs") == NEWEST_RUNS

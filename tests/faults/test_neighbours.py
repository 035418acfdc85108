"""One neighbour is down, hangs or holds a lock; nobody else notices."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from socket import socket
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from pydantic import SecretStr

from tests.patience import promptly
from tests.support import Lab, wait_for
from tests.wire import black_hole, is_called, through, to_postgres, wired
from vitrina.domain.pipeline import Pipeline
from vitrina.meta.migrate import upgrade
from vitrina.meta.repos.leases import LeaseRepo
from vitrina.meta.repos.marks import TURN, Mark
from vitrina.meta.repos.requests import RequestRepo
from vitrina.meta.roles import ensure_roles
from vitrina.runner.main import Runner

pytestmark = pytest.mark.faults
FILMS = "SELECT id, title FROM content.film_work"


def healthy(lab: Lab, name: str = "healthy", **more: Any) -> Pipeline:
    """One that has all it needs."""
    return lab.add(name=name, source_query=FILMS, key=["id"], target_table=f"analytics.{name}", **more)


@contextmanager
def locked(lab: Lab, query: str, *params: object) -> Iterator[None]:
    """Somebody's session that has locked rows and stays."""
    with psycopg.connect(lab.conninfo, options="-c idle_in_transaction_session_timeout=30s") as conn:
        conn.execute(query.encode(), params)
        yield


@pytest.mark.scenario(65)
def test_an_elasticsearch_that_hangs_keeps_nobody_from_running(lab: Lab) -> None:
    pipeline = healthy(lab)
    with black_hole() as hole:
        lab.configure(elasticsearch_url=SecretStr(f"http://127.0.0.1:{hole.getsockname()[1]}"))
        with lab.runner():
            wait_for(lambda: is_called(hole))  # somebody waits for its answer now
            lab.request(pipeline)
            wait_for(lambda: lab.status(pipeline) == "IDLE")
    assert lab.last_run(pipeline)["status"] == "SUCCESS"


@pytest.mark.scenario(66)
def test_a_pipeline_that_somebody_keeps_locked_is_planned_later_and_the_others_run(lab: Lab) -> None:
    other = healthy(lab, "other", schedule_interval="1h")
    pipeline = healthy(lab)
    with locked(lab, "SELECT FROM etl.etl_pipelines WHERE id = %s FOR UPDATE", other.id), lab.runner():
        lab.request(pipeline)
        wait_for(lambda: lab.status(pipeline) == "IDLE")


@pytest.mark.scenario(66)
def test_a_live_pipeline_that_somebody_keeps_locked_is_woken_later_and_the_others_run(lab: Lab) -> None:
    lab.sql(
        "INSERT INTO etl.etl_captures (source, kind, tables, slot, installed_at, position, owner, expires_at)"
        " VALUES ('warehouse', 'wal', '{}', 's', now(), '0/0', gen_random_uuid(), now() + interval '1 hour')"
    )
    live = healthy(lab, "live", mode="live")
    pipeline = healthy(lab)
    with locked(lab, "SELECT FROM etl.etl_pipelines WHERE id = %s FOR UPDATE", live.id), lab.runner():
        lab.request(pipeline)
        wait_for(lambda: lab.status(pipeline) == "IDLE")


@pytest.mark.scenario(66)
def test_a_request_that_somebody_keeps_locked_does_not_stop_the_heart(lab: Lab) -> None:
    owner, request = uuid4(), lab.ask("reconcile", healthy(lab))
    repo = RequestRepo(lab.db)
    assert repo.claim(owner, "me", 5, ["reconcile"], 3)
    lab.sql("SET statement_timeout = '2s'")
    with locked(lab, "SELECT FROM etl.etl_requests WHERE id = %s FOR UPDATE", request):
        assert repo.renew(owner, 5, [(request, 1)]) == {(request, 1)}
        assert repo.bury(1) == []
    before = lab.value("SELECT expires_at FROM etl.etl_requests")
    repo.renew(owner, 50, [(request, 1)])
    assert lab.value("SELECT expires_at FROM etl.etl_requests") > before


# ── sources and sinks that do not answer ─────────────────────────────────────────────────────────────────────────


def add_dead(lab: Lab, hole: socket, count: int) -> None:
    """Pipelines of a source that takes connections and never says a word; all have waited for long."""
    shop = f"postgresql://reader@127.0.0.1:{hole.getsockname()[1]}/shop?sslmode=disable"
    lab.connections = replace(lab.connections, sources={"shop": shop})
    first = healthy(lab, "dead_0", source="shop")
    lab.sql(
        "INSERT INTO etl.etl_pipelines (name, source, source_query, key, target_table)"
        " SELECT 'dead_' || n, 'shop', source_query, key, 'analytics.dead_' || n"
        " FROM etl.etl_pipelines, generate_series(1, %s) n WHERE id = %s",
        count - 1,
        first.id,
    )
    lab.sql("UPDATE etl.etl_pipelines SET status = 'RUN_REQUESTED' WHERE source = 'shop'")
    lab.sql("UPDATE etl.etl_pipelines SET due_at = now() - interval '1 hour' WHERE source = 'shop'")


def running(lab: Lab) -> int:
    """How many of them hold a slot."""
    return int(lab.value("SELECT count(*) FROM etl.etl_pipelines WHERE source = 'shop' AND status = 'RUNNING'"))


@pytest.mark.scenario(67)
def test_a_thousand_pipelines_of_a_dead_source_hold_one_slot_and_a_healthy_one_starts_at_once(lab: Lab) -> None:
    pipeline = healthy(lab)
    with black_hole() as hole:
        add_dead(lab, hole, 1000)
        with lab.runner():
            wait_for(lambda: is_called(hole))
            with promptly(2.5):  # two on an idle machine, of which the run itself is most; it was 196
                lab.request(pipeline)
                wait_for(lambda: lab.status(pipeline) == "IDLE")
            assert running(lab) == 1
            hole.close()  # whoever waits for an answer is told


@pytest.mark.scenario(67)
def test_who_answers_again_is_noticed_and_what_waited_runs(lab: Lab) -> None:
    """The source goes away under a run of its own; nobody is claimed until it is back, and then all are."""
    with wired(to_postgres(lab.conninfo)) as wire:
        shop = through(wire, make_conninfo(lab.conninfo, user="vitrina_reader"))
        lab.connections = replace(lab.connections, sources={"shop": shop})
        pipelines = [healthy(lab, f"shop_{n}", source="shop") for n in range(6)]
        wire.close()
        with lab.runner():
            lab.request(pipelines[0])
            wait_for(lambda: lab.value("SELECT count(*) FROM etl.etl_runners WHERE neighbours ? 'shop'"))
            assert "shop" in lab.connections.neighbours.outages
            for pipeline in pipelines[1:]:
                lab.request(pipeline)
            wait_for(lambda: lab.value("SELECT count(*) FROM etl.etl_postponed"))  # it had its attempts, and waits too
            assert lab.value("SELECT count(*) FROM etl.etl_runs WHERE pipeline_id <> %s", pipelines[0].id) == 0
            wire.open()
            wait_for(lambda: all(lab.status(pipeline) == "IDLE" for pipeline in pipelines), 30)
            wait_for(lambda: lab.value("SELECT count(*) FROM etl.etl_runners WHERE neighbours = '{}'"))
    assert lab.value("SELECT count(*) FROM etl.etl_runs WHERE status = 'SUCCESS'") == 6


@pytest.mark.scenario(65)
def test_many_pipelines_of_a_dead_index_leave_a_slot_to_others(lab: Lab) -> None:
    pipeline = healthy(lab)
    with black_hole() as hole:
        url = SecretStr(f"http://127.0.0.1:{hole.getsockname()[1]}")
        lab.configure(elasticsearch_url=url, allowed_es_indexes=["*"])
        dead = [lab.add(name=f"i{n}", source_query=FILMS, key=["id"], target_table=f"es:dead_{n}") for n in range(12)]
        for one in dead:
            lab.request(one)
        with lab.runner():
            wait_for(lambda: lab.value("SELECT count(*) FROM etl.etl_runs"))
            lab.request(pipeline)
            wait_for(lambda: lab.status(pipeline) == "IDLE")
            assert lab.value("SELECT count(*) FROM etl.etl_pipelines WHERE status = 'RUNNING'") == 1
            hole.close()


# ── locks of strangers ───────────────────────────────────────────────────────────────────────────────────────────

HOLD = "SELECT pg_advisory_lock_shared(hashtextextended(%s::text, %s))"


def lose_runner(lab: Lab, pipeline: Pipeline) -> None:
    """It was claimed by somebody who has been silent for long."""
    lab.request(pipeline)
    assert LeaseRepo(lab.db, uuid4(), "lost", 0).claim(pipeline.id)


@pytest.mark.scenario(69)
@pytest.mark.parametrize("runner", ["vitrina_runner", "postgres"])
def test_a_lock_that_a_stranger_holds_stops_no_takeover_and_no_run_and_is_left_alone(lab: Lab, runner: str) -> None:
    """Whoever knows a pipeline's id can take its lock; a runner that may end the session must not, one that may not
    goes on."""
    lab.connections = replace(lab.connections, warehouse=make_conninfo(lab.conninfo, user=runner))
    pipelines = [healthy(lab), healthy(lab, "other")]
    for pipeline in pipelines:
        lose_runner(lab, pipeline)
    with psycopg.connect(lab.conninfo, autocommit=True) as stranger:
        stranger.execute(HOLD, [pipelines[0].id, 0])
        assert Runner(lab.connections).run_once() == 2
        assert stranger.execute("SELECT 1").fetchone() == (1,)
    for pipeline in pipelines:
        assert (lab.last_run(pipeline)["attempt"], lab.last_run(pipeline)["status"]) == (2, "SUCCESS")


@pytest.mark.scenario(69)
def test_locks_that_a_stranger_holds_stop_no_upgrade(lab: Lab) -> None:
    with psycopg.connect(lab.conninfo, autocommit=True) as stranger:
        for name in ("vitrina migrate", "vitrina roles"):
            stranger.execute(HOLD, [name, TURN])
        lab.db.execute("SET statement_timeout = '60s'")
        upgrade(lab.conninfo)
        assert ensure_roles(lab.db, ["content"], ["analytics"]).separated


@pytest.mark.scenario(69)
def test_a_lock_that_a_stranger_holds_takes_no_turn_away(lab: Lab) -> None:
    with (
        psycopg.connect(lab.conninfo, autocommit=True) as stranger,
        lab.connections.open_warehouse("first") as ours,
        lab.connections.open_warehouse("second") as other,
    ):
        stranger.execute(HOLD, ["vitrina freshness", TURN])
        with ours.transaction():
            assert Mark(ours, "vitrina freshness", TURN).is_my_turn()
        with ours.transaction(), other.transaction():
            assert Mark(ours, "vitrina retention", TURN).is_my_turn()
            assert not Mark(other, "vitrina retention", TURN).is_my_turn()


@pytest.mark.scenario(69)
def test_a_silent_session_of_ours_is_ended(lab: Lab) -> None:
    pipeline = healthy(lab)
    lose_runner(lab, pipeline)
    mine = "SELECT count(*) FROM pg_locks k JOIN pg_stat_activity a USING (pid) WHERE k.locktype = 'advisory'"
    with lab.connections.open_warehouse("run healthy") as silent, lab.connections.open_warehouse("slot") as conn:
        silent.execute(HOLD, [pipeline.id, 0])
        (dead,) = LeaseRepo(conn, uuid4(), "successor", 5).expired()
        LeaseRepo(conn, uuid4(), "successor", 5).expel(dead)
        wait_for(lambda: lab.value(f"{mine} AND a.datname = current_database()") == 0)

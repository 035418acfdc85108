"""A source, a sink or the warehouse is away for a while: what needs it waits, and goes on by itself."""

import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from psycopg.conninfo import make_conninfo
from pydantic import SecretStr

from tests.capturing import Captured
from tests.elastic import Search, open_search
from tests.faults.rig import address_of
from tests.support import FAST, Lab, make_connections, make_templates, wait_for
from tests.wire import Wire, through, to_postgres, wired
from vitrina.control.plane import ControlPlane
from vitrina.control.services.pipelines import PipelineService
from vitrina.domain.pipeline import Pipeline
from vitrina.domain.run import RunOptions
from vitrina.embedded.postgres import EmbeddedPostgres
from vitrina.meta.db import connect
from vitrina.meta.repos.alerts import AlertRepo
from vitrina.runner.main import Runner

pytestmark = pytest.mark.faults
FILMS = "SELECT id AS film_id, title, modified FROM content.film_work"
CURSOR = {"mode": "incremental", "incremental_key": "modified", "incremental_id_key": "film_id"}
SUCCEEDED = "SELECT count(DISTINCT pipeline_id) FROM etl.etl_runs WHERE status = 'SUCCESS'"
CHANGED = "SELECT count(*) FROM analytics.{} WHERE title LIKE '%%!'"
ATTEMPTS = "SELECT status FROM etl.etl_run_attempts WHERE run_id = %s ORDER BY attempt"
SECONDS = [1, pytest.param(40, marks=pytest.mark.long), pytest.param(300, marks=pytest.mark.long(seconds=300))]


@pytest.fixture
def wire(lab: Lab) -> Iterator[Wire]:
    """To source `shop`, which is the lab's own database."""
    with wired(to_postgres(lab.conninfo)) as wire:
        shop = through(wire, make_conninfo(lab.conninfo, user="vitrina_reader"))
        log = through(wire, make_conninfo(lab.conninfo, user="vitrina_capture"))
        captures = {**lab.connections.captures, "shop": log}
        lab.connections = replace(lab.connections, sources={"shop": shop}, captures=captures)
        lab.configure(outage_pause_seconds=2, poll_seconds=0.1)
        yield wire


def mart(lab: Lab, name: str = "mart", **more: Any) -> Pipeline:
    values = {"source": "shop", "source_query": FILMS, "key": ["film_id"], "target_table": f"analytics.{name}"} | more
    return lab.add(name=name, **values)


def waits(lab: Lab, pipeline: Pipeline) -> bool:
    """Whether it does, without a slot."""
    held = lab.value("SELECT owner IS NOT NULL FROM etl.etl_leases WHERE pipeline_id = %s", pipeline.id)
    noted = lab.value("SELECT count(*) FROM etl.etl_postponed WHERE pipeline_id = %s", pipeline.id)
    return bool(noted) and not held and lab.status(pipeline) == "RUN_REQUESTED"


@pytest.fixture
def people(lab: Lab) -> Iterator[PipelineService]:
    """What they may do, as the API does it."""
    plane = ControlPlane(make_conninfo(lab.conninfo, user="vitrina_api"), lab.connections)
    plane.pool.open()
    try:
        yield PipelineService(plane, "ann")
    finally:
        plane.pool.close()


def says_whom(people: PipelineService, name: str) -> tuple[str, str] | None:
    """It waits for, as people see it."""
    found = people.status(name).waits
    return (found.kind, found.whom) if found else None


def is_to_be_tried(people: PipelineService, name: str) -> bool:
    """Whether people are told when, also of one that nobody has begun or that is followed."""
    found = people.status(name).waits
    return found is not None and found.next_at is not None


@contextmanager
def away(lab: Lab, wire: Wire, pipeline: Pipeline) -> Iterator[None]:
    """It waits for a source that is away, and no runner is there to notice that it comes back."""
    wire.close()
    lab.run(pipeline)
    assert waits(lab, pipeline)
    yield


# ── who cannot be reached is waited for ──────────────────────────────────────────────────────────────────────────


@pytest.mark.scenario(73)
@pytest.mark.parametrize("seconds", SECONDS)
def test_a_source_that_is_away_is_waited_for_whoever_asked_for_the_run(
    lab: Lab, wire: Wire, people: PipelineService, seconds: float
) -> None:
    Captured(lab, "wal", source="shop").install("content.film_work")
    followed = mart(lab, "followed", mode="live")
    with lab.runner():
        wait_for(lambda: lab.status(followed) == "FOLLOWING", 30)
        asked = mart(lab, "asked")
        wire.close()
        mart(lab, "planned", schedule_interval="1s")
        mart(lab, "cursor", schedule_interval="1s", **CURSOR)
        lab.request(asked)
        for name in ("asked", "planned", "cursor", "followed"):
            wait_for(lambda name=name: says_whom(people, name) == ("neighbour", "source shop"), 30)  # type: ignore[misc]
            wait_for(lambda name=name: is_to_be_tried(people, name), 30)  # type: ignore[misc]
        time.sleep(seconds)
        lab.sql("UPDATE content.film_work SET title = title || '!', modified = clock_timestamp()")
        wire.open()
        wait_for(lambda: lab.status(asked) == "IDLE", 30)
        wait_for(lambda: lab.value(SUCCEEDED) == 4, 30)
        wait_for(lambda: lab.value(CHANGED.format("followed")) == lab.value(CHANGED.format("asked")) > 0, 60)
        assert lab.status(followed) == "FOLLOWING"
    run = lab.last_run(asked)
    assert (run["status"], run["error"]) == ("SUCCESS", None)
    assert lab.value("SELECT count(*) FROM etl.etl_runs WHERE pipeline_id = %s", asked.id) == 1
    assert [status for (status,) in lab.sql(ATTEMPTS, run["id"])][-1] == "SUCCESS"
    assert lab.value("SELECT count(*) FROM etl.etl_runs WHERE status = 'FAILED'") == 0
    assert lab.value("SELECT count(*) FROM etl.etl_incidents WHERE kind = 'failed'") == 0
    lab.assert_equal(asked)
    lab.assert_equal(followed)


@pytest.mark.scenario(73)
def test_a_source_that_goes_away_amid_a_run_is_waited_for(lab: Lab, wire: Wire) -> None:
    pipeline = mart(lab)
    with lab.runner():
        with lab.db.transaction():
            lab.sql("LOCK TABLE content.film_work IN ACCESS EXCLUSIVE MODE")
            with connect(lab.conninfo, "asker") as asker:
                asker.execute("UPDATE etl.etl_pipelines SET status = 'RUN_REQUESTED'")
                waiting = "SELECT count(*) AS n FROM pg_locks WHERE NOT granted AND locktype = 'relation'"
                wait_for(lambda: asker.execute(waiting).fetchall()[0]["n"])
            wire.close()
        wait_for(lambda: waits(lab, pipeline))
        wire.open()
        wait_for(lambda: lab.status(pipeline) == "IDLE", 30)
    lab.assert_equal(pipeline)


@pytest.mark.scenario(73)
def test_an_elasticsearch_that_is_away_is_waited_for(lab: Lab, people: PipelineService) -> None:
    with wired(Wire(("127.0.0.1", 1))) as wire:
        lab.configure(elasticsearch_url=SecretStr(f"http://127.0.0.1:{wire.port}"), allowed_es_indexes=["*"])
        pipeline = mart(lab, source="warehouse", target_table="es:films")
        lab.run(pipeline)
        assert waits(lab, pipeline)
        found = people.status("mart").waits
    assert found
    assert (found.kind, found.neighbour, found.whom) == ("neighbour", "es:", "Elasticsearch")


@pytest.fixture
def search(lab: Lab, elastic: str, index_prefix: str) -> Iterator[Search]:
    """What it asks itself goes past the wire."""
    with open_search(lab, elastic, index_prefix) as search:
        yield search


@pytest.mark.long
@pytest.mark.scenario(73)
@pytest.mark.parametrize("seconds", [1, 40, pytest.param(300, marks=pytest.mark.long(seconds=300))])
def test_indexes_of_every_mode_wait_for_an_elasticsearch_that_is_away(
    search: Search, elastic: str, people: PipelineService, seconds: float
) -> None:
    lab = search.lab
    Captured(lab, "wal").install("content.film_work")
    with wired(Wire(address_of(elastic))) as wire:
        url = SecretStr(f"http://127.0.0.1:{wire.port}")
        lab.configure(elasticsearch_url=url, outage_pause_seconds=2, poll_seconds=0.1)
        query = {"source_query": FILMS}
        asked, followed = search.add("asked", **query), search.add("followed", mode="live", **query)
        others = [
            search.add("planned", schedule_interval="1s", **query),
            search.add("cursor", schedule_interval="1s", **CURSOR, **query),
        ]
        with lab.runner():
            lab.request(asked)
            wait_for(lambda: lab.value(SUCCEEDED) == 4 and lab.status(followed) == "FOLLOWING", 60)
            wire.close()
            lab.sql("UPDATE content.film_work SET title = title || '!', modified = clock_timestamp()")
            lab.request(asked)
            for one in (asked, followed, *others):
                wait_for(lambda one=one: says_whom(people, one.name) == ("neighbour", "Elasticsearch"), 30)  # type: ignore[misc]
            assert lab.status(followed) == "FOLLOWING"
            time.sleep(seconds)
            wire.open()
            for one in (asked, followed, *others):
                wait_for(lambda one=one: search.documents(one.name) == search.wanted(one), 60)  # type: ignore[misc]
            wait_for(lambda: people.status("followed").waits is None, 30)
            assert lab.status(followed) == "FOLLOWING"
    assert lab.value("SELECT count(*) FROM etl.etl_runs WHERE status = 'FAILED'") == 0
    assert lab.value("SELECT count(*) FROM etl.etl_incidents WHERE kind = 'failed'") == 0


@pytest.mark.scenario(73)
@pytest.mark.parametrize("seconds", SECONDS)
def test_the_warehouse_is_waited_for_with_the_meta_store_in_it(seconds: float) -> None:
    """A server of its own, stopped while runs are under way and while others are due."""
    home = Path(tempfile.mkdtemp(prefix="vitrina-away-"))
    home.chmod(0o755)
    kept = {"fsync": "on", "full_page_writes": "on", "synchronous_commit": "on"}
    server = EmbeddedPostgres(home / "postgres", settings=FAST | kept)
    server.start()
    try:
        make_templates(server.conninfo())
        conninfo = server.conninfo("vitrina_template")
        with connect(conninfo, "lab") as db:
            connections = make_connections(conninfo, poll_seconds=0.1, lease_seconds=3)
            stop_and_go(Lab(conninfo, db, connections), server, seconds)
    finally:
        server.purge()
        shutil.rmtree(home, ignore_errors=True)


def stop_and_go(lab: Lab, server: EmbeddedPostgres, seconds: float) -> None:
    lab.sql("CREATE TABLE content.items AS SELECT n AS id, now() AS at FROM generate_series(1, 200) n")
    lab.sql("ALTER TABLE content.items ADD PRIMARY KEY (id)")
    lab.sql("GRANT SELECT ON ALL TABLES IN SCHEMA content TO vitrina_reader")
    Captured(lab, "trigger").install("content.items")
    query = "SELECT id, at FROM content.items"
    marts = [
        lab.add(name="whole", source_query=query, key=["id"], target_table="analytics.whole"),
        lab.add(
            name="plan",
            source_query=query,
            key=["id"],
            target_table="analytics.plan",
            schedule_interval="1s",
            mode="incremental",
            incremental_key="at",
            incremental_id_key="id",
        ),
        lab.add(
            name="live",
            source_query=query,
            key=["id"],
            target_table="analytics.live",
            mode="live",
        ),
    ]
    with lab.runner():
        wait_for(lambda: lab.value(SUCCEEDED) == 2)
        holder = connect(lab.conninfo, "holder")  # until the server ends it
        holder.execute("BEGIN; LOCK TABLE content.items IN ACCESS EXCLUSIVE MODE")
        lab.request(marts[0])
        wait_for(lambda: lab.value("SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype = 'relation'"))
        server.stop(mode="immediate")
        holder.close()
        time.sleep(seconds)
        server.start()
        lab.db = connect(lab.conninfo, "lab")
        lab.sql("INSERT INTO content.items SELECT n, now() FROM generate_series(1001, 1010) n")
        wait_for(lambda: lab.status(marts[0]) == "IDLE", 60)
        new = "SELECT count(DISTINCT p.id), count(DISTINCT l.id) FROM analytics.plan p, analytics.live l"
        wait_for(lambda: lab.sql(new) == [(210, 210)], 60)
    assert lab.value("SELECT count(*) FROM etl.etl_pipelines WHERE status = 'FAILED'") == 0
    assert lab.last_run(marts[0])["status"] == "SUCCESS"
    lab.run(marts[0])
    for pipeline in marts:
        lab.assert_equal(pipeline)
    lab.db.close()


# ── what only a person can mend ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.scenario(73)
@pytest.mark.parametrize("wrong", [{"dbname": "nothing_there"}, {"user": "nobody_there"}])
def test_who_answers_with_a_refusal_is_not_away(lab: Lab, wire: Wire, wrong: dict[str, str]) -> None:
    shop = make_conninfo(lab.connections.sources["shop"], **wrong)
    lab.connections = replace(lab.connections, sources={"shop": shop})
    pipeline = mart(lab)
    run = lab.run(pipeline)
    assert (lab.status(pipeline), run["attempt"]) == ("FAILED", 1)
    assert "does not exist" in run["error"]
    assert "password" in run["remedy"]
    assert not lab.connections.neighbours.outages


def test_what_failed_is_tried_again_where_its_pipeline_says_so(lab: Lab) -> None:
    lab.configure(failure_pause_seconds=(0.2, 1), poll_seconds=0.1)
    stays = lab.add(name="stays", source_query="SELECT 1/0 AS id", key=["id"], target_table="analytics.stays")
    again = lab.add(
        name="again",
        source_query="SELECT 1 / x AS id FROM content.knob",
        key=["id"],
        target_table="analytics.again",
        on_failure="retry",
    )
    lab.sql("CREATE TABLE content.knob AS SELECT 0 AS x")
    lab.sql("GRANT SELECT ON content.knob TO vitrina_reader")
    with lab.runner():
        lab.request(stays)
        lab.request(again)
        wait_for(lambda: lab.value("SELECT coalesce(max(tries), 0) FROM etl.etl_postponed") >= 3)
        assert lab.value("SELECT count(*) FROM etl.etl_incidents WHERE kind = 'failed'") == 2
        lab.sql("UPDATE content.knob SET x = 1")
        wait_for(lambda: lab.status(again) == "IDLE")
        assert lab.status(stays) == "FAILED"
    assert lab.value("SELECT count(*) FROM etl.etl_postponed") == 0
    assert lab.value("SELECT count(*) FROM etl.etl_runs WHERE pipeline_id = %s AND status = 'FAILED'", again.id) >= 3
    assert lab.sql("SELECT pipeline_id FROM etl.etl_incidents") == [(stays.id,)]


# ── what people may do meanwhile ─────────────────────────────────────────────────────────────────────────────────


def test_it_says_whom_it_waits_for_since_when_and_until_when(lab: Lab, wire: Wire, people: PipelineService) -> None:
    pipeline = mart(lab)
    with away(lab, wire, pipeline):
        found = people.status("mart").waits
        assert found
        assert (found.kind, found.neighbour, found.whom) == ("neighbour", "shop", "source shop")
        assert found.tries is not None
        assert found.next_at
        assert found.next_at > found.since
        assert "cannot connect to Postgres" in found.said
        first = lab.value("SELECT next_at - clock_timestamp() FROM etl.etl_postponed")
        lab.sql("UPDATE etl.etl_pipelines SET due_at = now()")
        Runner(lab.connections).run_once(pipeline.id)
        [(tries, is_later)] = lab.sql("SELECT tries, next_at - clock_timestamp() > %s FROM etl.etl_postponed", first)
        assert (tries > found.tries, is_later) == (True, True)
    said = [event["fields"] for event in lab.events(pipeline) if event["event"] == "waits"]
    told = [(fields["neighbour"], fields["tries"]) for fields in said]
    assert told == [("source shop", number) for number in range(1, tries + 1)]


def test_a_run_of_one_that_waits_is_a_try_now(lab: Lab, wire: Wire, people: PipelineService) -> None:
    pipeline = mart(lab)
    wire.close()
    lab.run(pipeline)
    lab.sql("UPDATE etl.etl_postponed SET next_at = now() + interval '1 hour'")
    lab.sql("UPDATE etl.etl_pipelines SET due_at = (SELECT next_at FROM etl.etl_postponed)")
    wire.open()
    assert Runner(lab.connections).run_once() == 0
    lab.connections.neighbours.lose("shop", "as this process still believes")
    answer = people.run("mart", RunOptions())
    assert (answer.changed, answer.status) == (True, "RUN_REQUESTED")
    Runner(lab.connections).run_once()
    run = lab.last_run(pipeline)
    assert (lab.status(pipeline), run["status"]) == ("IDLE", "SUCCESS")
    assert run["id"] > answer.after_run
    assert lab.value("SELECT count(*) FROM etl.etl_runs") == 1


@pytest.mark.parametrize("how", ["pause", "disable", "delete"])
def test_one_that_waits_may_be_paused_disabled_and_deleted(
    lab: Lab, wire: Wire, people: PipelineService, how: str
) -> None:
    pipeline = mart(lab)
    with away(lab, wire, pipeline):
        if how == "delete":
            people.delete("mart")
            assert lab.value("SELECT count(*) FROM etl.etl_postponed") == 0
            return
        people.pause("mart") if how == "pause" else people.set_enabled("mart", False)
        assert lab.last_run(pipeline)["status"] == "PAUSED"
        assert lab.value("SELECT count(*) FROM etl.etl_postponed") == 0
        assert people.status("mart").waits is None
        wire.open()
        people.set_enabled("mart", True)
        if how == "pause":
            people.run("mart", RunOptions())
        else:
            lab.sql("UPDATE etl.etl_pipelines SET due_at = now()")
        Runner(lab.connections).run_once(pipeline.id)
        assert lab.last_run(pipeline)["status"] == "SUCCESS"


def test_an_alert_says_who_has_been_away_for_long_and_that_it_is_over(
    lab: Lab, wire: Wire, people: PipelineService
) -> None:
    pipeline = mart(lab)
    with away(lab, wire, pipeline):
        AlertRepo(lab.db).check_freshness(60, 12, 300)
        assert lab.sql("SELECT event FROM etl.etl_alerts") == []
        for _ in range(2):
            AlertRepo(lab.db).check_freshness(60, 12, 0)
        assert lab.sql("SELECT event, details ->> 'neighbour' FROM etl.etl_alerts") == [("outage", "shop")]
        assert [row["kind"] for row in people.status("mart").incidents] == ["outage"]
        wire.open()
        lab.sql("UPDATE etl.etl_pipelines SET due_at = now()")
        Runner(lab.connections).run_once(pipeline.id)
        AlertRepo(lab.db).check_freshness(60, 12, 0)
    told = lab.sql("SELECT event, details ->> 'after' FROM etl.etl_alerts ORDER BY number")
    assert told == [("outage", None), ("recovered", "outage")]

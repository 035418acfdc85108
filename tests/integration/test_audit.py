"""The audit of live marts: it finds what was changed by hand, puts it right and tells; never a change on its way."""

import random
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from threading import Event
from typing import Any

import psycopg
import pytest

from tests.elastic import Search, open_search
from tests.living import Living, living, living_elsewhere
from tests.support import Lab, beside, wait_for
from vitrina import Row, transform
from vitrina.domain.pipeline import Pipeline
from vitrina.engine.live import audit as audit_module
from vitrina.meta.db import connect
from vitrina.runner.main import Runner

TITLES = "SELECT id AS film_id, title, rating FROM content.film_work"
VOTES = "SELECT film_id::text AS film, count(*) AS votes, sum(rating) AS points FROM ugc.ratings GROUP BY film_id"
PAIRS = "SELECT film_work_id AS film, genre_id AS genre, id FROM content.genre_film_work"
PLACES = "SELECT id AS film_id, rank() OVER (ORDER BY rating DESC NULLS LAST, id) AS place FROM content.film_work"
CHANGES = (
    "UPDATE content.film_work SET rating = (random() * 10)::int, title = md5(random()::text) WHERE random() < 0.1",
    "UPDATE ugc.ratings SET rating = (random() * 10)::int WHERE random() < 0.02",
    "DELETE FROM ugc.ratings WHERE random() < 0.002",
    "INSERT INTO content.film_work (id, title, type) VALUES (gen_random_uuid(), 'new', 'movie')",
)
SHADOW = "SELECT format('%I.%I', schemaname, tablename) FROM pg_tables WHERE schemaname = 'etl_shadow'"
SPOIL = {
    "updated": "UPDATE {} SET title = 'by hand' WHERE film_id = (SELECT min(film_id::text) FROM {})::uuid",
    "deleted": "DELETE FROM {} WHERE film_id = (SELECT max(film_id::text) FROM {})::uuid",
    "added": "INSERT INTO {} (film_id, title) VALUES (gen_random_uuid(), 'by hand')",
}


@pytest.fixture(params=["trigger", "wal"])
def live(lab: Lab, request: pytest.FixtureRequest) -> Iterator[Living]:
    lab.configure(audit_share=1.0, audit_rest_seconds=3600)
    with living(lab, request.param) as live:
        yield live


def audited(live: Living, pipeline: Pipeline) -> dict[str, Any]:
    """How its audit stands."""
    query = "SELECT to_jsonb(a) FROM etl.etl_mart_audits a WHERE pipeline_id = %s"
    return dict(live.lab.value(query, pipeline.id))


def audit(live: Living, pipeline: Pipeline) -> dict[str, Any]:
    """A whole lap, as a runner makes it that finds it due."""
    before = live.lab.value("SELECT clock_timestamp()")
    lapped = "SELECT whole_since > %s FROM etl.etl_mart_audits WHERE pipeline_id = %s"
    for _ in range(100):
        live.lab.sql("UPDATE etl.etl_mart_audits SET next_at = now()")
        Runner(live.lab.connections).run_once()
        if live.lab.value(lapped, before, pipeline.id):
            return audited(live, pipeline)
    raise AssertionError("no lap was made")


def incidents(lab: Lab) -> list[tuple[str]]:
    return lab.sql("SELECT kind FROM etl.etl_incidents ORDER BY 1")


@pytest.mark.parametrize("how", SPOIL)
def test_a_row_that_was_changed_by_hand_is_found_put_right_and_told(live: Living, how: str) -> None:
    pipeline = live.add(TITLES)
    live.follow(pipeline)
    assert audit(live, pipeline)["wrong"] == 0
    live.lab.sql(SPOIL[how].format(*["analytics.mart"] * 2))
    found = audit(live, pipeline)
    assert (found["wrong"], found["whole_wrong"], incidents(live.lab)) == (1, 1, [("wrong",)])
    live.assert_equal(pipeline)
    assert audit(live, pipeline)["wrong"] == 1
    assert incidents(live.lab) == []
    told = live.lab.sql("SELECT event, details ->> 'rows', jsonb_array_length(details -> 'keys') FROM etl.etl_alerts")
    assert told == [("wrong", "1", 1), ("recovered", None, None)]


@transform("audit_loud")
def loud(rows: Sequence[Row]) -> Iterator[Row]:
    """In capitals."""
    for row in rows:
        yield row | {"title": row["title"].upper()}


def test_also_of_another_server(lab: Lab) -> None:
    lab.configure(audit_share=1.0, audit_rest_seconds=3600)
    lab.sql("DROP SCHEMA content, ugc CASCADE")
    with living_elsewhere(lab, "wal") as live:
        pipeline = live.add(VOTES, ["film"])
        live.follow(pipeline)
        assert audit(live, pipeline)["wrong"] == 0
        lab.sql("UPDATE analytics.mart SET votes = votes + 1 WHERE film = (SELECT min(film) FROM analytics.mart)")
        lab.sql("DELETE FROM analytics.mart WHERE film = (SELECT max(film) FROM analytics.mart)")
        lab.sql("INSERT INTO analytics.mart VALUES ('a stranger', 1, 1)")
        assert audit(live, pipeline)["wrong"] == 3
        live.assert_equal(pipeline)


def test_also_behind_a_transform(live: Living) -> None:
    tasks = [
        {"order_index": 1, "task_type": "SQL", "body": TITLES},
        {"order_index": 2, "task_type": "PYTHON", "body": "audit_loud"},
    ]
    pipeline = live.lab.add(mode="live", key=["film_id"], tasks=tasks)
    live.follow(pipeline)
    assert audit(live, pipeline)["wrong"] == 0
    for statement in SPOIL.values():
        live.lab.sql(statement.format(*["analytics.mart"] * 2))
    assert audit(live, pipeline)["wrong"] == 3
    live.assert_equal(pipeline, f"SELECT film_id, upper(title) AS title, rating FROM ({TITLES}) AS q")


@pytest.fixture
def search(lab: Lab, elastic: str, index_prefix: str) -> Iterator[tuple[Living, Search]]:
    lab.configure(audit_share=1.0, audit_rest_seconds=3600)
    with living(lab, "wal") as live, open_search(live.lab, elastic, index_prefix) as search:
        yield live, search


def test_documents_that_were_changed_deleted_or_added_by_hand_are_found(search: tuple[Living, Search]) -> None:
    live, index = search
    pipeline = index.add(source_query=TITLES, mode="live")
    live.follow(pipeline)
    assert audit(live, pipeline)["wrong"] == 0
    changed, deleted, *_ = sorted(index.documents())
    index.http.put(f"/{index.name()}/_doc/{changed}", json={"title": "by hand"}).raise_for_status()
    index.http.delete(f"/{index.name()}/_doc/{deleted}").raise_for_status()
    assert audit(live, pipeline)["wrong"] == 2
    index.http.put(f"/{index.name()}/_doc/stranger", json={"title": "by hand"}).raise_for_status()
    assert audit(live, pipeline)["wrong"] == 3
    assert index.documents() == index.wanted(pipeline)
    assert audit(live, pipeline)["wrong"] == 3


def test_a_shadow_that_was_changed_by_hand_is_found(search: tuple[Living, Search]) -> None:
    live, index = search
    pipeline = index.add(source_query=TITLES, mode="live")
    live.follow(pipeline)
    shadow = live.lab.value(SHADOW)
    live.lab.sql(f"DELETE FROM {shadow} WHERE film_id = (SELECT film_id FROM {shadow} LIMIT 1)")
    audit(live, pipeline)
    assert audit(live, pipeline)["wrong"] >= 1
    assert index.documents() == index.wanted(pipeline)


# ── every key is reached ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("query", "key"), [(PAIRS, ["film", "genre"]), (VOTES, ["film"])])
def test_however_small_the_ranges_every_key_is_in_one(
    live: Living, query: str, key: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit_module, "MOST_ROWS", 7)
    pipeline = live.add(query, key)
    live.follow(pipeline)
    live.lab.sql("UPDATE etl.etl_mart_audits SET size = 7")
    rows = live.lab.value("SELECT count(*) FROM analytics.mart")
    assert audit(live, pipeline)["rows"] == rows > 14
    live.lab.sql("DELETE FROM analytics.mart WHERE random() < 0.3")
    gone = rows - live.lab.value("SELECT count(*) FROM analytics.mart")
    assert audit(live, pipeline)["wrong"] == gone
    live.assert_equal(pipeline)


def test_very_many_wrong_rows_mean_a_comparison(live: Living, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vitrina.engine.live.sampling.MOST_SUSPECTS", 10)
    pipeline = live.add(TITLES)
    live.follow(pipeline)
    live.lab.sql("UPDATE analytics.mart SET title = 'by hand'")
    assert audit(live, pipeline)["wrong"] == 10
    wait_for(lambda: run_what_is_due(live) and "comparing" not in live.position(pipeline))
    live.assert_equal(pipeline)


def run_what_is_due(live: Living) -> bool:
    Runner(live.lab.connections).run_once()
    return True


def test_a_lap_goes_on_after_the_runner_has_ended(live: Living, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_module, "BURST_SECONDS", 0.0)
    pipeline = live.add(TITLES)
    live.follow(pipeline)
    live.lab.sql("UPDATE etl.etl_mart_audits SET size = 10, next_at = now()")
    run_what_is_due(live)
    first = audited(live, pipeline)
    assert (first["rows"], first["whole_since"]) == (10, None)
    films = live.lab.value("SELECT count(*) FROM content.film_work")
    assert audit(live, pipeline)["rows"] == 2 * films  # the rest of that lap, and one more


# ── what a change explains ───────────────────────────────────────────────────────────────────────────────────


def test_a_change_that_is_not_in_the_log_yet_is_no_finding(live: Living) -> None:
    pipeline = live.add(TITLES)
    live.follow(pipeline)
    live.captured.stop()
    live.lab.sql("UPDATE content.film_work SET title = title || '!'")
    live.lab.sql("UPDATE etl.etl_mart_audits SET next_at = now()")
    with live.lab.runner():
        wait_for(lambda: live.lab.status(pipeline) == "FOLLOWING")
        wait_for(lambda: audited(live, pipeline)["whole_since"], 60)
    live.captured.start()
    assert audited(live, pipeline)["wrong"] == 0
    live.assert_equal(pipeline)
    assert incidents(live.lab) == []


@pytest.mark.long
@pytest.mark.parametrize(("query", "key"), [(TITLES, ["film_id"]), (VOTES, ["film"]), (PLACES, ["film_id"])])
def test_under_writers_it_finds_nothing_and_the_mart_ends_equal(live: Living, query: str, key: list[str]) -> None:
    assert_nothing_found_under_writers(live, live.add(query, key))


@pytest.mark.long
def test_nor_does_it_where_the_source_is_another_server(lab: Lab) -> None:
    lab.sql("DROP SCHEMA content, ugc CASCADE")
    with living_elsewhere(lab, "wal") as live:
        assert_nothing_found_under_writers(live, live.add(VOTES, ["film"]))


def assert_nothing_found_under_writers(live: Living, pipeline: Pipeline) -> None:
    lab = live.lab
    lab.configure(audit_share=1.0, audit_rest_seconds=0)
    with lab.runner():
        wait_for(lambda: live.position(pipeline).get("compare_after"), 30)
        lab.sql("UPDATE etl.etl_mart_audits SET size = 20")
        with beside(Event(), *[partial(change, live, seed) for seed in range(4)]):
            pass
        wait_for(lambda: is_equal(live, pipeline), 30)
        wait_for(lambda: audited(live, pipeline)["rows"])  # at the latest now: each comparison has settled its range
    assert (audited(live, pipeline)["wrong"], incidents(lab)) == (0, [])


def change(live: Living, seed: int) -> None:
    """A writer, in transactions that overlap with those of others."""
    rng = random.Random(seed)
    with connect(live.captured.conn.info.dsn, "application") as conn:
        conn.execute("SET deadlock_timeout = '20ms'")
        for _ in range(60):
            with suppress(psycopg.errors.DeadlockDetected), conn.transaction():
                for statement in rng.sample(CHANGES, 2):
                    conn.execute(statement.encode())
                time.sleep(rng.random() / 30)


def is_equal(live: Living, pipeline: Pipeline) -> bool:
    try:
        live.assert_equal(pipeline)
    except AssertionError:
        return False
    return True


# ── what it costs ────────────────────────────────────────────────────────────────────────────────────────────


def test_it_takes_no_more_than_its_share_of_the_time(live: Living) -> None:
    lab = live.lab
    lab.configure(audit_share=0.1, audit_rest_seconds=0)
    pipeline = live.add(TITLES)
    live.follow(pipeline)
    began = lab.value("SELECT clock_timestamp()")
    lab.sql("UPDATE etl.etl_mart_audits SET next_at = now(), rows = 0, seconds = 0")
    with lab.runner():
        wait_for(lambda: audited(live, pipeline)["rows"] >= 3 * 60, 60)
    query = "SELECT seconds, extract(epoch FROM next_at - %s)::float8 FROM etl.etl_mart_audits"
    spent, until = lab.sql(query, began)[0]
    assert 0 < spent <= 0.1 * until


def test_it_can_be_switched_off_and_on(live: Living) -> None:
    lab, pipeline = live.lab, live.add(TITLES)
    live.follow(pipeline)
    lab.configure(audit_share=0.0)
    lab.sql("UPDATE etl.etl_mart_audits SET next_at = now()")
    run_what_is_due(live)
    assert (audited(live, pipeline)["next_at"], audited(live, pipeline)["rows"]) == (None, 0)
    lab.configure(audit_share=1.0)
    live.follow(pipeline)
    assert audit(live, pipeline)["rows"] == 60

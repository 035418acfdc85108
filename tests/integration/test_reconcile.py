"""Reconcile: differences planted by hand are found and named, and nothing is written."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from threading import Thread
from typing import Any

import psycopg
import pytest

from tests.support import BLOCKED, Lab, wait_for
from vitrina import Row, transform
from vitrina.domain.pipeline import Pipeline
from vitrina.inquiries import reconcile

FILMS = "SELECT f.id AS film_id, f.title, f.rating FROM content.film_work f"
AGG = "SELECT film_id, avg(rating) AS avg_rating, count(*) AS votes FROM ugc.ratings GROUP BY film_id"
KINDS = ("missing", "extra", "different")


@pytest.fixture(autouse=True)
def _settle_quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reconcile, "MOMENT_SECONDS", 0.1)


@transform("shout", adds={"loud": "text"})
def shout(rows: Sequence[Row]) -> Iterator[Row]:
    """For the staged way."""
    for row in rows:
        yield row | {"loud": row["title"].upper()}


def counts(report: dict[str, Any]) -> tuple[int, ...]:
    """Missing, extra, different."""
    return tuple(report[kind] for kind in KINDS)


def in_place(lab: Lab) -> Pipeline:
    """Local, no transforms."""
    return lab.add(source_query=FILMS, key=["film_id"])


def through_python(lab: Lab) -> Pipeline:
    """Staged, because rows go through a transform."""
    tasks = [
        {"order_index": 1, "task_type": "SQL", "body": FILMS},
        {"order_index": 2, "task_type": "PYTHON", "body": "shout"},
    ]
    return lab.add(tasks=tasks, key=["film_id"])


def remote(lab: Lab) -> Pipeline:
    """Staged, because the source is another database."""
    lab.connections = replace(lab.connections, sources={"there": lab.other_database()})
    return lab.add(source="there", source_query=FILMS, key=["film_id"])


WAYS = pytest.mark.parametrize("make", [in_place, through_python, remote])


def plant(lab: Lab) -> list[str]:
    """One row gone, one too many, one changed; their keys, in that order."""
    keys = [row[0] for row in lab.sql("SELECT film_id::text FROM analytics.mart ORDER BY film_id LIMIT 2")]
    lab.sql("DELETE FROM analytics.mart WHERE film_id = %s", keys[0])
    lab.sql("UPDATE analytics.mart SET title = 'planted' WHERE film_id = %s", keys[1])
    added = "ffffffff-ffff-4fff-8fff-ffffffffffff"
    lab.sql("INSERT INTO analytics.mart (film_id, title) VALUES (%s, 'nobody knows')", added)
    return [keys[0], added, keys[1]]


@WAYS
def test_equal_says_equal(lab: Lab, make: Any) -> None:
    pipeline = make(lab)
    lab.run(pipeline)
    report = lab.reconcile(pipeline)
    assert report["equal"] is True
    assert report["running"] is False
    assert (report["query_rows"], report["mart_rows"], *counts(report)) == (60, 60, 0, 0, 0)
    assert report["samples"] == {"missing": [], "extra": [], "different": []}
    ends = lab.sql("SELECT film_id::text FROM analytics.mart ORDER BY film_id")
    assert report["control"]["field"] == "film_id"
    assert report["control"]["query"] == {"min": ends[0][0], "max": ends[-1][0]} == report["control"]["mart"]


@WAYS
def test_planted_differences_are_found_and_named(lab: Lab, make: Any) -> None:
    pipeline = make(lab)
    lab.run(pipeline)
    missing, extra, different = plant(lab)
    before = lab.sql("SELECT md5(string_agg(m::text, ',' ORDER BY film_id)), max(xmin::text) FROM analytics.mart m")
    title = lab.value("SELECT title FROM content.film_work WHERE id = %s", different)
    report = lab.reconcile(pipeline)
    assert report["equal"] is False
    assert (report["query_rows"], report["mart_rows"], *counts(report)) == (60, 60, 1, 1, 1)
    assert report["samples"]["missing"] == [{"key": {"film_id": missing}}]
    assert report["samples"]["extra"] == [{"key": {"film_id": extra}}]
    (sample,) = report["samples"]["different"]
    assert sample == {"key": {"film_id": different}, "columns": {"title": {"query": title, "mart": "planted"}}}
    assert report["control"]["mart"]["max"] == extra
    after = lab.sql("SELECT md5(string_agg(m::text, ',' ORDER BY film_id)), max(xmin::text) FROM analytics.mart m")
    assert after == before
    assert (
        lab.sql("SELECT relname FROM pg_class WHERE relnamespace = 'etl_stage'::regnamespace AND relkind = 'r'") == []
    )


def test_many_differences_are_counted_and_sampled(lab: Lab) -> None:
    pipeline = lab.add(source_query=AGG, key=["film_id"], batch_size=3)
    lab.run(pipeline)
    rows = lab.value("SELECT count(*) FROM analytics.mart")
    lab.sql("UPDATE analytics.mart SET votes = votes + 1")
    report = lab.reconcile(pipeline, sample=2)
    assert counts(report) == (0, 0, rows)
    assert [list(sample["columns"]) for sample in report["samples"]["different"]] == [["votes"], ["votes"]]
    assert lab.reconcile(pipeline, sample=0)["samples"]["different"] == []


def test_the_same_number_written_otherwise_is_a_difference(lab: Lab) -> None:
    lab.sql("CREATE TABLE content.t (id int PRIMARY KEY, n numeric)")
    lab.sql("INSERT INTO content.t VALUES (1, 1.0)")
    pipeline = lab.add(source_table="content.t", key=["id"])
    lab.run(pipeline)
    lab.sql("UPDATE analytics.mart SET n = 1.00")
    report = lab.reconcile(pipeline)
    assert report["samples"]["different"] == [{"key": {"id": "1"}, "columns": {"n": {"query": "1.0", "mart": "1.00"}}}]


def test_composite_keys(lab: Lab) -> None:
    query = "SELECT film_id, rating, count(*) AS n FROM ugc.ratings GROUP BY film_id, rating"
    pipeline = lab.add(source_query=query, key=["film_id", "rating"])
    lab.run(pipeline)
    film, rating = lab.sql("SELECT film_id::text, rating::text FROM analytics.mart ORDER BY 1, 2 LIMIT 1")[0]
    lab.sql("UPDATE analytics.mart SET n = -1 WHERE film_id::text = %s AND rating::text = %s", film, rating)
    report = lab.reconcile(pipeline)
    assert counts(report) == (0, 0, 1)
    assert report["samples"]["different"][0]["key"] == {"film_id": film, "rating": rating}


@pytest.mark.parametrize(("key", "other", "value"), [('text COLLATE "C"', "text", "%s"), ("text[]", "text[]", "{%s}")])
def test_keys_that_the_mart_compares_in_its_own_way(lab: Lab, key: str, other: str, value: str) -> None:
    a, b, c = (value % name for name in ("a", "B", "ä"))
    lab.sql(f"CREATE TABLE content.t (id {other} PRIMARY KEY, n int)")
    lab.sql("INSERT INTO content.t VALUES (%s, 1), (%s, 2), (%s, 3)", a, b, c)
    lab.sql(f"CREATE TABLE analytics.mart (id {key} PRIMARY KEY, n int)")
    pipeline = lab.add(source_table="content.t", key=["id"])
    assert lab.run(pipeline)["error"] is None
    assert lab.reconcile(pipeline)["equal"] is True
    lab.sql("UPDATE analytics.mart SET n = 0 WHERE n = 1")
    lab.sql("DELETE FROM analytics.mart WHERE n = 2")
    report = lab.reconcile(pipeline)
    assert counts(report) == (1, 0, 1)
    assert report["samples"]["missing"] == [{"key": {"id": b}}]
    assert lab.run(pipeline, repair=True)["error"] is None
    assert lab.reconcile(pipeline)["equal"] is True


def test_a_long_value_is_cut_and_marked_and_null_is_null(lab: Lab) -> None:
    lab.sql("CREATE TABLE content.t (id int PRIMARY KEY, a text)")
    lab.sql("INSERT INTO content.t VALUES (1, repeat('x', 300))")
    pipeline = lab.add(source_table="content.t", key=["id"])
    lab.run(pipeline)
    lab.sql("UPDATE analytics.mart SET a = NULL")
    column = lab.reconcile(pipeline)["samples"]["different"][0]["columns"]["a"]
    assert column == {"query": "x" * 200 + "… (300 characters)", "mart": None}


def test_the_control_field_can_be_chosen(lab: Lab) -> None:
    pipeline = in_place(lab)
    lab.run(pipeline)
    low, high = lab.sql("SELECT min(rating)::text, max(rating)::text FROM content.film_work")[0]
    assert lab.reconcile(pipeline, control_field="rating")["control"]["query"] == {"min": low, "max": high}
    row = lab.answer("reconcile", pipeline, control_field="nothing")
    assert row["status"] == "FAILED"
    assert "control field nothing is not compared" in row["said"]


def test_changes_on_their_way_are_no_differences(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = in_place(lab)
    lab.run(pipeline)
    plant(lab)

    def arrive(_: reconcile.Reconciliation) -> None:
        lab.sql("UPDATE analytics.mart m SET title = f.title FROM content.film_work f WHERE f.id = m.film_id")
        lab.sql("DELETE FROM analytics.mart WHERE film_id NOT IN (SELECT id FROM content.film_work)")

    monkeypatch.setattr(reconcile.Reconciliation, "_wait_a_moment", arrive)
    report = lab.reconcile(pipeline)
    assert counts(report) == (1, 0, 0)
    assert report["settled"] == 2


@pytest.mark.parametrize("make", [through_python, remote])
def test_changes_at_the_source_are_read_again(lab: Lab, make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = make(lab)
    lab.run(pipeline)
    for batch_size in (1000, 1):  # by key, and everything
        lab.sql("UPDATE etl.etl_pipelines SET batch_size = %s", batch_size)
        plant(lab)
        with monkeypatch.context() as patch:
            patch.setattr(reconcile.Reconciliation, "_wait_a_moment", lambda _: lab.run(pipeline))
            report = lab.reconcile(pipeline)
        assert (report["equal"], report["settled"]) == (True, 3)


def test_a_column_that_the_mart_lacks_is_reported(lab: Lab) -> None:
    pipeline = in_place(lab)
    lab.run(pipeline)
    lab.sql("ALTER TABLE analytics.mart DROP COLUMN rating")
    report = lab.reconcile(pipeline)
    assert (report["equal"], report["lacking_columns"], report["columns"]) == (False, ["rating"], ["film_id", "title"])


@pytest.mark.parametrize("known", [True, False])
def test_a_key_that_the_query_gives_twice_is_named(lab: Lab, known: bool) -> None:
    lab.sql("CREATE TABLE content.t (id int, a text)")
    lab.sql("INSERT INTO content.t VALUES (1, 'x'), (2, 'y')")
    pipeline = lab.add(source_table="content.t", key=["id"])
    lab.run(pipeline)
    lab.sql("INSERT INTO content.t VALUES (%s, 'x'), (%s, 'x')", *((1, 1) if known else (3, 3)))
    row = lab.answer("reconcile", pipeline)
    assert f"gives a key twice: id = {1 if known else 3}" in row["said"]


def test_a_mart_that_is_not_there_is_said(lab: Lab) -> None:
    row = lab.answer("reconcile", in_place(lab))
    assert (row["status"], row["result"]) == ("FAILED", None)
    assert row["said"] == "analytics.mart does not exist yet — run the pipeline first"
    assert lab.value("SELECT to_regclass('analytics.mart')") is None


def test_while_the_pipeline_runs(lab: Lab) -> None:
    pipeline = through_python(lab)
    lab.run(pipeline)
    plant(lab)
    with psycopg.connect(lab.conninfo) as other:
        other.execute("LOCK TABLE analytics.mart IN EXCLUSIVE MODE")  # the run comes this far, with its rows staged
        run = Thread(target=lab.run, args=(pipeline,))
        run.start()
        wait_for(lambda: lab.value(BLOCKED) > 0)
        report = lab.reconcile(pipeline)
    run.join()
    assert (report["running"], counts(report)) == (True, (1, 1, 1))
    assert lab.last_run(pipeline)["status"] == "SUCCESS"
    assert lab.reconcile(pipeline)["equal"] is True


def test_a_runner_that_lost_the_request_leaves_its_successors_scratch_tables_alone(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.run(pipeline := through_python(lab))
    lab.sql("DELETE FROM analytics.mart WHERE film_id = (SELECT min(film_id::text)::uuid FROM analytics.mart)")

    def be_taken_over(_: reconcile.Reconciliation) -> None:
        lab.sql("UPDATE etl.etl_requests SET owner = gen_random_uuid(), attempt = 2")

    monkeypatch.setattr(reconcile.Reconciliation, "_wait_a_moment", be_taken_over)
    assert lab.answer("reconcile", pipeline)["status"] == "RUNNING"  # in other hands
    (stage,) = lab.sql("SELECT oid::regclass::text FROM pg_class WHERE relkind = 'r' AND relname ~ '^s_[0-9a-f]{32}$'")
    assert lab.value(f"SELECT count(*) FROM {stage[0]}") == 60


def test_it_foretells_that_a_repair_would_be_refused_its_deletes(lab: Lab) -> None:
    pipeline = lab.add(source_query="SELECT id, title FROM content.film_work", key=["id"])
    lab.run(pipeline)
    assert lab.reconcile(pipeline)["deletes_refused"] == ""
    lab.configure(max_delete_rows=10, max_delete_share=0.2)
    lab.sql("DELETE FROM content.film_work WHERE rating > 5")
    report = lab.reconcile(pipeline)
    assert (report["deletes_refused"], report["extra"] > 10) == ("more than 20%", True)
    assert report["deletes_refused"] in lab.run(pipeline, repair=True)["said"]
    lab.sql("DELETE FROM content.film_work")
    assert lab.reconcile(pipeline)["deletes_refused"] == "the query gives no rows at all"

"""Repair: a run that compares and converges, whatever the mode, and leaves the checkpoint where it was."""

from typing import Any

import pytest

from tests.support import Lab
from vitrina.domain.pipeline import Pipeline
from vitrina.inquiries import reconcile
from vitrina.runner.main import Runner

FILMS = "SELECT f.id AS film_id, f.title, f.rating FROM content.film_work f"
ITEMS = "SELECT i.id, i.title, i.changed_at FROM content.items i"


@pytest.fixture(autouse=True)
def _settle_quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reconcile, "MOMENT_SECONDS", 0.1)


@pytest.fixture
def items(lab: Lab) -> Pipeline:
    """An incremental pipeline that has run over ten items."""
    lab.sql("CREATE TABLE content.items (id int PRIMARY KEY, title text, changed_at timestamptz DEFAULT now())")
    lab.sql("INSERT INTO content.items SELECT n, 'item ' || n FROM generate_series(1, 10) n")
    pipeline = lab.add(
        source_query=ITEMS, key=["id"], mode="incremental", incremental_key="changed_at", incremental_id_key="id"
    )
    assert lab.run(pipeline)["rows_written"] == 10
    return pipeline


def checkpoint(lab: Lab) -> tuple[Any, ...]:
    """What the next incremental run goes on from."""
    rows = lab.sql("SELECT checkpoint, last_processed_value, last_processed_id, config_hash FROM etl.etl_state")
    return tuple(rows[0])


def test_differences_are_repaired_and_gone(lab: Lab) -> None:
    lab.sql("CREATE TABLE content.t (id int PRIMARY KEY, n numeric, a text)")
    lab.sql("INSERT INTO content.t SELECT g, 1.0, 'a' FROM generate_series(1, 9) g")
    pipeline = lab.add(source_table="content.t", key=["id"])
    lab.run(pipeline)
    lab.sql("DELETE FROM analytics.mart WHERE id = 1")
    lab.sql("INSERT INTO analytics.mart VALUES (100, 1, 'extra')")
    lab.sql("UPDATE analytics.mart SET a = 'b' WHERE id = 2")
    lab.sql("UPDATE analytics.mart SET n = 1.00 WHERE id = 3")
    report = lab.reconcile(pipeline)
    assert (report["missing"], report["extra"], report["different"]) == (1, 1, 2)
    run = lab.run(pipeline, repair=True)
    assert (run["status"], run["rows_written"], run["rows_deleted"], run["rows_unchanged"]) == ("SUCCESS", 3, 1, 6)
    assert run["options"]["repair"] is True
    assert lab.reconcile(pipeline)["equal"] is True
    lab.assert_equal(pipeline)


def test_a_hard_delete_is_seen_by_reconcile_and_removed_by_repair(lab: Lab, items: Pipeline) -> None:
    lab.sql("DELETE FROM content.items WHERE id = 4")
    assert lab.run(items)["rows_deleted"] == 0  # an upsert window cannot see it
    report = lab.reconcile(items)
    assert report["samples"]["extra"] == [{"key": {"id": "4"}}]
    assert report["control"]["field"] == "changed_at"
    before = checkpoint(lab)
    assert lab.run(items, repair=True)["rows_deleted"] == 1
    assert checkpoint(lab) == before
    assert lab.reconcile(items)["equal"] is True


def test_the_next_incremental_run_goes_on_from_its_checkpoint(lab: Lab, items: Pipeline) -> None:
    lab.sql("DELETE FROM analytics.mart WHERE id = 3")
    lab.run(items, repair=True)
    lab.sql("INSERT INTO content.items VALUES (11, 'new'), (12, 'new')")
    run = lab.run(items)
    assert (run["status"], run["rows_read"], run["rows_written"]) == ("SUCCESS", 2, 2)
    lab.assert_equal(items)


def test_what_changed_before_a_repair_is_not_passed_by_the_next_run(lab: Lab, items: Pipeline) -> None:
    lab.sql("INSERT INTO content.items VALUES (11, 'new')")
    assert lab.run(items, repair=True)["rows_written"] == 1
    run = lab.run(items)
    assert (run["rows_read"], run["rows_written"], run["rows_unchanged"]) == (1, 0, 1)


def test_repair_before_the_first_run_leaves_no_checkpoint(lab: Lab, items: Pipeline) -> None:
    lab.sql("TRUNCATE analytics.mart")
    lab.run(items, restart=True, repair=True)
    assert checkpoint(lab)[:3] == (None, None, None)
    lab.assert_equal(items)
    assert lab.run(items)["rows_read"] == 10


def test_the_mass_delete_guard_holds_for_repair(lab: Lab, items: Pipeline) -> None:
    lab.sql("DELETE FROM content.items")
    run = lab.run(items, repair=True)
    assert run["status"] == "FAILED"
    assert "this would delete 10 of 10 rows" in run["said"]
    assert lab.run(items, repair=True, allow_deletes=True)["rows_deleted"] == 10


def test_repair_through_transforms_with_the_primary_key_of_the_mart(lab: Lab) -> None:
    lab.sql("CREATE TABLE analytics.mart (film_id uuid PRIMARY KEY, title text, rating double precision)")
    pipeline = lab.add(source_query=FILMS, type="PYTHON", python_task="normalise_title")
    assert lab.run(pipeline)["error"] is None
    lab.sql("UPDATE analytics.mart SET title = 'planted' WHERE film_id = (SELECT id FROM content.film_work LIMIT 1)")
    assert lab.reconcile(pipeline)["different"] == 1
    assert lab.run(pipeline, repair=True)["rows_written"] == 1
    assert lab.reconcile(pipeline)["equal"] is True


def test_a_rebuild_writes_every_row_anew_and_at_once(lab: Lab) -> None:
    pipeline = lab.add(source_query="SELECT id AS film_id, title FROM content.film_work", key=["film_id"], batch_size=7)
    lab.run(pipeline)
    written = lab.value("SELECT max(xmin::text::bigint) FROM analytics.mart")
    run = lab.run(pipeline, rebuild=True)
    assert (run["status"], run["rows_written"], run["rows_deleted"], run["batches"]) == ("SUCCESS", 60, 60, 1)
    assert (
        lab.value("SELECT count(DISTINCT xmin::text) FROM analytics.mart WHERE xmin::text::bigint > %s", written) == 1
    )
    lab.assert_equal(pipeline)


def test_a_rebuild_asks_before_it_empties_a_mart(lab: Lab) -> None:
    lab.sql("CREATE TABLE content.short AS SELECT id AS film_id FROM content.film_work")
    lab.sql("GRANT SELECT ON content.short TO vitrina_reader")
    pipeline = lab.add(source_table="content.short", key=["film_id"])
    lab.run(pipeline)
    lab.sql("DELETE FROM content.short")
    assert "this would delete 60 of 60 rows" in lab.run(pipeline, rebuild=True)["said"]
    assert lab.value("SELECT count(*) FROM analytics.mart") == 60


def test_a_rebuild_asks_before_it_replaces_most_keys_by_others(lab: Lab) -> None:
    lab.sql("CREATE TABLE content.t AS SELECT n AS id FROM generate_series(1, 200) n")
    lab.run(pipeline := lab.add(source_table="content.t", key=["id"]))
    lab.sql("UPDATE content.t SET id = id + 1000")
    assert "this would delete 200 of 200 rows" in lab.run(pipeline, rebuild=True)["said"]
    assert lab.run(pipeline, rebuild=True, allow_deletes=True)["status"] == "SUCCESS"
    lab.assert_equal(pipeline)


def test_repair_stages_what_it_cannot_read_by_key_though_the_mart_lacks_the_cursor(lab: Lab) -> None:
    lab.sql("CREATE TABLE content.t AS SELECT n AS id, 'item ' || n AS title, n AS at FROM generate_series(1, 3000) n")
    lab.sql("CREATE TABLE analytics.mart (id int PRIMARY KEY, title text, place bigint)")
    select = "SELECT id, title, at, rank() OVER (ORDER BY title) AS place FROM content.t"
    config = {"key": ["id"], "mode": "incremental", "incremental_key": "at", "batch_size": 20}
    lab.run(pipeline := lab.add(source_query=select, **config))
    lab.sql("UPDATE analytics.mart SET title = 'x' WHERE id % 2 = 0")
    assert lab.run(pipeline, repair=True)["rows_written"] == 1500
    assert "staged" in [e["event"] for e in lab.events(pipeline)]
    lab.assert_equal(pipeline)


def test_after_a_repair_it_is_compared_again_without_being_asked(lab: Lab, items: Pipeline) -> None:
    lab.sql("DELETE FROM analytics.mart WHERE id = 3")
    lab.run(items)
    assert asked(lab) == []
    lab.run(items, repair=True)
    assert asked(lab) == [("reconcile", "repair", "REQUESTED", None)]
    Runner(lab.connections).answer()
    assert asked(lab) == [("reconcile", "repair", "DONE", True)]


def asked(lab: Lab) -> list[tuple[Any, ...]]:
    """The requests that there are, whose, and whether mart and query were equal."""
    return lab.sql(
        "SELECT kind, asked_by, status, (result->>'equal')::boolean FROM etl.etl_requests ORDER BY created_at"
    )

"""What every writer must do, be the mart a table, an index or what a plug-in writes: the same tests over all."""

import os
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
from psycopg.conninfo import make_conninfo

from tests.sinks import IndexSink, Sink, TableSink, as_rows, assert_equal, assert_tidy, at_batch, failed, went
from tests.support import Lab
from vitrina import Row, transform
from vitrina.demo.data import mutate_cinema
from vitrina.testing import SinkConformance
from vitrina.testing.conformance import MODES
from vitrina.testing.marts import CURSOR, add_items, items
from vitrina.transforms import REGISTRY
from vitrina.transforms.chain import load_transforms

ROUNDS = int(os.environ.get("VITRINA_ROUNDS", "6"))
CARD = """
    SELECT f.id, f.title, f.rating, array_agg(DISTINCT g.name) FILTER (WHERE g.name IS NOT NULL) AS genres
    FROM content.film_work f LEFT JOIN content.genre_film_work fg ON fg.film_work_id = f.id
    LEFT JOIN content.genre g ON g.id = fg.genre_id GROUP BY f.id"""
RANKED = """
    SELECT rank() OVER (ORDER BY votes DESC, film_id) AS place, film_id, votes
    FROM (SELECT film_id, count(*) AS votes FROM ugc.ratings GROUP BY film_id) AS counted"""
LIKED = "SELECT user_id, film_id FROM ugc.likes"


@pytest.fixture(params=["table", pytest.param("index", marks=pytest.mark.elasticsearch), "sqlite"])
def sink(request: pytest.FixtureRequest, lab: Lab) -> Sink:
    """A lab with a mart of each kind."""
    if request.param == "table":
        return TableSink(lab)
    if request.param == "index":
        return IndexSink(request.getfixturevalue("search"))
    plugged: Sink = request.getfixturevalue("sqlite")
    return plugged


@pytest.fixture(autouse=True)
def _registry() -> Iterator[None]:
    load_transforms([])  # what is installed stays
    known = dict(REGISTRY)
    yield
    REGISTRY.clear()
    REGISTRY.update(known)


def register(name: str, change: Callable[[Row], Any], **contract: Any) -> None:
    """A transform that changes each row; one that gives None is left out."""

    def apply(rows: Sequence[Row]) -> Any:
        return [row for row in map(change, rows) if row is not None]

    transform(name, **contract)(apply)


# ── converging ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.scenario(32)
def test_inserts_updates_and_deletes_arrive_and_nothing_else_is_written(sink: Sink) -> None:
    SinkConformance().test_inserts_updates_and_deletes_arrive_and_nothing_else_is_sent(sink)


class TestKinds(SinkConformance):
    """What a plug-in's author runs, over our own kinds too."""

    test_inserts_updates_and_deletes_arrive_and_nothing_else_is_sent: Any = None  # above
    test_an_older_epoch_changes_nothing: Any = None  # asked of a store: tests/faults/test_plugged.py

    @pytest.fixture
    def mart(self, sink: Sink) -> Sink:
        return sink


@pytest.mark.scenario(56)
def test_an_exact_image_counts_as_a_change(sink: Sink) -> None:
    pipeline = items(sink, source_query="SELECT id, price::numeric AS price FROM content.item")
    went(sink, pipeline)
    sink.lab.sql("ALTER TABLE content.item ALTER price TYPE numeric(9, 3)")
    assert went(sink, pipeline) == (10, 0)
    assert_equal(sink, pipeline)


@pytest.mark.scenario(35)
@pytest.mark.parametrize("rebuild", [False, True])
def test_a_source_that_is_suddenly_empty_does_not_empty_the_mart(sink: Sink, rebuild: bool) -> None:
    pipeline = items(sink)
    went(sink, pipeline)
    before = sink.rows(["id"])
    sink.lab.sql("DELETE FROM content.item")
    assert "this would delete 10 of 10 rows" in failed(sink, pipeline, rebuild=rebuild)
    assert sink.rows(["id"]) == before
    went(sink, pipeline, rebuild=rebuild, allow_deletes=True)
    assert_equal(sink, pipeline)


def test_many_deletes_ask_first(sink: Sink) -> None:
    sink.lab.configure(max_delete_rows=3)
    pipeline = items(sink)
    went(sink, pipeline)
    sink.lab.sql("DELETE FROM content.item WHERE id > 4; UPDATE content.item SET title = 'other' WHERE id = 1")
    assert "this would delete 6 of 10 rows" in failed(sink, pipeline)
    assert sink.rows(["id"])["1"]["title"] == "item 1"
    assert went(sink, pipeline, allow_deletes=True) == (1, 6)
    assert_equal(sink, pipeline)


@pytest.mark.scenario(30)
@pytest.mark.parametrize("loaded", [False, True])
def test_a_key_that_comes_twice_is_named(sink: Sink, loaded: bool) -> None:
    pipeline = items(sink)
    if loaded:
        went(sink, pipeline)
    sink.lab.sql("INSERT INTO content.item VALUES (7, 'again')")
    error = failed(sink, pipeline)
    assert "a key twice" in error
    assert "7" in error
    sink.lab.sql("DELETE FROM content.item WHERE title = 'again'")
    went(sink, pipeline)
    assert_equal(sink, pipeline)


@pytest.mark.scenario(29)
@MODES
def test_a_row_with_a_null_in_its_key_is_named(sink: Sink, mode: dict[str, Any]) -> None:
    pipeline = items(sink, **mode)
    went(sink, pipeline)
    sink.lab.sql("INSERT INTO content.item VALUES (NULL, 'nobody')")
    error = failed(sink, pipeline)
    assert "NULL in its key" in error
    assert "nobody" in error
    assert len(sink.rows(["id"])) == 10


@pytest.mark.parametrize("config", [{}, {"mode": "incremental", "incremental_key": "modified"}], ids=["full", "cursor"])
def test_a_source_on_another_server(sink: Sink, config: dict[str, Any]) -> None:
    source = make_conninfo(sink.lab.other_database(), user="vitrina_reader")
    sink.lab.connections = replace(sink.lab.connections, sources={"cinema": source})
    select = "SELECT id, title, rating, modified FROM content.film_work"
    kept = {"source": "cinema", "source_query": select, "key": ["id"], "batch_size": 25}
    pipeline = sink.lab.add(**kept, **config, target_table=sink.target)
    assert went(sink, pipeline) == (60, 0)
    assert went(sink, pipeline) == (0, 0)
    assert_equal(sink, pipeline)


def test_a_query_that_cannot_be_read_by_key(sink: Sink) -> None:
    pipeline = sink.lab.add(source_query=RANKED, key=["place"], batch_size=4, target_table=sink.target)
    went(sink, pipeline)
    sink.lab.sql("DELETE FROM ugc.ratings WHERE film_id IN (SELECT film_id FROM ugc.ratings LIMIT 50)")
    went(sink, pipeline)
    assert_equal(sink, pipeline)


# ── transforms ───────────────────────────────────────────────────────────────────────────────────────────────────


@MODES
def test_rows_that_a_transform_changes_and_leaves_out(sink: Sink, mode: dict[str, Any]) -> None:
    limit = [8]
    shout = lambda row: row | {"title": row["title"].upper()} if row["id"] <= limit[0] else None  # noqa: E731
    register("shout_or_drop", shout)
    pipeline = items(sink, type="PYTHON", python_task="shout_or_drop", **mode)
    loud = "SELECT id, upper(title) AS title, price, at FROM content.item WHERE id <= {}"
    assert went(sink, pipeline) == (8, 0)
    assert sink.rows(["id"]) == as_rows(sink.lab, loud.format(8), ["id"])
    limit[0] = 5
    sink.lab.sql("UPDATE content.item SET title = 'other', at = clock_timestamp() WHERE id > 4")
    assert went(sink, pipeline) == (1, 3)
    assert sink.rows(["id"]) == as_rows(sink.lab, loud.format(5), ["id"])
    assert_tidy(sink.lab)
    assert went(sink, pipeline) == (0, 0)


# ── incremental ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_cursor_with_ties_goes_on_and_restarts(sink: Sink) -> None:
    pipeline = items(sink, **CURSOR)  # all ten have one timestamp
    assert went(sink, pipeline) == (10, 0)
    assert sink.lab.run(pipeline)["rows_read"] == 0
    add_items(sink.lab, 11, 17)
    sink.lab.sql("UPDATE content.item SET title = 'other', at = clock_timestamp() WHERE id = 3")
    run = sink.lab.run(pipeline)
    assert (run["rows_read"], run["rows_written"]) == (8, 8)
    assert_equal(sink, pipeline)
    run = sink.lab.run(pipeline, restart=True)
    assert (run["rows_read"], run["rows_written"], run["rows_unchanged"]) == (17, 0, 17)


def test_a_cursor_whose_position_is_not_the_key(sink: Sink) -> None:
    select = "SELECT id, title, at, 1000 - id AS back FROM content.item"
    pipeline = items(sink, source_query=select, **(CURSOR | {"incremental_id_key": "back"}))
    assert went(sink, pipeline) == (10, 0)
    add_items(sink.lab, 11, 14)
    assert went(sink, pipeline) == (4, 0)
    assert_equal(sink, pipeline)


# ── interrupted ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_pause_before_anything_is_done(sink: Sink) -> None:
    pipeline = items(sink)
    status = f"UPDATE etl.etl_pipelines SET status = 'PAUSE_REQUESTED' WHERE id = '{pipeline.id}'"
    sink.lab.sql(f"""
        CREATE FUNCTION content.at_once() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN
            IF new.seq = old.seq + 1 THEN {status} AND status = 'RUNNING'; END IF; RETURN NEW; END $$;
        CREATE TRIGGER at_once BEFORE UPDATE ON etl.etl_state FOR EACH ROW EXECUTE FUNCTION content.at_once()""")
    run = sink.lab.run(pipeline)
    assert (run["status"], run["error"], run["rows_written"]) == ("PAUSED", None, 0)
    for _ in range(4):  # one step further each time
        assert sink.lab.run(pipeline)["error"] is None
    sink.lab.sql("DROP TRIGGER at_once ON etl.etl_state")
    if sink.lab.status(pipeline) == "PAUSED":
        went(sink, pipeline)
    assert_equal(sink, pipeline)


@MODES
def test_a_batch_size_is_reloaded(sink: Sink, mode: dict[str, Any]) -> None:
    pipeline = items(sink, 40, **mode)
    sink.lab.sql("CREATE INDEX ON content.item (id); ANALYZE content.item")  # so that it is loaded in batches
    reload = "UPDATE etl.etl_pipelines SET reload_version = version"
    at_batch(sink.lab, 2, f"UPDATE etl.etl_pipelines SET batch_size = 11; SET CONSTRAINTS ALL IMMEDIATE; {reload}")
    assert went(sink, pipeline) == (40, 0)
    assert any(event["event"] == "reloaded" for event in sink.lab.events(pipeline))
    assert_equal(sink, pipeline)


# ── put right ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.scenario(33)
def test_a_column_that_is_gone_is_drift(sink: Sink) -> None:
    pipeline = items(sink, source_query=None, source_table="content.item")
    went(sink, pipeline)
    before = sink.rows(["id"])
    sink.lab.sql("ALTER TABLE content.item DROP COLUMN price")
    for _ in range(2):
        assert "drift" in failed(sink, pipeline)
    assert sink.rows(["id"]) == before


# ── at random ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("select", "key"), [(CARD, ["id"]), (LIKED, ["film_id", "user_id"])], ids=["card", "liked"])
def test_marts_are_equal_after_random_changes(sink: Sink, select: str, key: list[str]) -> None:
    rng = random.Random(len(select))
    pipeline = sink.lab.add(source_query=select, key=key, target_table=sink.target)
    for _ in range(max(2, ROUNDS // 2)):
        size = rng.choice((1, 2, 7, 50, 5_000))
        sink.lab.sql("UPDATE etl.etl_pipelines SET batch_size = %s", size)
        went(sink, pipeline, allow_deletes=True)
        assert_equal(sink, pipeline)
        mutate_cinema(sink.lab.db, rng, rng.choice((1, 20, 60)))

"""Stages: used when a query cannot be read by key, or comes from another server; said why; gone afterwards."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from tests.support import Lab, differences
from vitrina.domain.errors import DatabaseLost
from vitrina.domain.pipeline import Pipeline
from vitrina.meta.db import connect

NUMBERED = "SELECT row_number() OVER (ORDER BY k) AS n, k, v FROM content.big"
GROUPED = """
    SELECT b.k, b.v, g.total FROM content.big b
    JOIN (SELECT k % 100 AS bucket, sum(v) AS total FROM content.big GROUP BY 1) g ON g.bucket = b.k % 100"""
PLAIN = "SELECT k, v FROM content.big"


def big(lab: Lab, select: str, key: str, **config: Any) -> Pipeline:
    lab.sql("CREATE TABLE content.big (k int PRIMARY KEY, v int)")
    lab.sql("INSERT INTO content.big SELECT n, n % 7 FROM generate_series(1, 20000) n")
    lab.sql("ANALYZE content.big")
    return lab.add(source_query=select, key=[key], **({"batch_size": 50} | config))


def went(lab: Lab, pipeline: Pipeline) -> dict[str, Any]:
    """A run that succeeded, with the last fields of each of its events; no scratch table is left."""
    run = lab.run(pipeline)
    assert run["error"] is None
    assert lab.sql("SELECT tablename FROM pg_tables WHERE schemaname = 'etl_stage'") == []
    return run | {"said": {e["event"]: e["fields"] for e in lab.events(pipeline) if e["run_id"] == run["id"]}}


@pytest.mark.parametrize(("select", "key"), [(NUMBERED, "n"), (GROUPED, "k")])
def test_a_query_that_cannot_be_read_by_key_is_loaded_at_once_and_staged_later(lab: Lab, select: str, key: str) -> None:
    pipeline = big(lab, select, key)
    loaded = went(lab, pipeline)
    assert (loaded["rows_written"], loaded["batches"]) == (20_000, 1)
    assert loaded["said"]["load_found"]["read"] == "at once"
    lab.assert_equal(pipeline)
    lab.sql("UPDATE content.big SET v = v + 1 WHERE k <= 5000; DELETE FROM content.big WHERE k > 19990")
    changed = went(lab, pipeline)
    assert changed["said"]["compared"]["read"] == "staged"
    assert "the key cannot be pushed into the query" in changed["said"]["staged"]["why"]
    lab.assert_equal(pipeline)
    assert went(lab, pipeline)["rows_unchanged"] == 19_990


def test_a_plain_query_is_read_by_key(lab: Lab) -> None:
    pipeline = big(lab, PLAIN, "k")
    said = went(lab, pipeline)["said"]
    assert said["load_found"]["read"] == "by key range"
    assert "staged" not in said
    lab.sql("UPDATE content.big SET v = v + 1 WHERE k % 10 = 0; DELETE FROM content.big WHERE k > 19990")
    said = went(lab, pipeline)["said"]
    assert said["compared"]["read"] == "by key"
    assert "staged" not in said
    lab.assert_equal(pipeline)


def test_what_an_earlier_run_left_behind_is_in_nobodys_way(lab: Lab) -> None:
    pipeline = big(lab, PLAIN, "k", publish="atomic")
    lab.sql(f"CREATE TABLE etl_stage.s_{pipeline.id.hex} (x int); CREATE TABLE etl_stage.k_{pipeline.id.hex} (x int)")
    lab.sql(f"ALTER TABLE etl_stage.s_{pipeline.id.hex} OWNER TO vitrina_runner")
    lab.sql(f"ALTER TABLE etl_stage.k_{pipeline.id.hex} OWNER TO vitrina_runner")
    went(lab, pipeline)
    lab.assert_equal(pipeline)


def test_an_empty_query_is_loaded(lab: Lab) -> None:
    for number, config in enumerate(({}, {"publish": "atomic"})):
        select = "SELECT id, title FROM content.film_work WHERE false"
        target = f"analytics.empty{number}"
        pipeline = lab.add(name=target, source_query=select, key=["id"], target_table=target, **config)
        assert went(lab, pipeline)["rows_written"] == 0
        assert went(lab, pipeline)["rows_written"] == 0


# ── another server ───────────────────────────────────────────────────────────────────────────────────────────────


class Elsewhere:
    """Another database as source `cinema`."""

    def __init__(self, lab: Lab, user: str = "vitrina_reader") -> None:
        self.lab = lab
        self.conninfo = lab.other_database()
        sources = {"cinema": make_conninfo(self.conninfo, user=user) if user else self.conninfo}
        lab.connections = replace(lab.connections, sources=sources)

    def sql(self, query: str) -> None:
        with psycopg.connect(self.conninfo, autocommit=True) as conn:
            conn.execute(query.encode())

    def rows(self, select: str) -> set[str]:
        with connect(self.conninfo, "test") as conn:
            return {r["image"] for r in conn.execute(f"SELECT q::text AS image FROM ({select}) q".encode())}

    def assert_equal(self, pipeline: Pipeline) -> None:
        mart = self.lab.sql(f"SELECT q::text FROM {pipeline.target_table} q")
        assert {image for (image,) in mart} == self.rows(str(pipeline.source_query))


FILMS = "SELECT id, title, rating, type, creation_date, modified FROM content.film_work"


@pytest.mark.parametrize("batch_size", [1, 7, 1000])
def test_a_remote_source_converges(lab: Lab, batch_size: int) -> None:
    cinema = Elsewhere(lab)
    pipeline = lab.add(source="cinema", source_query=FILMS, key=["id"], batch_size=batch_size)
    run = went(lab, pipeline)
    assert run["rows_written"] == 60
    assert run["said"]["loaded"]["why"] == "source cinema is another server"
    cinema.sql("UPDATE content.film_work SET rating = 1.1 WHERE id IN (SELECT id FROM content.film_work LIMIT 5)")
    cinema.sql("DELETE FROM content.film_work WHERE id = (SELECT max(id::text)::uuid FROM content.film_work)")
    run = went(lab, pipeline)
    assert (run["rows_written"], run["rows_deleted"]) == (5, 1)
    cinema.assert_equal(pipeline)
    assert went(lab, pipeline)["rows_unchanged"] == 59


@pytest.mark.parametrize("batch_size", [1, 7, 1000])
def test_a_remote_source_is_followed(lab: Lab, batch_size: int) -> None:
    cinema = Elsewhere(lab)
    pipeline = lab.add(
        source="cinema",
        source_query=FILMS,
        key=["id"],
        mode="incremental",
        incremental_key="modified",
        batch_size=batch_size,
    )
    assert went(lab, pipeline)["rows_written"] == 60
    cinema.sql("UPDATE content.film_work SET title = title || '!', modified = now() WHERE rating > 7")
    went(lab, pipeline)
    cinema.assert_equal(pipeline)


def test_types_of_the_user_cross_over_when_both_sides_have_them(lab: Lab) -> None:
    cinema = Elsewhere(lab)
    lab.sql("CREATE TYPE public.pad AS (x int)")  # so that object ids differ
    for run in (lab.sql, cinema.sql):
        run("CREATE TYPE public.mood AS ENUM ('sad', 'ok'); CREATE TYPE public.pair AS (a int, m public.mood)")
    cinema.sql("CREATE TABLE content.moods (m public.mood PRIMARY KEY, p public.pair, a public.mood[], n numeric)")
    cinema.sql("INSERT INTO content.moods VALUES ('ok', '(1,sad)', '{sad,NULL,ok}', 1.00), ('sad', NULL, '{}', 'NaN')")
    pipeline = lab.add(source="cinema", source_query="SELECT * FROM content.moods", key=["m"], batch_size=1)
    assert went(lab, pipeline)["rows_written"] == 2
    cinema.sql("UPDATE content.moods SET p = '(2,ok)' WHERE m = 'sad'")
    assert went(lab, pipeline)["rows_written"] == 1
    cinema.assert_equal(pipeline)


def test_a_name_of_an_object_stays_that_name_on_another_server(lab: Lab) -> None:
    cinema = Elsewhere(lab)
    cinema.sql("CREATE TABLE public.pad (x int)")
    for run in (lab.sql, cinema.sql):
        run("CREATE TABLE public.thing (x int)")
    cinema.sql("CREATE TABLE content.things (id int PRIMARY KEY, thing regclass)")
    cinema.sql("INSERT INTO content.things VALUES (1, 'public.thing')")
    pipeline = lab.add(source="cinema", source_query="SELECT id, thing FROM content.things", key=["id"])
    assert went(lab, pipeline)["rows_written"] == 1
    assert lab.value("SELECT thing::text FROM analytics.mart") == "thing"


@pytest.mark.parametrize("mart_type", [None, "text"])
def test_a_type_that_only_the_source_has_is_explained(lab: Lab, mart_type: str | None) -> None:
    Elsewhere(lab).sql("CREATE TYPE public.mood AS ENUM ('sad', 'ok')")
    if mart_type:
        lab.sql(f"CREATE TABLE analytics.mart (id int PRIMARY KEY, m {mart_type})")
    pipeline = lab.add(source="cinema", source_query="SELECT 1 AS id, 'ok'::public.mood AS m", key=["id"])
    error = lab.run(pipeline)["said"]
    assert "mood" in error
    assert "m" in error
    assert "CAST(m AS text)" in error


def test_an_unknown_source_is_explained(lab: Lab) -> None:
    pipeline = lab.add(source="cinema", source_query=FILMS, key=["id"])
    assert lab.run(pipeline)["said"] == (
        "there is no source 'cinema' (known: warehouse) — set VITRINA_SOURCES__CINEMA=postgresql://…"
    )


@pytest.mark.parametrize("mode", [{}, {"mode": "incremental", "incremental_key": "modified"}])
def test_a_remote_source_is_only_read_whoever_reads_it(lab: Lab, mode: dict[str, Any]) -> None:
    cinema = Elsewhere(lab, user="")
    lab.configure(allowed_functions=["content.leave_a_mark"])
    cinema.sql("CREATE TABLE content.log (x int)")
    cinema.sql("""CREATE FUNCTION content.leave_a_mark() RETURNS int LANGUAGE sql SECURITY DEFINER AS
                  'INSERT INTO content.log VALUES (1) RETURNING 1'""")
    select = "SELECT id, modified, content.leave_a_mark() AS mark FROM content.film_work"
    pipeline = lab.add(source="cinema", source_query=select, key=["id"], **mode)
    assert "cannot execute INSERT in a read-only transaction" in lab.run(pipeline)["said"]
    assert cinema.rows("SELECT * FROM content.log") == set()


def test_a_remote_source_that_is_down_leaves_the_pipeline_to_another_try(lab: Lab) -> None:
    down = make_conninfo(lab.conninfo, dbname="no_such_database")
    lab.connections = replace(lab.connections, sources={"cinema": down})
    pipeline = lab.add(source="cinema", source_query=FILMS, key=["id"])
    run = lab.run(pipeline)
    assert "no_such_database" in run["said"]


def test_differences_are_counted(lab: Lab) -> None:
    """The oracle of these tests can tell a difference."""
    lab.sql("CREATE TABLE analytics.mart AS SELECT 1 AS id, 1.0 AS n")
    assert differences(lab.db, "SELECT 1 AS id, 1.00 AS n", "analytics.mart") == 2


def test_a_source_that_cannot_be_reached_leaves_no_session_of_the_warehouse_open(lab: Lab) -> None:
    """They are signed in to side by side."""
    opened: list[Callable[[], None]] = []  # how each session is cancelled
    connections = replace(lab.connections, sources={"dead": "host=127.0.0.1 port=1"}, opened=opened.append)
    with pytest.raises(DatabaseLost), connections.open_both("test", "dead"):
        pass
    assert [cancel.args[0].closed for cancel in opened if isinstance(cancel, partial)] == [True]

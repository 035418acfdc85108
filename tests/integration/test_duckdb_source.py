"""Lakes by DuckDB as sources: what is read there becomes a mart here, and stays equal to it."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.lakes import export, held, know, write_lake
from tests.support import Lab
from vitrina.control.services.validation import Validation
from vitrina.domain.errors import ConfigError, DatabaseLost
from vitrina.domain.pipeline import Pipeline
from vitrina.sources.duckdb.kind import DUCKDB
from vitrina.sources.registry import kind_of

FILMS = (
    "CREATE SCHEMA content",
    """CREATE TABLE content.films AS
       SELECT range::INTEGER AS id, 'film ' || range AS title, (range % 100 / 10)::DECIMAL(3,1) AS rating,
              TIMESTAMP '2020-01-01' + to_seconds(range) AS seen, [range, NULL] AS marks, {'a': range} AS doc
       FROM range(1, 1001)""",
)
QUERY = "SELECT id, title, rating, seen, marks, doc FROM content.films AS f"
TABLES = ["content.films"]


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    return write_lake(tmp_path / "lake.duckdb", *FILMS)


def films(lab: Lab, **config: Any) -> Pipeline:
    config = {"source_query": QUERY, "key": ["id"], "target_table": "analytics.films"} | config
    return lab.add(source="lake", **config)


def run(lab: Lab, pipeline: Pipeline) -> Mapping[str, Any]:
    done = lab.run(pipeline)
    assert done["error"] is None, done["error"]
    return done


def mart(lab: Lab) -> list[tuple[Any, ...]]:
    return lab.sql(
        "SELECT id, title, rating::text, seen::text, marks::text, doc::text FROM analytics.films ORDER BY id"
    )


def expected(*ids: int) -> list[tuple[Any, ...]]:
    return [
        (n, f"film {n}", f"{n % 100 / 10}", f"2020-01-01 00:{n // 60:02}:{n % 60:02}", f"{{{n},NULL}}", f'{{"a": {n}}}')
        for n in ids
    ]


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_a_mart_is_loaded_and_then_kept_equal(lab: Lab, lake: Path, tmp_path: Path, kind: str) -> None:
    folder = tmp_path / "files"
    know(lab, "lake", f"duckdb://{lake}" if kind == "file" else f"duckdb://{export(lake, folder, TABLES)}/")
    pipeline = films(lab, batch_size=100)
    assert run(lab, pipeline)["rows_written"] == 1000
    assert mart(lab) == expected(*range(1, 1001))
    write_lake(lake, "DELETE FROM content.films WHERE id = 3", "UPDATE content.films SET title = 'other' WHERE id = 4")
    export(lake, folder, TABLES)
    changed = run(lab, pipeline)
    assert (changed["rows_written"], changed["rows_deleted"], changed["rows_unchanged"]) == (1, 1, 998)
    assert [row[1] for row in mart(lab)[:4]] == ["film 1", "film 2", "other", "film 5"]


@pytest.mark.parametrize("publish", ["batches", "atomic"])
def test_an_empty_lake_gives_an_empty_mart(lab: Lab, lake: Path, publish: str) -> None:
    know(lab, "lake", f"duckdb://{lake}")
    pipeline = films(lab, source_query=f"{QUERY} WHERE id < 0", publish=publish)
    assert run(lab, pipeline)["rows_written"] == 0
    assert mart(lab) == []


TYPES = {
    "TRUE": ("boolean", "true"),
    "(-5)::TINYINT": ("smallint", "-5"),
    "250::UTINYINT": ("smallint", "250"),
    "65535::USMALLINT": ("integer", "65535"),
    "4294967295::UINTEGER": ("bigint", "4294967295"),
    "18446744073709551615::UBIGINT": ("numeric(20,0)", "18446744073709551615"),
    "sum(5::BIGINT) OVER ()": ("numeric(38,0)", "5"),
    "1.50::DECIMAL(5,2)": ("numeric(5,2)", "1.50"),
    "-0.0::DOUBLE": ("double precision", "-0"),
    "'nan'::FLOAT": ("real", "NaN"),
    "'-inf'::DOUBLE": ("double precision", "-Infinity"),
    "''": ("text", ""),
    "'\\x00\\xFF'::BLOB": ("bytea", "\\x00ff"),
    "'0b9c6b41-6d1c-4c1c-9a4b-0f2c4f3ac001'::UUID": ("uuid", "0b9c6b41-6d1c-4c1c-9a4b-0f2c4f3ac001"),
    "DATE '0001-01-01'": ("date", "0001-01-01"),
    "DATE 'infinity'": ("date", "infinity"),
    "TIME '24:00:00'": ("time without time zone", "24:00:00"),
    "TIMESTAMP '1969-12-31 23:59:59.999999'": ("timestamp without time zone", "1969-12-31 23:59:59.999999"),
    "TIMESTAMP '-infinity'": ("timestamp without time zone", "-infinity"),
    "TIMESTAMP_S '2020-01-01 00:00:01'": ("timestamp without time zone", "2020-01-01 00:00:01"),
    "TIMESTAMP_NS '2020-01-01 00:00:01.123456'": ("timestamp without time zone", "2020-01-01 00:00:01.123456"),
    "TIMESTAMPTZ '2020-01-01 03:00:00+03'": ("timestamp with time zone", "2020-01-01 00:00:00+00"),
    "'happy'::ENUM ('sad', 'happy')": ("text", "happy"),
    "'{\"a\": 1.50}'::JSON": ("jsonb", '{"a": 1.50}'),
    "[1.5::DECIMAL(3,1), NULL]": ("numeric(3,1)[]", "{1.5,NULL}"),
    "['a\"b', NULL, '']": ("text[]", '{"a\\"b",NULL,""}'),
    "[]::INTEGER[]": ("integer[]", "{}"),
    "[1, 2]::INTEGER[2]": ("integer[]", "{1,2}"),
    "[[1], NULL]": ("jsonb", "[[1], null]"),
    "MAP {'a': 1}": ("jsonb", '{"a": 1}'),
    "[{'a': DATE '2020-01-01'}]": ("jsonb", '[{"a": "2020-01-01"}]'),
    "[TIMESTAMPTZ '2020-01-01 00:00:00+00']": ("jsonb", '["2020-01-01 00:00:00+00"]'),
    "NULL::INTEGER": ("integer", None),
}


def test_each_type_is_one_of_postgres_with_the_same_value(lab: Lab, lake: Path) -> None:
    know(lab, "lake", f"duckdb://{lake}")
    columns = ", ".join(f"{value} AS c{n}" for n, value in enumerate(TYPES))
    pipeline = films(lab, source_query=f"SELECT 1 AS id, {columns}")
    run(lab, pipeline)
    types = lab.sql("""SELECT format_type(atttypid, atttypmod) FROM pg_attribute
                       WHERE attrelid = 'analytics.films'::regclass AND attnum > 1 ORDER BY attnum""")
    assert [one for (one,) in types] == [type_ for type_, _ in TYPES.values()]
    texts = ", ".join(f"c{n}::text" for n in range(len(TYPES)))
    with lab.db.transaction():
        lab.db.execute("SET LOCAL timezone = 'UTC'")
        row = lab.db.execute(f"SELECT ARRAY[{texts}] AS texts FROM analytics.films").fetchone()
    assert row is not None
    assert dict(zip(TYPES, row["texts"], strict=True)) == {name: text for name, (_, text) in TYPES.items()}
    assert run(lab, pipeline)["rows_written"] == 0


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        ("INTERVAL 1 DAY AS x", "column x is INTERVAL"),
        ("TIMETZ '12:00:00+01' AS x", "column x is TIME WITH TIME ZONE"),
        ("NULL AS x", 'column x is "NULL"'),
        ("'1'::BIT AS x", "column x is BIT"),
        ("TIMESTAMP_NS '2020-01-01 00:00:00.000000001' AS x", "column x is timestamp without time zone, which cannot"),
        ("170141183460469231731687303715884105727::HUGEINT AS x", "fails in DuckDB: Conversion Error"),
        ("'a' || chr(0) AS x", "column x has a value that Postgres refuses"),
        ("TIMESTAMP '290000-01-01' AS x, 'é' AS y", None),
        ("TIMESTAMP '290000-01-01 (BC)' AS x", "column x has a value that Postgres refuses"),
        ("2 AS id", "gives column 'id' twice"),
        ('2 AS "ID"', None),
        ('2::HUGEINT AS "ID"', None),
        (f"2 AS {'x' * 64}", "a name that Postgres cannot have"),
        ("2 AS vitrina_n", "a name of Vitrina's own"),
        ("error('boom') AS x", "another value at every call"),
        ("missing AS x", 'Referenced column "missing" was not found'),
        ("CAST('x' AS INTEGER) AS x", "Could not convert string 'x'"),
    ],
)
def test_what_cannot_be_had_is_refused_and_named(lab: Lab, lake: Path, columns: str, says: str | None) -> None:
    know(lab, "lake", f"duckdb://{lake}")
    done = lab.run(films(lab, source_query=f"SELECT 1 AS id, {columns}"))
    assert (done["error"] is None) if says is None else (says in done["error"]), done["error"]


def test_a_key_that_is_null_or_comes_twice_is_refused(lab: Lab, lake: Path) -> None:
    know(lab, "lake", f"duckdb://{lake}")
    twice = lab.run(films(lab, source_query="SELECT 7 AS id FROM range(2)"))
    assert "gives a key twice" in twice["error"]
    null = lab.run(films(lab, name="null", source_query="SELECT NULL::INTEGER AS id", target_table="analytics.other"))
    assert "NULL" in null["error"]


def test_a_file_that_somebody_writes_to_is_waited_for(lab: Lab, lake: Path) -> None:
    know(lab, "lake", f"duckdb://{lake}")
    pid = os.fork()  # in this process, a file that is open could be opened again
    if pid == 0:
        with held(lake):
            (lake.parent / "held").touch()
            while (lake.parent / "held").exists():
                pass
        os._exit(0)
    from tests.patience import wait_for

    wait_for((lake.parent / "held").exists)
    try:
        with pytest.raises(DatabaseLost, match="held by somebody who writes"), lab.connections.resolve_reader("lake"):
            raise AssertionError
    finally:
        (lake.parent / "held").unlink()
        os.waitpid(pid, 0)
    lab.connections.neighbours.outages.clear()
    with lab.connections.resolve_reader("lake") as reader:
        assert reader.version().startswith("DuckDB")


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("duckdb:///nowhere/lake.duckdb", "there is no file /nowhere/lake.duckdb"),
        ("duckdb:///nowhere/", "there is no folder /nowhere"),
        ("duckdb://lake.duckdb", "names no absolute path"),
        ("duckdb://", "names no absolute path"),
        ("duckdb://[", "names no absolute path"),
        ("duckdb:///{lake}?speed=1", "knows no speed"),
        ("duckdb:///{lake}?threads=many", "threads that are no number"),
        ("duckdb:///{lake}?memory=much", "cannot be set up"),
        ("duckdb:///{text}", "cannot be read"),
    ],
)
def test_an_address_that_leads_nowhere_is_refused_with_the_remedy(lab: Lab, lake: Path, url: str, says: str) -> None:
    text = lake.with_name("text")
    text.write_text("no database")
    know(lab, "lake", url.format(lake=str(lake)[1:], text=str(text)[1:]))
    with pytest.raises(ConfigError, match=says) as error, lab.connections.resolve_reader("lake"):
        pass
    assert error.value.remedy


def test_validation_tells_what_it_gives_and_how_much(lab: Lab, lake: Path) -> None:
    know(lab, "lake", f"duckdb://{lake}")
    said = Validation(lab.connections).of(films(lab, source_query=f"{QUERY} -- all of them"))
    assert not [f for f in said if f.level == "error"]
    told = " ".join(f.message for f in said)
    assert "gives id integer, title text, rating numeric(3,1)" in told
    assert "about 1,000 rows, read at once" in told
    assert "CREATE TABLE" in told


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_its_tables_can_be_looked_at(lab: Lab, lake: Path, tmp_path: Path, kind: str) -> None:
    know(lab, "lake", f"duckdb://{lake if kind == 'file' else export(lake, tmp_path / 'files', TABLES)}")
    with lab.connections.resolve_reader("lake") as reader:
        [table] = reader.tables((), 10).tables
        assert (table["schema"], table["name"], table["kind"]) == ("content", "films", "table")
        assert [column["name"] for column in table["columns"]][:3] == ["id", "title", "rating"]
        [schema] = reader.sight((), None, "").schemas
        assert (schema.name, schema.tables) == ("content", 1)


def test_columns_that_differ_in_case_alone_are_two(lab: Lab, lake: Path) -> None:
    know(lab, "lake", f"duckdb://{lake}")
    run(lab, films(lab, source_query='SELECT 1 AS id, 2::HUGEINT AS "ID"'))
    assert lab.sql('SELECT id, "ID"::integer FROM analytics.films') == [(1, 2)]


@pytest.mark.parametrize(
    ("select", "tables"),
    [
        ("SELECT f.id FROM content.films AS f JOIN other AS o USING (id)", ["content.films", "other"]),
        ('SELECT 1 FROM "a.b"."c d" x, (SELECT 1 FROM lake.s.t) AS y', ["a.b.c d", "s.t"]),
        ("WITH t AS (SELECT 1) SELECT * FROM t, 'x/y.parquet'", ["t", "x/y.parquet"]),
        ("no query", []),
        ("DELETE FROM t", []),
    ],
)
def test_tables_are_told_without_their_aliases(select: str, tables: list[str]) -> None:
    assert DUCKDB.tables(select) == tables


def cursored(lab: Lab, **config: Any) -> Pipeline:
    query = "SELECT id, title, seen FROM content.films"
    return films(lab, source_query=query, mode="incremental", incremental_key="seen", **config)


def test_incremental_reads_from_the_last_value_on(lab: Lab, lake: Path) -> None:
    know(lab, "lake", f"duckdb://{lake}")
    pipeline = cursored(lab, batch_size=300)
    assert run(lab, pipeline)["rows_written"] == 1000
    write_lake(
        lake,
        "INSERT INTO content.films (id, title, seen) SELECT 2000, 'same moment', max(seen) FROM content.films",
        "UPDATE content.films SET title = 'unseen' WHERE id = 1",
        "UPDATE content.films SET title = 'seen', seen = '2021-01-01 00:00:00.123456' WHERE id = 2",
    )
    done = run(lab, pipeline)
    assert (done["rows_read"], done["rows_written"], done["rows_unchanged"]) == (3, 2, 1)
    assert lab.sql("SELECT id, title FROM analytics.films WHERE id IN (1, 2, 2000) ORDER BY id") == [
        (1, "film 1"), (2, "seen"), (2000, "same moment")]  # fmt: skip
    again = run(lab, pipeline)
    assert (again["rows_read"], again["rows_written"]) == (1, 0)


def test_a_lake_that_went_back_is_compared(lab: Lab, lake: Path) -> None:
    know(lab, "lake", f"duckdb://{lake}")
    pipeline = cursored(lab)
    run(lab, pipeline)
    write_lake(lake, "DELETE FROM content.films WHERE id > 900", "UPDATE content.films SET title = 'old' WHERE id = 5")
    done = run(lab, pipeline)
    assert (done["rows_written"], done["rows_deleted"]) == (1, 100)
    write_lake(lake, "UPDATE content.films SET title = 'later', seen = seen + INTERVAL 1 DAY WHERE id = 7")
    run(lab, pipeline)
    assert lab.sql("SELECT title FROM analytics.films WHERE id IN (5, 7) ORDER BY id") == [("old",), ("later",)]


def test_a_window_that_is_interrupted_is_read_again(lab: Lab, lake: Path) -> None:
    know(lab, "lake", f"duckdb://{lake}")
    pipeline = cursored(lab, batch_size=100)
    lab.db.execute(
        "CREATE TABLE analytics.films (id int PRIMARY KEY, title text, seen timestamp, CONSTRAINT few CHECK (id < 950))"
    )
    lab.db.execute("ALTER TABLE analytics.films OWNER TO vitrina_runner")
    assert lab.run(pipeline)["error"]
    lab.db.execute("ALTER TABLE analytics.films DROP CONSTRAINT few")
    run(lab, pipeline)
    assert lab.sql("SELECT count(*) FROM analytics.films") == [(1000,)]


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ({"source_query": "SELECT 1 AS id, NULL::TIMESTAMP AS seen"}, "NULL in its cursor seen"),
        ({"source_query": "SELECT 1 AS id, now() AS seen FROM range(2)"}, "gives a key twice"),
        ({"source_query": "SELECT 1 AS id"}, "cursor column seen is not in the query"),
    ],
)
def test_a_cursor_that_tells_nothing_is_refused(lab: Lab, lake: Path, config: dict[str, Any], says: str) -> None:
    know(lab, "lake", f"duckdb://{lake}")
    done = lab.run(films(lab, mode="incremental", incremental_key="seen", **config))
    assert says in done["error"]


def test_files_may_come_late_so_a_folder_has_no_cursor(lab: Lab, lake: Path, tmp_path: Path) -> None:
    know(lab, "lake", f"duckdb://{export(lake, tmp_path / 'files', TABLES)}/")
    pipeline = cursored(lab)
    assert "use mode full" in lab.run(pipeline)["remedy"]
    assert [f.where for f in Validation(lab.connections).of(pipeline) if f.level == "error"] == ["mode"]


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("duckdb:///srv/lake.duckdb?memory=1GB", "duckdb:///srv/lake.duckdb"),
        ("duckdb://[", "duckdb://["),
        ("sc://spark.example.org:443/;use_ssl=true;token=secret", "sc://spark.example.org:443"),
        ("sc://user:secret@spark.example.org:port/;token=secret", "sc://spark.example.org:port"),
        ("sc://spark;token=secret", "sc://spark"),
    ],
)
def test_an_address_is_shown_without_what_is_secret(url: str, shown: str) -> None:
    assert kind_of(url).shown(url) == shown

"""What is read by Spark Connect becomes a mart, and stays equal to it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import duckdb
import pytest

from tests.lakes import know
from tests.semantics import differing
from tests.support import Lab
from vitrina.control.services.validation import Validation
from vitrina.domain.errors import ConfigError, DatabaseLost
from vitrina.domain.pipeline import Pipeline

VALUES = "VALUES (1, 'a', CAST(1.50 AS DECIMAL(5,2))), (2, 'b', NULL), (3, '', CAST(-0.01 AS DECIMAL(5,2)))"
QUERY = f"SELECT * FROM ({VALUES}) AS t (id, title, rating)"


@pytest.fixture
def engine(lab: Lab, sail: str) -> Lab:
    know(lab, "lake", sail)
    return lab


def films(lab: Lab, query: str = QUERY, **config: Any) -> Pipeline:
    return lab.add(source="lake", source_query=query, key=["id"], target_table="analytics.films", **config)


def run(lab: Lab, pipeline: Pipeline) -> Mapping[str, Any]:
    done = lab.run(pipeline)
    assert done["error"] is None, done["error"]
    return done


def test_a_mart_is_loaded_and_then_kept_equal(engine: Lab) -> None:
    pipeline = films(engine)
    assert run(engine, pipeline)["rows_written"] == 3
    assert engine.sql("SELECT id, title, rating::text FROM analytics.films ORDER BY id") == [
        (1, "a", "1.50"), (2, "b", None), (3, "", "-0.01")]  # fmt: skip
    engine.db.execute("UPDATE etl.etl_pipelines SET source_query = source_query || ' WHERE id <> 2'")
    done = engine.run(pipeline)
    assert (done["error"], done["rows_deleted"], done["rows_unchanged"]) == (None, 1, 2)


def test_many_rows_come_whole(engine: Lab) -> None:
    query = "SELECT id, CAST(id AS STRING) AS title, id / 3 AS third FROM range(200000)"
    assert run(engine, films(engine, query, batch_size=50_000))["rows_written"] == 200_000
    text = "SELECT count(*), sum(id)::bigint, count(*) FILTER (WHERE title = id::text) FROM analytics.films"
    assert engine.sql(text) == [(200_000, 199_999 * 100_000, 200_000)]


TYPES = {
    "true": ("boolean", "true"),
    "CAST(-5 AS TINYINT)": ("smallint", "-5"),
    "CAST(5 AS BIGINT)": ("bigint", "5"),
    "CAST(1.50 AS DECIMAL(5,2))": ("numeric(5,2)", "1.50"),
    "CAST('-0.0' AS DOUBLE)": ("double precision", "-0"),
    "CAST('NaN' AS FLOAT)": ("real", "NaN"),
    "'ä'": ("text", "ä"),
    "CAST('x' AS BINARY)": ("bytea", "\\x78"),
    "DATE '0001-01-01'": ("date", "0001-01-01"),
    "TIMESTAMP '1969-12-31 23:59:59.999999'": ("timestamp with time zone", "1969-12-31 23:59:59.999999+00"),
    "TIMESTAMP_NTZ '2020-01-01 00:00:00'": ("timestamp without time zone", "2020-01-01 00:00:00"),
    "INTERVAL '1' DAY": ("interval", "24:00:00"),
    "array(1, NULL)": ("integer[]", "{1,NULL}"),
    "array('a', '')": ("text[]", '{a,""}'),
    "named_struct('a', 1, 'b', 'x')": ("jsonb", '{"a": 1, "b": "x"}'),
    "CAST(NULL AS INT)": ("integer", None),
}


def test_each_type_is_one_of_postgres_with_the_same_value(engine: Lab) -> None:
    columns = ", ".join(f"{value} AS c{n}" for n, value in enumerate(TYPES))
    pipeline = films(engine, f"SELECT 1 AS id, {columns}")
    run(engine, pipeline)
    types = engine.sql("""SELECT format_type(atttypid, atttypmod) FROM pg_attribute
                          WHERE attrelid = 'analytics.films'::regclass AND attnum > 1 ORDER BY attnum""")
    assert [one for (one,) in types] == [type_ for type_, _ in TYPES.values()]
    texts = ", ".join(f"c{n}::text" for n in range(len(TYPES)))
    with engine.db.transaction():
        engine.db.execute("SET LOCAL timezone = 'UTC'")
        row = engine.db.execute(f"SELECT ARRAY[{texts}] AS texts FROM analytics.films").fetchone()
    assert row is not None
    assert dict(zip(TYPES, row["texts"], strict=True)) == {name: text for name, (_, text) in TYPES.items()}
    assert run(engine, pipeline)["rows_written"] == 0


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("SELECT 1 AS id, NULL AS x", "column x is void"),
        ("SELECT 1 AS id, INTERVAL '1' MONTH AS x", "column x is interval"),
        ("SELECT 1 AS id, 2 AS id", "gives column 'id' twice"),
        ("SELECT 1 AS id, missing AS x", "missing"),
        ("SELECT 1 AS id, 'a' || chr(0) AS x", "column x has a value that Postgres refuses"),
    ],
)
def test_what_cannot_be_had_is_refused_and_named(engine: Lab, query: str, says: str) -> None:
    done = engine.run(films(engine, query))
    assert done["error"]
    assert says in done["error"]


def test_validation_tells_what_it_gives(engine: Lab) -> None:
    said = Validation(engine.connections).of(films(engine))
    assert not [f for f in said if f.level == "error"]
    assert "gives id integer, title text, rating numeric(5,2)" in " ".join(f.message for f in said)


def test_files_are_read_as_tables_of_the_catalogue_only(engine: Lab, tmp_path: Path) -> None:
    duckdb.sql(f"COPY (SELECT 1 AS id) TO '{tmp_path}/x.parquet'")
    done = engine.run(films(engine, f"SELECT id FROM parquet.`{tmp_path}/x.parquet`"))
    assert "reads a file by its path" in done["error"]


def test_who_does_not_answer_is_away(lab: Lab) -> None:
    know(lab, "lake", "sc://127.0.0.1:9")
    with pytest.raises(DatabaseLost, match="lake has gone"), lab.connections.resolve_reader("lake"):
        raise AssertionError


def test_memory_of_a_text_is_that_of_a_batch(engine: Lab) -> None:
    """What comes is handed on as it comes."""
    with engine.connections.resolve_reader("lake") as reader:
        sizes = [len(block) for block in reader.blocks("SELECT id, repeat('x', 100) AS t FROM range(300000)")]
    assert len(sizes) > 5
    assert max(sizes) < 8_000_000


def test_the_page_says_what_spark_computes_and_where_sail_does_otherwise(engine: Lab) -> None:
    with engine.connections.resolve_reader("lake") as reader:
        assert differing(reader, "Spark") == {
            "avg(x) FROM (VALUES (1.0), (2.0), (2.0)) AS t (x)": ("1.66666", "1.66667")  # it cuts
        }


@pytest.mark.parametrize("url", ["sc://[", "sc://host:port", "sc://host:1/path", "sc://host/;token", "sc://"])
def test_an_address_that_cannot_be_read_is_not_quoted(lab: Lab, url: str) -> None:
    know(lab, "lake", url)
    with pytest.raises(ConfigError, match="address of a source in Spark cannot be read") as error:
        lab.connections.resolve_reader("lake").__enter__()
    assert "host" not in error.value.message

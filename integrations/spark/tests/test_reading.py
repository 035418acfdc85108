"""What Vitrina keeps in a lake is read by Spark, and is equal to the query; what Spark does to it is understood."""

from typing import Any

from tests.asking import Asker
from tests.spark import SparkLake
from vitrina.domain.pipeline import Pipeline
from vitrina.testing.marts import assert_equal, items, went

TYPED = """
SELECT n::integer AS id, n::bigint * 4611686018427 AS big, (n % 2 = 0) AS flag, 'é ' || n AS title,
       (n::numeric / 8)::numeric(20, 3) AS amount, date '2026-01-01' + n::integer AS day, n::float8 / 3 AS ratio,
       timestamp '2026-01-01 00:00:00.123456' + n * interval '1 hour' AS naive,
       timestamptz '2026-01-01 00:00:00.5+00' + n * interval '1 day' AS moment,
       ARRAY['a', NULL, 'ß' || n] AS tags, CASE WHEN n % 3 = 0 THEN NULL ELSE n::smallint END AS sometimes
FROM generate_series(1, 50) AS n
"""
MOMENTS = ("naive", "moment")
AS_TEXT = ("amount", "day", "ratio")


def held(ask: Asker) -> list[dict[str, Any]]:
    """The mart, as Spark has it."""
    moments = ", ".join(f"date_format({name}, 'yyyy-MM-dd HH:mm:ss.SSSSSS') AS {name}" for name in MOMENTS)
    return ask(f"SELECT * EXCEPT ({', '.join(MOMENTS)}), {moments} FROM vitrina.cinema.mart ORDER BY id")


def wanted(lake: SparkLake, pipeline: Pipeline) -> list[dict[str, Any]]:
    """The query's rows, in the words that Spark's client has for them."""
    lake.lab.db.execute("SET timezone = 'UTC'")
    moments = ", ".join(f"to_char({name}, 'YYYY-MM-DD HH24:MI:SS.US')" for name in MOMENTS)
    names = [name for name in held_names() if name not in MOMENTS]
    rows = lake.lab.sql(f"SELECT {', '.join(names)}, {moments} FROM ({pipeline.source_query}) AS q ORDER BY id")
    found = [dict(zip([*names, *MOMENTS], row, strict=True)) for row in rows]
    return [{name: str(value) if name in AS_TEXT else value for name, value in row.items()} for row in found]


def held_names() -> list[str]:
    return ["id", "big", "flag", "amount", "title", "day", "ratio", "naive", "moment", "tags", "sometimes"]


def test_spark_reads_what_vitrina_wrote(lake: SparkLake, ask: Asker) -> None:
    pipeline = lake.lab.add(name="typed", source_query=TYPED, target_table=lake.target, key=["id"])
    went(lake, pipeline)
    assert held(ask) == wanted(lake, pipeline)


def test_files_that_spark_has_compacted_are_in_use(lake: SparkLake, ask: Asker) -> None:
    """Spark writes `file:/…` where others write `file:///…`: what nothing points to is not taken to be that."""
    pipeline = items(lake, 30)
    went(lake, pipeline)
    lake.lab.sql("UPDATE content.item SET title = 'another' WHERE id <= 3")
    went(lake, pipeline)
    [done] = ask(
        "CALL vitrina.system.rewrite_data_files(table => 'cinema.mart', options => map('rewrite-all', 'true'))"
    )
    assert done["rewritten_data_files_count"]
    lake.lab.sql("UPDATE content.item SET title = 'once more' WHERE id = 7")
    went(lake, pipeline)
    assert_equal(lake, pipeline)
    assert ask("SELECT count(*) AS n FROM vitrina.cinema.mart") == [{"n": 30}]

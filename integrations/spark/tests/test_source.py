"""Spark as a source: what is hostile is refused and executed by nobody, what is honest becomes a mart."""

from tests.engines import HONEST, HOSTILE, assert_refused, read
from tests.engines import place as place
from tests.lakes import know
from tests.semantics import differing
from tests.spark import Spark
from tests.support import Lab


def test_hostile_queries_are_refused(lab: Lab, spark: Spark, place: dict[str, str]) -> None:
    know(lab, "lake", spark.url)
    passed = []
    with lab.connections.resolve_reader("lake") as reader:
        for text in HOSTILE:
            try:
                assert_refused(reader, place, text)
            except BaseException as error:
                passed.append((text.name, repr(error)))
        assert passed == []
        assert [batch.text for batch in reader.rows("SELECT count(*) AS n FROM range(3)", 10)] == [b"3\n"]


def test_what_is_honest_passes(lab: Lab, spark: Spark) -> None:
    know(lab, "lake", spark.url)
    with lab.connections.resolve_reader("lake") as reader:
        for select in HONEST:
            read(reader, select)
        assert reader.version().startswith("Spark 4")


def test_a_mart_is_kept_equal(lab: Lab, spark: Spark) -> None:
    know(lab, "lake", spark.url)
    query = "SELECT id, CAST(id AS STRING) AS title, named_struct('n', id, 'none', NULL) AS doc FROM range(1000)"
    pipeline = lab.add(source="lake", source_query=query, key=["id"], target_table="analytics.films")
    first = lab.run(pipeline)
    assert (first["error"], first["rows_written"]) == (None, 1000)
    assert lab.sql("SELECT title, doc::text FROM analytics.films WHERE id = 7") == [("7", '{"n": 7, "none": null}')]
    assert lab.run(pipeline)["rows_written"] == 0


def test_the_page_says_what_spark_computes(lab: Lab, spark: Spark) -> None:
    know(lab, "lake", spark.url)
    with lab.connections.resolve_reader("lake") as reader:
        assert differing(reader, "Spark") == {}

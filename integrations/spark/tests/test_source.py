"""Spark as a source: what is hostile is refused and executed by nobody, what is honest becomes a mart."""

from dataclasses import replace

import pytest
from pyspark.errors import PySparkException

from tests.engines import HONEST, HOSTILE, assert_refused, read
from tests.engines import place as place
from tests.lakes import know
from tests.semantics import differing
from tests.spark import Spark
from tests.support import Lab
from vitrina.domain.errors import RetryableError
from vitrina.sources.spark.pieces import KeptResult, Pieces, keep
from vitrina.sources.spark.reader import SparkReader


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


def test_a_result_is_read_in_pieces_of_one_computation(lab: Lab, spark: Spark) -> None:
    """Whose rows are other ones in each: one that were computed again would have others."""
    know(lab, "lake", spark.url)
    query = "SELECT id, CAST(rand() * 1e9 AS BIGINT) AS drawn, repeat('x', 200) AS title FROM range(60000)"
    with lab.connections.resolve_reader("lake") as reader:
        assert isinstance(reader, SparkReader)
        kept = keep(reader.client, query)
        sums = [sum(reading(kept, "drawn")) for _ in range(2)]
        assert sums[0] == sums[1]
        pieces = Pieces(target=2**20)
        ids = sorted(reading(replace(kept, pieces=pieces), "id"))
        assert (ids, pieces.rows < 10_000) == ([*range(60_000)], True)
        kept.forget()
        with pytest.raises(PySparkException, match="No DataFrame"):
            reading(kept, "id")


def reading(kept: KeptResult, column: str) -> list[int]:
    return [value for batch in kept.batches(lambda: None) for value in batch.column(column).to_pylist()]


def test_reading_ends_between_two_pieces_too(lab: Lab, spark: Spark) -> None:
    """Nothing is under way then that Spark could interrupt."""
    know(lab, "lake", spark.url)
    with lab.connections.resolve_reader("lake") as reader:
        blocks = reader.blocks("SELECT id FROM range(100000)")
        [next(blocks) for _ in range(2)]
        reader.cancel()
        with pytest.raises(RetryableError, match="was cancelled"):
            list(blocks)


def test_the_first_rows_are_computed_alone(lab: Lab, spark: Spark) -> None:
    know(lab, "lake", spark.url)
    with lab.connections.resolve_reader("lake") as reader:
        batches = reader.first_rows("SELECT id FROM range(1000000000000) -- many", 5)
        assert sum(batch.size for batch in batches) == 5

"""Marts of a lake that Spark keeps by itself: no row passes through the runner, and what is kept is equal to the query."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pydantic import SecretStr
from pathlib import Path
from typing import Any

import pytest

from tests.spark import Asker, Spark, SparkLake
from tests.support import Lab
from vitrina.domain.pipeline import Pipeline
from vitrina.testing.marts import went, failed
from integrations.spark.tests import stub

QUERY = "SELECT film_id, CAST(sum(rating) AS BIGINT) AS total, count(*) AS votes, max(title) AS title, avg(CAST(rating AS DOUBLE)) AS mean FROM vitrina.raw.ratings GROUP BY film_id"


@dataclass
class Cluster:
    lab: Lab
    lake: SparkLake
    ask: Asker

    def fill(self, films: int = 100) -> None:
        self.ask("CREATE NAMESPACE IF NOT EXISTS vitrina.raw")
        self.ask(
            f"""CREATE TABLE vitrina.raw.ratings USING iceberg AS
                SELECT id AS film_id, CAST(id % 10 AS INT) AS rating, concat('film ', id) AS title FROM range({films})"""
        )

    def add(self, **config: Any) -> Pipeline:
        values = {"name": "totals", "source": "cluster", "source_query": QUERY, "key": ["film_id"], "target_table": self.lake.target}
        return self.lab.add(**(values | config))

    def differ(self, pipeline: Pipeline) -> list[dict[str, Any]]:
        """Rows of either side that the other has not."""
        q, t = f"({pipeline.source_query})", "vitrina.cinema.mart"
        return self.ask(f"(SELECT * FROM {q} EXCEPT ALL SELECT * FROM {t}) UNION ALL (SELECT * FROM {t} EXCEPT ALL SELECT * FROM {q})")

    def assert_equal(self, pipeline: Pipeline) -> None:
        assert self.differ(pipeline) == []


@pytest.fixture
def cluster(lab: Lab, lake: SparkLake, spark: Spark, ask: Asker) -> Cluster:
    stub.CONF.clear()
    stub.CONF.update(lake.catalogues)
    lab.configure(sources={"cluster": SecretStr(spark.url)}, lake_engine="cluster")
    lab.connections = replace(lab.connections, sources={"cluster": spark.url})
    cluster = Cluster(lab, lake, ask)
    cluster.fill()
    return cluster


def test_a_mart_is_kept_where_its_source_is(cluster: Cluster) -> None:
    pipeline = cluster.add()
    assert went(cluster.lake, pipeline) == (100, 0)
    cluster.assert_equal(pipeline)
    cluster.ask("UPDATE vitrina.raw.ratings SET rating = rating + 1 WHERE film_id IN (3, 5)")
    cluster.ask("DELETE FROM vitrina.raw.ratings WHERE film_id = 7")
    cluster.ask("INSERT INTO vitrina.raw.ratings VALUES (1000, 3, 'new')")
    assert went(cluster.lake, pipeline) == (3, 1)
    cluster.assert_equal(pipeline)
    assert went(cluster.lake, pipeline) == (0, 0)


def test_part_by_part(cluster: Cluster) -> None:
    stub.ESTIMATE[0] = 100
    cluster.lab.configure(engine_part_rows=25)
    pipeline = cluster.add()
    assert went(cluster.lake, pipeline) == (100, 0)
    cluster.assert_equal(pipeline)
    cluster.ask("UPDATE vitrina.raw.ratings SET rating = rating + 1 WHERE film_id < 40")
    assert went(cluster.lake, pipeline) == (40, 0)
    cluster.assert_equal(pipeline)
    parts = [e for e in cluster.lab.events(pipeline) if e["event"] == "engine_written"]
    print(parts)
    stub.ESTIMATE[0] = 0

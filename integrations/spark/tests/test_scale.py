"""Many rows through Spark, into each kind of mart: equal, and a runner that stays small. `make measure-spark`."""

import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.elastic import open_search
from tests.spark import Cluster, Spark, SparkLake, clustered, running
from tests.support import Lab
from vitrina.domain.pipeline import Pipeline
from vitrina.testing.faults import Nursery

pytestmark = pytest.mark.long
ROWS = int(os.environ.get("VITRINA_SPARK_ROWS", "1000000"))
MOST_MEMORY = 300_000_000
FIGURES = Path(__file__).parents[1] / "figures.json"
QUERY = """
SELECT film_id, CAST(rating AS BIGINT) AS total, title, CAST(film_id * 3 AS DECIMAL(18, 2)) AS price
FROM vitrina.raw.ratings"""
SUMS = "count(*) AS n, sum(film_id) AS ids, sum(total) AS totals, sum(price) AS prices, sum(crc32({})) AS titles"


@pytest.fixture(scope="module")
def workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Spark]:
    with running(tmp_path_factory.mktemp("cluster"), workers=2) as spark:
        yield spark


@pytest.fixture
def large(lab: Lab, lake: SparkLake, workers: Spark) -> Iterator[Cluster]:
    with clustered(lab, lake, workers) as cluster:
        yield cluster


def sums(cluster: Cluster, table: str) -> list[str]:
    """Of the columns, as Spark adds them up."""
    [row] = cluster.ask(f"SELECT {SUMS.format('title')} FROM {table}")
    return [str(value).removesuffix(".00") for value in row.values()]


def measured(cluster: Cluster, pipeline: Pipeline, what: str) -> dict[str, Any]:
    """A run in a process of its own: how long, how large it became, what it talked with Spark."""
    nursery, before, began = Nursery(cluster.lab), cluster.wire.carried, time.monotonic()
    child = nursery.start(pipeline)
    most = 0
    while child.is_alive():
        try:
            most = max(most, psutil.Process(child.pid).memory_info().rss)
        except psutil.NoSuchProcess:
            break
        time.sleep(0.2)
    child.join()
    run = cluster.lab.last_run(pipeline)
    assert (run["error"], run["status"]) == (None, "SUCCESS")
    found = {
        "what": what,
        "rows": ROWS,
        "seconds": round(time.monotonic() - began, 1),
        "written": run["rows_written"],
        "deleted": run["rows_deleted"],
        "runner_mb": round(most / 1e6),
        "bytes_from_spark": cluster.wire.carried - before,
        "load": os.getloadavg()[0],
    }
    _keep(found)
    assert most < MOST_MEMORY
    return found


def _keep(found: dict[str, Any]) -> None:
    known = json.loads(FIGURES.read_text()) if FIGURES.exists() else []
    kept = [each for each in known if (each["what"], each["rows"]) != (found["what"], found["rows"])]
    FIGURES.write_text(json.dumps([*kept, found], indent=1) + "\n")
    sys.stdout.write(f"{found}\n")


def test_into_the_lake_by_the_engine(large: Cluster) -> None:
    pipeline = large.add(ROWS, source_query=QUERY)
    first = measured(large, pipeline, "lake, inside the engine: first load")
    assert first["written"] == ROWS
    assert sums(large, f"({QUERY})") == sums(large, "vitrina.cinema.mart")
    large.ask("UPDATE vitrina.raw.ratings SET rating = rating + 1 WHERE film_id % 100 = 7")
    changed = measured(large, pipeline, "lake, inside the engine: 1% changed")
    assert (changed["written"], changed["deleted"]) == (ROWS // 100, 0)
    assert sums(large, f"({QUERY})") == sums(large, "vitrina.cinema.mart")
    assert changed["bytes_from_spark"] < 1_000_000


def test_into_a_table_of_postgres(large: Cluster) -> None:
    pipeline = large.add(ROWS, source_query=QUERY, target_table="analytics.totals")
    assert measured(large, pipeline, "table of Postgres, by Arrow: first load")["written"] == ROWS
    text = SUMS.format("convert_to(title, 'UTF8')")
    [row] = large.lab.sql(f"SELECT {text} FROM analytics.totals")
    assert [str(value).removesuffix(".00") for value in row] == sums(large, f"({QUERY})")


def test_into_elasticsearch(large: Cluster, elastic: str, index_prefix: str) -> None:
    with open_search(large.lab, elastic, index_prefix) as search:
        pipeline = large.add(ROWS, source_query=QUERY, target_table=search.target("totals"))
        assert measured(large, pipeline, "Elasticsearch, by Arrow: first load")["written"] == ROWS
        found = search.get(f"/{search.name('totals')}/_refresh") and search.http.post(
            f"/{search.name('totals')}/_search",
            json={"size": 0, "track_total_hits": True, "aggs": {"ids": {"sum": {"field": "film_id"}}}},
        )
        told = found.raise_for_status().json()
        assert (told["hits"]["total"]["value"], int(told["aggregations"]["ids"]["value"])) == (
            ROWS,
            ROWS * (ROWS - 1) // 2,
        )

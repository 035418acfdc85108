"""A cluster lives its own life: driver, executors and our runners die in the middle, and the mart is equal after."""

from collections.abc import Iterator
from threading import Thread

import pytest

from tests.patience import patient
from tests.spark import Cluster, Spark, SparkLake, clustered, running
from tests.support import Lab, wait_for
from vitrina.domain.errors import RetryableError
from vitrina.testing.faults import Nursery, killed
from vitrina.testing.marts import failed

SLOW = """
SELECT film_id, CAST(sum(rating) AS BIGINT) AS total, count(*) AS votes, max(title) AS title,
       count(DISTINCT sha2(concat(title, x), 512)) AS drawn
FROM vitrina.raw.ratings LATERAL VIEW explode(sequence(1, {})) AS x GROUP BY film_id"""


@pytest.fixture(scope="module")
def two_workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Spark]:
    """A master, and two workers with an executor each, in processes of their own."""
    with running(tmp_path_factory.mktemp("cluster"), workers=2) as spark:
        yield spark


@pytest.fixture
def apart(lab: Lab, lake: SparkLake, two_workers: Spark) -> Iterator[Cluster]:
    """Over this lake. What a test has killed is there again for the next."""
    if two_workers.driver is None:
        two_workers.start()
    with clustered(lab, lake, two_workers) as cluster:
        yield cluster


def is_at_work(cluster: Cluster) -> bool:
    """Whether some task of a run is under way."""
    return any(job["status"] == "RUNNING" and job["numActiveTasks"] for job in cluster.jobs_of_run())


@pytest.mark.long
@pytest.mark.faults
@pytest.mark.parametrize("point", ["before send:1", "after send:2", "before swap:1"])
def test_a_runner_that_is_killed(cluster: Cluster, point: str) -> None:
    cluster.lab.configure(engine_part_rows=10)
    pipeline, nursery = cluster.add(), Nursery(cluster.lab)
    try:
        nursery.kill_at(pipeline, killed(point))
        nursery.take_over(pipeline)
    finally:
        nursery.end()
    cluster.assert_equal(pipeline)
    assert cluster.lake.unreferenced() == set()


@pytest.mark.long
@pytest.mark.faults
def test_an_executor_that_is_killed_amid_a_comparison(apart: Cluster) -> None:
    """Spark computes again what it had; nobody here notices."""
    pipeline = apart.add(200, source_query=SLOW.format(4_000))
    runs = Thread(target=apart.lab.run, args=(pipeline,))
    runs.start()
    wait_for(lambda: is_at_work(apart), 120)
    lost = apart.spark.kill_executor()
    runs.join()
    assert apart.lab.last_run(pipeline)["status"] == "SUCCESS"
    assert lost not in apart.spark.executors()
    apart.assert_equal(pipeline)


@pytest.mark.long
@pytest.mark.faults
def test_an_executor_that_is_killed_amid_a_reading(apart: Cluster) -> None:
    """With it goes some of what is kept: what was read cannot be gone on with, and is read anew."""
    query = "SELECT id, repeat('x', 100) AS title FROM range(200000)"
    with apart.lab.connections.resolve_reader("cluster") as reader:
        blocks = reader.blocks(query)
        assert len([next(blocks) for _ in range(2)]) == 2  # the header, and the first piece
        apart.spark.kill_executor()
        with pytest.raises(RetryableError):
            list(blocks)
        assert sum(map(len, reader.blocks(query))) > 200_000 * 100


@pytest.mark.long
@pytest.mark.faults
def test_a_driver_that_is_killed_amid_a_comparison_and_comes_back(apart: Cluster) -> None:
    """The run is put off as in any outage, and goes on when the engine answers again."""
    pipeline = apart.add(200, source_query=SLOW.format(4_000))
    assert apart.lab.request(pipeline)
    apart.lab.configure(outage_pause_seconds=1, backoff_seconds=[0.2])
    with apart.lab.runner():
        wait_for(lambda: is_at_work(apart), 120)
        apart.spark.kill()
        wait_for(lambda: said(apart, pipeline.name, "waits", "retried"), 120)
        apart.spark.start()
        wait_for(lambda: apart.lab.last_run(pipeline)["status"] == "SUCCESS", 240)
    with clustered(apart.lab, apart.lake, apart.spark) as again:
        again.assert_equal(pipeline)


def said(cluster: Cluster, name: str, *events: str) -> bool:
    return bool(cluster.lab.sql("SELECT 1 FROM etl.etl_run_events WHERE event = ANY (%s)", list(events)))


def test_what_a_run_waits_for_no_longer_is_ended_in_the_cluster(cluster: Cluster) -> None:
    """By its tag: a query that takes longer than it may costs nothing more. What is quick is quick once all is warm."""
    quick = cluster.add(100, name="quick", target_table="lake:cinema.quick")
    assert cluster.lab.run(quick)["status"] == "SUCCESS"
    most = round(patient(4))
    cluster.lab.configure(engine_seconds=most)
    slow = {"name": "totals", "source": "cluster", "key": ["film_id"], "target_table": cluster.lake.target}
    pipeline = cluster.lab.add(**slow, source_query=SLOW.format(10_000_000))
    assert f"took more than {most} s" in failed(cluster.lake, pipeline)
    wait_for(lambda: not is_at_work(cluster), 60)
    assert cluster.jobs_of_run()
    cluster.lab.configure(engine_seconds=3600)


def test_a_pause_at_once_ends_what_the_cluster_does(cluster: Cluster) -> None:
    pipeline = cluster.add(100, source_query=SLOW.format(10_000_000))
    assert cluster.lab.request(pipeline)
    with cluster.lab.runner():
        wait_for(lambda: is_at_work(cluster), 120)
        cluster.lab.sql("UPDATE etl.etl_pipelines SET status = 'PAUSE_REQUESTED' WHERE id = %s", pipeline.id)
        wait_for(lambda: cluster.lab.status(pipeline) == "PAUSED", 60)
    wait_for(lambda: not is_at_work(cluster), 60)


def test_more_than_one_run_may_write_is_refused(cluster: Cluster) -> None:
    cluster.lab.configure(engine_most_rows=50)
    assert "100 rows differ, and one run writes 50 at most" in failed(cluster.lake, cluster.add())
    cluster.lab.configure(engine_most_rows=None)
    assert (
        cluster.lab.sql("SELECT * FROM etl_lake.iceberg_tables WHERE catalog_name = 'vitrina' AND table_name = 'mart'")
        == []
    )


def test_an_engine_that_does_not_see_the_lake_is_named(cluster: Cluster) -> None:
    cluster.lab.configure(spark_settings={})
    error = failed(cluster.lake, cluster.add(source_query="SELECT id AS film_id FROM range(3)"))
    assert "vitrina_work" in error

"""Marts of a lake that Spark keeps by itself: no row passes through the runner, and what is kept equals the query."""

import pytest

from tests.asking import Refused
from tests.faults.test_lake import once_files_are_written
from tests.spark import Cluster
from vitrina.meta.repos import state
from vitrina.sinks.lake import inside
from vitrina.sinks.lake.work import LakeWork
from vitrina.testing.marts import at_batch, failed, pause_at_batch, went

ROWS, FEW = 20_000, 300_000  # rows that come to a megabyte, and bytes that all the talk with Spark takes


def test_no_row_passes_through_the_runner(cluster: Cluster) -> None:
    pipeline = cluster.add(ROWS)
    assert went(cluster.lake, pipeline) == (ROWS, 0)
    cluster.assert_equal(pipeline)
    cluster.ask("UPDATE vitrina.raw.ratings SET rating = rating + 1 WHERE film_id % 100 = 3")
    cluster.ask("DELETE FROM vitrina.raw.ratings WHERE film_id = 7")
    cluster.ask("INSERT INTO vitrina.raw.ratings VALUES (1000000, 3, 'new')")
    assert went(cluster.lake, pipeline) == (ROWS // 100 + 1, 1)
    cluster.assert_equal(pipeline)
    assert 0 < cluster.wire.carried < FEW
    tags = {tag for job in cluster.spark.jobs() for tag in job["jobTags"]}
    assert [tag for tag in tags if tag.endswith("vitrina-totals-run-2")]


def test_nothing_is_written_where_nothing_differs(cluster: Cluster) -> None:
    pipeline = cluster.add()
    went(cluster.lake, pipeline)
    before = cluster.lake.table.metadata_location
    assert went(cluster.lake, pipeline) == (0, 0)
    assert cluster.lake.table.metadata_location == before
    assert cluster.lab.sql("SELECT * FROM etl_lake_work.iceberg_tables") == []
    assert cluster.lake.unreferenced() == set()


def test_a_mart_is_written_part_by_part_and_paused_between_two(cluster: Cluster) -> None:
    cluster.lab.configure(engine_part_rows=10)
    pipeline = cluster.add()
    pause_at_batch(cluster.lab, pipeline, 2)
    run = cluster.lab.run(pipeline)
    assert (run["status"], cluster.lab.status(pipeline)) == ("PAUSED", "PAUSED")
    assert 0 < run["rows_written"] < 100
    at_batch(cluster.lab, 2, "NULL")
    written, _ = went(cluster.lake, pipeline)
    assert written == 100 - run["rows_written"]
    cluster.assert_equal(pipeline)
    assert len(cluster.lake.table.metadata.snapshots) <= 2
    assert cluster.lake.unreferenced() == set()
    parts = [said["fields"]["part"] for said in cluster.lab.events(pipeline) if said["event"] == "engine_written"]
    assert len(parts) == len({*parts}) > 1


@pytest.mark.parametrize(
    ("row", "said"),
    [("(5, 1, 'again')", "gives a key twice: film_id = 5"), ("(NULL, 1, 'none')", "NULL in its key")],
)
def test_keys_that_cannot_be_kept_are_named_and_nothing_is_written(cluster: Cluster, row: str, said: str) -> None:
    pipeline = cluster.add(source_query="SELECT film_id, rating, title FROM vitrina.raw.ratings")
    went(cluster.lake, pipeline)
    cluster.ask(f"INSERT INTO vitrina.raw.ratings VALUES (2000, 1, 'fine'), {row}")
    assert said in failed(cluster.lake, pipeline)
    assert cluster.ask("SELECT count(*) AS n FROM vitrina.cinema.mart") == [{"n": 100}]


def test_a_source_that_is_suddenly_empty_stops_the_run(cluster: Cluster) -> None:
    pipeline = cluster.add()
    went(cluster.lake, pipeline)
    cluster.ask("DELETE FROM vitrina.raw.ratings")
    assert "this would delete 100 of 100 rows" in failed(cluster.lake, pipeline)
    assert cluster.ask("SELECT count(*) AS n FROM vitrina.cinema.mart") == [{"n": 100}]
    assert went(cluster.lake, pipeline, allow_deletes=True) == (0, 100)


def test_whatever_somebody_did_to_the_mart_is_put_right(cluster: Cluster) -> None:
    pipeline = cluster.add()
    went(cluster.lake, pipeline)
    cluster.ask("INSERT INTO vitrina.cinema.mart SELECT * FROM vitrina.cinema.mart WHERE film_id IN (4, 5)")
    cluster.ask("DELETE FROM vitrina.cinema.mart WHERE film_id = 6")
    cluster.ask("UPDATE vitrina.cinema.mart SET title = 'damaged' WHERE film_id IN (5, 8)")
    cluster.ask("INSERT INTO vitrina.cinema.mart VALUES (5000, 1, 1, 'stranger', 1D)")
    assert went(cluster.lake, pipeline) == (4, 1)
    cluster.assert_equal(pipeline)


ODD = """
SELECT id % 2 = 0 AS `is even`, concat('key; -- ', id) AS `ключ "1"`, CAST(id AS DECIMAL(38, 10)) / 7 AS `a``b`,
       CASE id WHEN 0 THEN -0.0D WHEN 1 THEN double('NaN') ELSE id / 3.0D END AS `select`,
       array(concat('x', id), NULL) AS `t.g`, timestamp_micros(id) AS at,
       date_add(DATE'2026-01-01', CAST(id AS INT)) AS day
FROM range(8)
"""


def test_odd_names_types_and_values(cluster: Cluster) -> None:
    pipeline = cluster.add(source_query=ODD, key=["is even", 'ключ "1"', "day"])
    assert went(cluster.lake, pipeline) == (8, 0)
    cluster.assert_equal(pipeline)
    assert went(cluster.lake, pipeline) == (0, 0)
    cluster.lab.sql("UPDATE etl.etl_pipelines SET source_query = %s", ODD.replace("-0.0D", "0.0D"))
    assert went(cluster.lake, pipeline) == (1, 0)


def test_a_run_that_was_taken_over_commits_nothing_in_the_lake_either(cluster: Cluster) -> None:
    """Spark's own commit finds no row of work any more."""
    pipeline = cluster.add()
    went(cluster.lake, pipeline)
    location = cluster.lake.table.metadata_location
    late, next_ = (LakeWork(pipeline.id, epoch) for epoch in (91, 92))
    late.begin(cluster.lab.db, location)
    cluster.ask(f"INSERT INTO vitrina_work.work.{late.table} SELECT 7000, 1, 1, 'late', 1D")
    next_.begin(cluster.lab.db, location)
    with pytest.raises(Refused, match="cannot be found"):
        cluster.ask(f"INSERT INTO vitrina_work.work.{late.table} SELECT 7001, 1, 1, 'late', 1D")
    assert went(cluster.lake, pipeline) == (0, 0)
    cluster.assert_equal(pipeline)


@pytest.mark.parametrize("is_fenced", [True, False])
def test_a_zombie_moves_no_pointer_and_would_without_the_fence(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, is_fenced: bool
) -> None:
    """Its engine has committed on the row of work; then somebody else has the pipeline."""
    pipeline = cluster.add()
    went(cluster.lake, pipeline)
    cluster.ask("UPDATE vitrina.raw.ratings SET rating = rating + 1 WHERE film_id = 3")
    before = cluster.lake.table.metadata_location
    once_files_are_written(
        monkeypatch, lambda: cluster.lab.sql("UPDATE etl.etl_state SET epoch = epoch + 1"), where=inside
    )
    if not is_fenced:
        monkeypatch.setitem(state.SQL, "fence", state.SQL["fence"].replace("epoch = %(epoch)s", "true"))
    cluster.lab.run(pipeline)
    assert (cluster.lake.table.metadata_location == before) is is_fenced


def test_a_commit_of_somebody_else_amid_a_run_is_seen(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """The pointer is not where the run left it: nothing is committed, and the next attempt compares anew."""
    pipeline = cluster.add()
    went(cluster.lake, pipeline)
    cluster.ask("UPDATE vitrina.raw.ratings SET rating = rating + 1 WHERE film_id = 3")
    damage = "UPDATE vitrina.cinema.mart SET title = 'stranger' WHERE film_id = 9"
    once_files_are_written(monkeypatch, lambda: cluster.ask(damage), where=inside)
    assert went(cluster.lake, pipeline) == (2, 0)
    assert cluster.lab.last_run(pipeline)["attempt"] == 2
    cluster.assert_equal(pipeline)


def test_a_mart_goes_from_an_engine_to_a_runner_and_back(cluster: Cluster) -> None:
    """What the engine wrote no shadow knows, and what it divided no runner writes."""
    cluster.lab.configure(engine_part_rows=10)
    pipeline = cluster.add()
    went(cluster.lake, pipeline)
    assert cluster.lake.table.spec().fields
    for number, engine in enumerate([None, None, "cluster", "cluster", None], 1):
        cluster.lab.configure(lake_engine=engine)
        cluster.ask(f"UPDATE vitrina.raw.ratings SET rating = rating + 1 WHERE film_id = {number}")
        went(cluster.lake, pipeline)
        cluster.assert_equal(pipeline)
    assert not cluster.lake.table.spec().fields

"""A lake in a bucket: what every kind of mart must do, with kills, and read by others."""

from pathlib import Path
from typing import Any

import pytest

from tests.faults.test_lake import once_files_are_written
from tests.lake import LakeSink
from tests.s3 import KEY, SECRET, BucketLake, Front
from vitrina.cli.checking_lake import check_lake
from vitrina.sinks.lake.place import Place
from vitrina.testing import SinkConformance
from vitrina.testing.faults import Nursery, change, killed
from vitrina.testing.marts import add_items, assert_equal, failed, items, went


class TestBucket(SinkConformance):
    """As in a folder."""

    test_an_answer_that_is_lost_after_all_has_arrived_does_no_harm: Any = None  # as for a folder: one transaction
    test_an_older_epoch_changes_nothing: Any = None  # the fence is the checkpoint's: see the zombie below
    test_marts_are_equal_after_random_changes: Any = None  # long ones, of a folder: they do not ask where it is
    test_a_run_is_paused_in_the_middle_and_goes_on: Any = None
    test_a_rebuild_writes_everything_anew: Any = None  # one moves a lake, below

    @pytest.fixture
    def mart(self, lake: BucketLake) -> BucketLake:
        return lake


def test_a_query_that_gives_the_same_writes_nothing(lake: BucketLake, front: Front) -> None:
    pipeline = items(lake, 30)
    went(lake, pipeline)
    assert front.writes
    front.seen.clear()
    assert went(lake, pipeline) == (0, 0)
    assert (front.seen != [], front.writes) == (True, [])


def test_duckdb_reads_what_the_query_gives_while_it_is_kept(lake: BucketLake) -> None:
    select = "SELECT id, title, price, at FROM content.item"
    pipeline = items(lake, 40, source_query=select, batch_size=7)
    for last in (40, 60):
        went(lake, pipeline, allow_deletes=True)
        assert lake.by_duckdb == lake.lab.sql(f"{select} ORDER BY id")
        lake.lab.sql("DELETE FROM content.item WHERE id % 5 = 0; UPDATE content.item SET price = -id WHERE id % 3 = 0")
        add_items(lake.lab, last + 1, last + 20)


@pytest.mark.parametrize("point", ["after send:2", "before swap:1"])
def test_a_first_load_that_is_killed_is_gone_on_with(lake: BucketLake, point: str) -> None:
    pipeline, nursery = items(lake, 30, batch_size=10), Nursery(lake.lab)
    nursery.kill_at(pipeline, killed(point))
    change(lake.lab)
    assert nursery.take_over(pipeline)["status"] == "SUCCESS"
    went(lake, pipeline)
    assert_equal(lake, pipeline)


def test_what_a_killed_runner_leaves_is_removed(lake: BucketLake) -> None:
    pipeline, nursery = items(lake, 30, batch_size=10), Nursery(lake.lab)
    went(lake, pipeline)
    assert not lake.unreferenced()
    change(lake.lab)
    nursery.kill_at(pipeline, killed("after send:2"))
    assert lake.unreferenced()
    nursery.take_over(pipeline)
    assert_equal(lake, pipeline)
    assert not lake.unreferenced()


def test_a_zombie_moves_no_pointer(lake: BucketLake, monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = items(lake)
    went(lake, pipeline)
    before = lake.table.metadata_location
    lake.lab.sql("UPDATE content.item SET title = 'of a zombie' WHERE id = 1")
    once_files_are_written(monkeypatch, lambda: lake.lab.sql("UPDATE etl.etl_state SET epoch = epoch + 1"))
    lake.lab.run(pipeline)
    assert (lake.table.metadata_location, lake.rows(["id"])["1"]["title"]) == (before, "item 1")


def test_a_commit_of_somebody_else_amid_a_run_is_seen(lake: BucketLake, monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = items(lake)
    went(lake, pipeline)
    lake.lab.sql("UPDATE content.item SET title = 'other' WHERE id = 1")
    once_files_are_written(monkeypatch, lambda: lake.damage("2", "3", {"id": 99, "title": "stranger"}))
    assert went(lake, pipeline) == (3, 1)
    assert_equal(lake, pipeline)


def test_without_a_key_the_environment_signs_in(
    lake: BucketLake, front: Front, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "of-the-environment")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    pipeline = items(lake)
    went(lake, pipeline)
    assert {request.key for request in front.seen} == {KEY}
    front.seen.clear()
    lake.lab.configure(lake_access_key=None, lake_secret_key=None)
    went(lake, pipeline, repair=True)
    assert {request.key for request in front.seen} == {"of-the-environment"}


def test_the_doctor_looks_at_it(lake: BucketLake) -> None:
    settings = lake.lab.connections.settings
    there, allowed = check_lake(settings)
    assert (there.level, allowed.level) == ("ok", "ok")
    assert settings.lake_url
    assert settings.lake_url in there.message
    assert SECRET not in f"{settings!r}{there}"
    assert [*check_lake(settings.model_copy(update={"lake_url": None}))] == []


@pytest.mark.parametrize(
    "url", ["s3://key:secret@bucket", "s3://bucket/marts?region=x", "s3://Bucket", "gs://bucket", "/lake"]
)
def test_an_address_that_names_no_bucket_is_refused_and_not_shown(lake: BucketLake, url: str) -> None:
    lake.lab.configure(lake_url=url)
    said = failed(lake, items(lake))
    assert "VITRINA_LAKE_URL names neither a folder nor a bucket" in said
    assert url not in said


def test_a_lake_that_moves_from_a_folder_to_a_bucket_is_made_anew(lake: BucketLake, tmp_path: Path) -> None:
    settings = lake.lab.connections.settings
    folder = LakeSink(lake.lab, tmp_path)
    pipeline = items(folder)
    went(folder, pipeline)
    lake.lab.configure(lake_url=settings.lake_url)
    went(lake, pipeline)
    assert lake.table.metadata.location.startswith(f"{settings.lake_url}/")
    lake.lab.sql("UPDATE content.item SET title = 'other' WHERE id = 1")
    assert went(lake, pipeline) == (1, 0)
    assert_equal(lake, pipeline)


def test_a_table_whose_files_are_lost_is_made_anew(lake: BucketLake) -> None:
    pipeline = items(lake)
    went(lake, pipeline)
    location = lake.table.metadata.location
    Place.of(lake.lab.connections.settings).files.remove(location)
    assert not lake.files(location)
    went(lake, pipeline)
    assert_equal(lake, pipeline)


def test_under_another_prefix_it_is_made_anew(lake: BucketLake) -> None:
    pipeline = items(lake)
    went(lake, pipeline)
    other = f"{lake.lab.connections.settings.lake_url}/other"
    lake.lab.configure(lake_url=other)
    went(lake, pipeline)
    assert lake.table.metadata.location.startswith(f"{other}/cinema/")
    assert_equal(lake, pipeline)


def test_without_its_bucket_nothing_is_taken_to_be_lost(lake: BucketLake, front: Front) -> None:
    pipeline = items(lake)
    went(lake, pipeline)
    front.seen.clear()
    front.rule = lambda request: (404, "NoSuchBucket")
    assert "the lake refuses it" in failed(lake, pipeline)
    assert front.seen
    assert not front.writes
    front.rule = lambda request: None
    assert went(lake, pipeline) == (0, 0)


def test_a_lake_that_moves_to_a_folder_is_not_followed(lake: BucketLake, tmp_path: Path) -> None:
    """Whose table it is cannot be read from there."""
    pipeline = items(lake)
    went(lake, pipeline)
    location = lake.table.metadata.location
    folder = LakeSink(lake.lab, tmp_path)
    said = failed(folder, pipeline)
    assert lake.table.metadata.location == location
    lake.lab.sql(said[said.index("DELETE FROM") :])
    went(folder, pipeline)
    assert_equal(folder, pipeline)


@pytest.mark.parametrize("url", ["gs://bucket/mart", "memory://mart"])
def test_a_table_of_somebody_else_is_left_alone_wherever_its_files_are(lake: BucketLake, url: str) -> None:
    row = f"'vitrina', 'cinema', 'mart', '{url}/metadata/00000-x.metadata.json'"
    names = "catalog_name, table_namespace, table_name, metadata_location"
    lake.lab.sql(f"INSERT INTO etl_lake.iceberg_tables ({names}) VALUES ({row})")
    assert "did not make" in failed(lake, items(lake))


def test_half_a_key_is_refused(lake: BucketLake) -> None:
    lake.lab.configure(lake_secret_key=None)
    assert "VITRINA_LAKE_SECRET_KEY only one is set" in failed(lake, items(lake))

"""Marts in a lake: tables of Iceberg that are their query, row for row and type for type."""

import sys
from pathlib import Path
from shutil import rmtree
from typing import Any

import pyarrow as pa
import pytest

from tests.lake import LakeSink
from tests.support import Lab
from vitrina.control.services.validation import Validation
from vitrina.domain.findings import Code
from vitrina.domain.pipeline import Pipeline
from vitrina.meta.db import connect
from vitrina.neighbours import Neighbours
from vitrina.sinks.documents import editions
from vitrina.sinks.registry import look_at_sinks, tidy
from vitrina.testing import SinkConformance
from vitrina.testing.marts import CURSOR, add_items, assert_equal, failed, items, went


@pytest.fixture
def lake(lab: Lab, tmp_path: Path) -> LakeSink:
    return LakeSink(lab, tmp_path / "lake")


class TestLake(SinkConformance):
    """What every kind must do."""

    test_an_answer_that_is_lost_after_all_has_arrived_does_no_harm: Any = None  # there is none: it is one transaction
    test_an_older_epoch_changes_nothing: Any = None  # tests/faults/test_lake.py: the fence is the checkpoint's

    @pytest.fixture
    def mart(self, lake: LakeSink) -> LakeSink:
        return lake


def errors_of(lake: LakeSink, pipeline: Pipeline) -> str:
    """What is said when it is saved."""
    found = Validation(lake.lab.connections).of(pipeline)
    return "; ".join(f"{finding.message} {finding.remedy}" for finding in found if finding.level == "error")


EXACT = {
    "id": ("int", "1", "2", "3"),
    "small": ("smallint", "'-32768'", "32767", "NULL"),
    "big": ("bigint", "9007199254740993", "'-9223372036854775808'", "NULL"),
    "price": ("numeric(38,10)", "1234567890123456789012345678.0000000001", "-0.5", "NULL"),
    "whole": ("numeric(9,0)", "123456789", "0", "NULL"),
    "ratio": ("real", "0.1", "1e-7", "'NaN'"),
    "rate": ("real", "'-0'", "33554432", "1.6777216e10"),
    "share": ("double precision", "0.1", "1e300", "'-Infinity'"),
    "portion": ("double precision", "1e23", "9007199254740993", "5e-324"),
    "yes": ("boolean", "true", "false", "NULL"),
    "said": ("text", r"E'é\t\u2028\"\\ \n \x7f'", "''", "NULL"),
    "code": ("character(3)", "'ab'", "'abc'", "NULL"),
    "name": ("character varying(9)", "'ab'", "''", "NULL"),
    "who": ("uuid", "'00000000-0000-4000-8000-0000000000ff'", "'ffffffff-ffff-ffff-ffff-ffffffffffff'", "NULL"),
    "day": ("date", "'0001-01-01'", "'9999-12-31'", "NULL"),
    "hour": ("time without time zone", "'23:59:59.999999'", "'00:00'", "NULL"),
    "moment": ("timestamp without time zone", "'1969-12-31 23:59:59.999999'", "'0999-01-01'", "NULL"),
    "instant": ("timestamp with time zone", "'2024-03-31 02:30+02'", "'9999-12-31 23:59:59.5+00'", "NULL"),
    "bytes": ("bytea", r"'\x00ff'", r"'\x'", "NULL"),
    "tags": ("text[]", "'{a,NULL,\"\"}'", "'{}'", "NULL"),
    "prices": ("numeric(9,2)[]", "'{1.50,NULL}'", "'{}'", "NULL"),
    "days": ("date[]", "'{2024-02-29}'", "'{}'", "NULL"),
    "flags": ("boolean[]", "'{t,f,NULL}'", "'{}'", "NULL"),
}
KEPT = """
    int int long decimal(38,10) decimal(9,0) float float double double boolean string string string uuid date time
    timestamp timestamptz binary list<string> list<decimal(9,2)> list<date> list<boolean>
"""


def make_exact(lab: Lab) -> None:
    columns = ", ".join(f"{name} {type_}" for name, (type_, *_) in EXACT.items())
    rows = ", ".join(f"({', '.join(values)})" for values in zip(*[v for _, *v in EXACT.values()], strict=True))
    lab.sql(f"CREATE TABLE content.exact ({columns})")
    lab.sql(f"INSERT INTO content.exact VALUES {rows}")
    lab.sql("GRANT SELECT ON content.exact TO vitrina_reader")


def test_every_type_is_kept_exactly(lake: LakeSink) -> None:
    """Also what the mart gives back as text is what Postgres writes: a reconcile compares it by hash."""
    make_exact(lake.lab)
    pipeline = lake.lab.add(source_table="content.exact", key=["id"], target_table=lake.target)
    assert went(lake, pipeline) == (3, 0)
    assert_equal(lake, pipeline)
    assert [str(field.field_type).replace(" ", "") for field in lake.table.schema().fields] == KEPT.split()
    assert lake.table.schema().identifier_field_names() == {"id"}
    report = lake.lab.reconcile(pipeline)
    assert (report["equal"], report["samples"]["different"]) == (True, [])
    assert went(lake, pipeline, repair=True) == (0, 0)


@pytest.mark.parametrize("name", ["price", "who", "instant", "yes", "code", "hour", "moment"])
def test_a_key_of_any_type_finds_its_row(lake: LakeSink, name: str) -> None:
    make_exact(lake.lab)
    lake.lab.sql(f"DELETE FROM content.exact WHERE {name} IS NULL")
    pipeline = lake.lab.add(source_table="content.exact", key=[name, "id"], batch_size=1, target_table=lake.target)
    went(lake, pipeline)
    lake.lab.sql("UPDATE content.exact SET small = 7 WHERE id = 1; DELETE FROM content.exact WHERE id = 2")
    assert went(lake, pipeline) == (1, 1)
    assert_equal(lake, pipeline)
    assert lake.lab.reconcile(pipeline)["equal"]


@pytest.mark.parametrize(
    ("select", "said"),
    [
        ("SELECT 1 AS id, 1::numeric AS n", "CAST(n AS numeric(18, 2))"),
        ("SELECT 1 AS id, 1::numeric(50, 2) AS n", "38 digits at most"),
        ("SELECT 1 AS id, '1 day'::interval AS n", "CAST(n AS text)"),
        ("SELECT 1 AS id, '{}'::bytea[] AS n", "no exact type"),
        ("SELECT 1::float8 AS id", "cannot be told apart"),
    ],
)
def test_what_a_lake_has_no_exact_type_for_is_refused_before_a_run(lake: LakeSink, select: str, said: str) -> None:
    config = {"name": "m", "source_query": select, "key": ["id"], "target_table": lake.target}
    pipeline = Pipeline.parse(config)
    assert said in errors_of(lake, pipeline)


@pytest.mark.parametrize(
    ("value", "type_"),
    [
        ("infinity", "timestamptz"),
        ("0044-03-15 BC", "date"),
        ("24:00", "time"),
        ("NaN", "numeric(9,2)"),
        ("{{1,2},{3,4}}", "int[]"),
    ],
)
def test_a_value_that_no_lake_can_hold_is_named_and_nothing_is_kept(lake: LakeSink, value: str, type_: str) -> None:
    pipeline = items(lake, source_query=f"SELECT id, '{value}'::{type_} AS odd FROM content.item")
    said = failed(lake, pipeline)
    assert "odd" in said or "one dimension" in said, said
    assert lake.rows(["id"]) == {}


def test_a_query_that_gives_the_same_writes_no_file(lake: LakeSink) -> None:
    pipeline = items(lake, 30)
    went(lake, pipeline)
    before = set(lake.folder.rglob("*"))
    assert went(lake, pipeline) == (0, 0)
    assert set(lake.folder.rglob("*")) == before


@pytest.mark.parametrize(
    ("select", "said"),
    [
        ("SELECT 1 AS id, n FROM generate_series(1, 3) n", "gives a key twice: id = 1"),
        ("SELECT nullif(n, 2) AS id, n FROM generate_series(1, 3) n", "NULL in its key"),
    ],
)
def test_a_load_in_one_go_names_a_key_that_is_none(lake: LakeSink, select: str, said: str) -> None:
    """The keys of the shadow are sorted when all of them are there."""
    pipeline = lake.lab.add(source_query=select, key=["id"], target_table=lake.target)
    assert said in failed(lake, pipeline)
    lake.lab.sql("UPDATE etl.etl_pipelines SET source_query = 'SELECT n AS id, n FROM generate_series(1, 3) n'")
    went(lake, pipeline)
    assert lake.table.scan().count() == 3
    assert lake.lab.value("SELECT count(*) FROM pg_constraint WHERE contype = 'p' AND conrelid::regclass::text ~ 'd_'")


def test_only_the_files_that_hold_a_changed_row_are_written_anew(lake: LakeSink) -> None:
    pipeline = items(lake, 30, batch_size=10)
    went(lake, pipeline)
    before = {task.file.file_path for task in lake.table.scan().plan_files()}
    lake.lab.sql("UPDATE content.item SET title = 'other' WHERE id = 5")
    went(lake, pipeline)
    after = {task.file.file_path for task in lake.table.scan().plan_files()}
    assert (len(before), len(before - after)) == (3, 1)


@pytest.mark.parametrize("marks", [False, True])
def test_duckdb_reads_what_the_query_gives_while_it_is_kept(
    lake: LakeSink, monkeypatch: pytest.MonkeyPatch, marks: bool
) -> None:
    """Also where rows are not written anew but marked as deleted."""
    if marks:
        from vitrina.sinks.lake import iceberg

        monkeypatch.setattr(iceberg, "SMALL_BYTES", 0)
        monkeypatch.setattr(iceberg, "MOST_MARKED", 2.0)
    select = "SELECT id, title, price, at FROM content.item"
    pipeline = items(lake, 40, source_query=select, batch_size=7)
    for last in (40, 60, 80):
        went(lake, pipeline, allow_deletes=True)
        assert lake.by_duckdb == lake.lab.sql(f"{select} ORDER BY id")
        assert marks is (last > 40) or not any(task.delete_files for task in lake.table.scan().plan_files())
        lake.lab.sql("DELETE FROM content.item WHERE id % 5 = 0; UPDATE content.item SET price = -id WHERE id % 3 = 0")
        add_items(lake.lab, last + 1, last + 20)


def test_the_old_table_stays_for_who_reads_it_and_then_goes(lake: LakeSink) -> None:
    pipeline = items(lake)
    went(lake, pipeline)
    old = lake.table
    went(lake, pipeline, rebuild=True)
    assert lake.table.metadata.table_uuid != old.metadata.table_uuid
    assert old.scan().count() == 10
    lake.lab.configure(es_grace_seconds=0)
    with connect(lake.lab.connections.warehouse, "tidy") as conn:
        tidy(conn, lake.lab.connections.settings)
    assert not Path(old.metadata.location.removeprefix("file://")).exists()
    assert_equal(lake, pipeline)


def test_a_table_of_somebody_else_is_left_alone(lake: LakeSink) -> None:
    catalogue = lake.catalogue
    catalogue.create_namespace("cinema")
    theirs = catalogue.create_table("cinema.mart", pa.schema([("id", pa.int32())]), f"file://{lake.folder}/theirs")
    pipeline = items(lake)
    assert "did not make" in failed(lake, pipeline)
    assert lake.table.metadata.table_uuid == theirs.metadata.table_uuid
    lake.lab.sql(lake.lab.last_run(pipeline)["remedy"].partition("have it forgotten: ")[2])
    went(lake, pipeline)
    assert_equal(lake, pipeline)


def test_a_target_is_allowed_by_name(lake: LakeSink) -> None:
    pipeline = items(lake, target_table="lake:secret.mart")
    assert "VITRINA_ALLOWED_LAKE_TABLES allows cinema.*" in failed(lake, pipeline)


def test_without_a_lake_or_its_extra_a_run_says_what_is_missing(
    lake: LakeSink, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = items(lake)
    lake.lab.configure(lake_url=None)
    assert "set it where runners run: file:///folder, or s3://bucket/prefix" in failed(lake, pipeline)
    monkeypatch.delitem(sys.modules, "vitrina.sinks.lake.iceberg", raising=False)
    monkeypatch.delattr("vitrina.sinks.lake.iceberg", raising=False)
    monkeypatch.setitem(sys.modules, "pyiceberg.table", None)
    assert "pip install 'vitrina[lake]'" in failed(lake, pipeline)


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"publish": "atomic"}, "publish: atomic is for tables"),
        ({"adopt": True}, "adopt is for an index"),
        ({"mapping": {"id": {"type": "long"}}}, "is for an index"),
    ],
)
def test_what_a_lake_cannot_do_is_said_before_a_run(lake: LakeSink, config: dict[str, Any], said: str) -> None:
    pipeline = items(lake, **config)
    assert said in errors_of(lake, pipeline)


def test_a_check_sees_the_values_in_their_types(lake: LakeSink) -> None:
    kept = {"name": "priced", "condition": "price > 0 AND at <= now() AND cardinality(tags) = 1"}
    select = "SELECT id, price, at, ARRAY[title] AS tags FROM content.item"
    pipeline = items(lake, source_query=select, checks=[kept | {"effect": "block"}])
    went(lake, pipeline)
    lake.lab.sql("UPDATE content.item SET price = -1 WHERE id = 4")
    before = lake.table.metadata_location
    assert "priced" in failed(lake, pipeline)
    assert lake.table.metadata_location == before


def test_mode_incremental_writes_what_has_changed(lake: LakeSink) -> None:
    pipeline = items(lake, 20, **CURSOR)
    went(lake, pipeline)
    lake.lab.sql("UPDATE content.item SET title = 'other', at = clock_timestamp() WHERE id IN (3, 4)")
    assert went(lake, pipeline) == (2, 0)
    assert_equal(lake, pipeline)


def test_a_plan_says_what_would_be_created_and_what_is_lost(lake: LakeSink) -> None:
    pipeline = items(lake, source_query="SELECT id, price, to_jsonb(title) AS title FROM content.item")
    told = {f.code: f.message for f in Validation(lake.lab.connections).of(pipeline)}
    created = "CREATE TABLE cinema.mart (id int NOT NULL, price decimal(9, 2), title string) USING iceberg"
    assert told[Code.WOULD_CREATE_TABLE] == f"would run: {created}"
    assert "title would be kept as text" in told[Code.KEPT_AS_TEXT]


def test_many_small_changes_leave_few_files_and_few_snapshots(lake: LakeSink, monkeypatch: pytest.MonkeyPatch) -> None:
    from vitrina.sinks.lake import iceberg

    monkeypatch.setattr(iceberg, "MOST_SMALL", 4)
    lake.lab.configure(lake_snapshot_days=0)
    pipeline = items(lake, 12, batch_size=2)
    went(lake, pipeline)
    for number in range(3):
        lake.lab.sql("UPDATE content.item SET title = %s WHERE id <= 6", f"change {number}")
        went(lake, pipeline)
        assert_equal(lake, pipeline)
        assert len([*lake.table.scan().plan_files()]) <= 5
        assert len(lake.table.metadata.snapshots) == 2  # the last is there for who reads it
    logged = [Path(entry.metadata_file.removeprefix("file://")) for entry in lake.table.metadata.metadata_log]
    assert all(file.exists() for file in logged)
    assert not lake.unreferenced()


def test_a_table_can_be_read_as_it_was(lake: LakeSink) -> None:
    pipeline = items(lake)
    went(lake, pipeline)
    [before] = lake.table.metadata.snapshots[-1:]
    lake.lab.sql("DELETE FROM content.item WHERE id > 5")
    went(lake, pipeline)
    assert lake.table.scan().count() == 5
    assert lake.table.scan(snapshot_id=before.snapshot_id).count() == 10


def test_a_runner_says_whether_it_can_read_the_lake(lake: LakeSink, tmp_path: Path) -> None:
    seen = look_at_sinks(lake.lab.connections.settings, lake.lab.connections.neighbours)["lake"]
    assert seen["version"].startswith("0.12")
    (tmp_path / "file").touch()
    lake.lab.configure(lake_url=f"file://{tmp_path}/file")
    seen = look_at_sinks(lake.lab.connections.settings, lake.lab.connections.neighbours)["lake"]
    assert "cannot be read or written" in seen["error"]
    assert look_at_sinks(lake.lab.connections.settings.model_copy(update={"lake_url": None}), Neighbours()) == {}


@pytest.mark.parametrize("by_run", [True, False])
def test_under_another_name_the_old_one_goes_with_its_table(lake: LakeSink, by_run: bool) -> None:
    pipeline = items(lake)
    went(lake, pipeline)
    lake.lab.configure(es_grace_seconds=0 if by_run else 600)
    lake.lab.sql("UPDATE etl.etl_pipelines SET target_table = 'lake:cinema.other'")
    lake.target = "lake:cinema.other"
    went(lake, pipeline)
    assert_equal(lake, pipeline)
    if not by_run:
        lake.lab.configure(es_grace_seconds=0)
        with connect(lake.lab.connections.warehouse, "tidy") as conn:
            tidy(conn, lake.lab.connections.settings)
    assert lake.lab.sql("SELECT table_name FROM etl_lake.iceberg_tables") == [("other",)]
    assert {path.name for path in (lake.folder / "cinema").iterdir()} == {"other-000002"}


def table_folder(lake: LakeSink) -> Path:
    return Path(lake.table.metadata.location.removeprefix("file://"))


def test_a_table_whose_files_are_lost_is_made_anew(lake: LakeSink) -> None:
    pipeline = items(lake)
    went(lake, pipeline)
    rmtree(table_folder(lake))
    went(lake, pipeline)
    assert_equal(lake, pipeline)


def test_a_lake_that_is_not_mounted_is_waited_for_and_not_made_anew(lake: LakeSink) -> None:
    """An empty folder may be the place where it belongs."""
    pipeline = items(lake)
    went(lake, pipeline)
    (lake.folder / "cinema").rename(lake.folder / "elsewhere")
    assert f"mount it, or mkdir {lake.folder}/cinema" in failed(lake, pipeline)
    (lake.folder / "elsewhere").rename(lake.folder / "cinema")
    assert went(lake, pipeline) == (0, 0)
    assert_equal(lake, pipeline)


def test_in_another_folder_it_is_made_anew(lake: LakeSink) -> None:
    pipeline = items(lake)
    went(lake, pipeline)
    lake.lab.configure(lake_url=f"file://{lake.folder}/other")
    went(lake, pipeline)
    assert table_folder(lake).is_relative_to(lake.folder / "other")
    assert_equal(lake, pipeline)


@pytest.mark.parametrize("end", ["?secret=x", "#x"])
def test_an_address_of_a_folder_ends_with_its_name_and_is_not_shown(lake: LakeSink, end: str) -> None:
    lake.lab.configure(lake_url=f"file://{lake.folder}{end}")
    said = failed(lake, items(lake))
    assert "VITRINA_LAKE_URL names neither a folder nor a bucket" in said
    assert end not in said


def test_a_name_that_somebody_takes_amid_a_load_is_left_to_them(
    lake: LakeSink, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalogue = lake.catalogue

    def reach(place: str) -> None:
        if place == "before swap":
            catalogue.create_namespace_if_not_exists("cinema")
            schema = pa.schema([("id", pa.int32())])
            catalogue.create_table("cinema.mart", schema, f"file://{lake.folder}/theirs")

    monkeypatch.setattr(editions, "reach", reach)
    assert "did not make" in failed(lake, items(lake))
    assert table_folder(lake).name == "theirs"


def test_a_table_of_somebody_else_is_left_alone_wherever_its_files_are(lake: LakeSink) -> None:
    row = "'vitrina', 'cinema', 'mart', 's3://bucket/mart/metadata/00000-x.metadata.json'"
    names = "catalog_name, table_namespace, table_name, metadata_location"
    lake.lab.sql(f"INSERT INTO etl_lake.iceberg_tables ({names}) VALUES ({row})")
    assert "did not make" in failed(lake, items(lake))


@pytest.mark.parametrize(
    ("before", "after", "more"),
    [
        ("character varying(3)", "character varying(9)", "'longer'"),
        ("timestamp(0)", "timestamp(3)", "'2024-01-01 00:00:00.4'"),
    ],
)
def test_a_key_that_grows_wider_tells_rows_apart_as_the_query_does(
    lake: LakeSink, before: str, after: str, more: str
) -> None:
    first = "'2024-01-01'" if "time" in before else "'a'"
    lake.lab.sql(f"CREATE TABLE content.wide (id {before}); INSERT INTO content.wide VALUES ({first})")
    lake.lab.sql("GRANT SELECT ON content.wide TO vitrina_reader")
    pipeline = lake.lab.add(source_table="content.wide", key=["id"], target_table=lake.target)
    went(lake, pipeline)
    lake.lab.sql(f"ALTER TABLE content.wide ALTER id TYPE {after}; INSERT INTO content.wide VALUES ({more})")
    went(lake, pipeline)
    assert went(lake, pipeline) == (0, 0)
    lake.lab.sql(f"DELETE FROM content.wide WHERE id = {more}")
    assert went(lake, pipeline) == (0, 1)
    assert_equal(lake, pipeline)


@pytest.mark.parametrize(("before", "after"), [("smallint", "integer"), ("character(3)", "character(9)")])
def test_a_key_of_another_type_needs_a_word(lake: LakeSink, before: str, after: str) -> None:
    """Iceberg's type is the same, but not the one that rows are compared by."""
    lake.lab.sql(f"CREATE TABLE content.wide (id {before}); INSERT INTO content.wide VALUES (1)")
    lake.lab.sql("GRANT SELECT ON content.wide TO vitrina_reader")
    pipeline = lake.lab.add(source_table="content.wide", key=["id"], target_table=lake.target)
    went(lake, pipeline)
    lake.lab.sql(f"ALTER TABLE content.wide ALTER id TYPE {after}; INSERT INTO content.wide VALUES (70000)")
    assert "drift: the query changed id" in failed(lake, pipeline)
    went(lake, pipeline, rebuild=True)
    assert_equal(lake, pipeline)

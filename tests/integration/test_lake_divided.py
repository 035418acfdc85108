"""Marts in a lake that are divided: each row in the files of its part, once, wherever it was before."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.expressions import EqualTo

from tests.integration.test_lake import EXACT, make_exact
from tests.lake import LakeSink
from tests.lake_divided import divide
from tests.support import Lab
from vitrina.control.services.indexing import Served
from vitrina.control.services.plans import FoundOf, follows
from vitrina.control.services.validation import Validation
from vitrina.domain.findings import Code
from vitrina.domain.partitions import MOST
from vitrina.domain.pipeline import Pipeline
from vitrina.sinks.lake import datafiles, iceberg
from vitrina.sinks.lake.shape import TAKEN
from vitrina.sinks.parquet.types import KeptType
from vitrina.sql.describe import Column
from vitrina.testing import SinkConformance
from vitrina.testing.marts import add_items, assert_equal, failed, items, went


@pytest.fixture
def lake(lab: Lab, tmp_path: Path) -> LakeSink:
    return LakeSink(lab, tmp_path / "lake")


class TestDividedLake(SinkConformance):
    """What every kind must do."""

    test_an_answer_that_is_lost_after_all_has_arrived_does_no_harm: Any = None
    test_an_older_epoch_changes_nothing: Any = None

    @pytest.fixture
    def mart(self, lake: LakeSink, monkeypatch: pytest.MonkeyPatch) -> LakeSink:
        divide(monkeypatch)
        return lake


def parts(lake: LakeSink) -> dict[tuple[Any, ...], int]:
    """How many rows each part has, by what a manifest says of its files."""
    found = Counter[tuple[Any, ...]]()
    for task in lake.table.scan().plan_files():
        gone = sum(file.record_count for file in task.delete_files)
        found[tuple(task.file.partition[n] for n in range(len(task.file.partition)))] += task.file.record_count - gone
    return dict(found)


@pytest.mark.parametrize("marks", [False, True])
def test_a_row_that_moves_is_in_its_new_part_alone(
    lake: LakeSink, monkeypatch: pytest.MonkeyPatch, marks: bool
) -> None:
    """Also where it is marked as deleted in the part that it was in; read by pyiceberg and DuckDB."""
    if marks:
        monkeypatch.setattr(iceberg, "SMALL_BYTES", 0)
        monkeypatch.setattr(iceberg, "MOST_MARKED", 2.0)
    select = "SELECT id, title, price, at, id % 3 = 0 AS third FROM content.item"
    pipeline = items(lake, 40, source_query=select, partition_by=["third", "month(at)"])
    went(lake, pipeline)
    for month in ("2024-01-31 23:30+00", "2024-02-01 00:30+00", "1969-12-31 23:59+00", None):
        lake.lab.sql("UPDATE content.item SET at = %s, id = id + 100 WHERE id %% 7 = 0", month)
        lake.lab.sql("UPDATE content.item SET at = %s WHERE id %% 5 = 0", month)
        lake.lab.sql("DELETE FROM content.item WHERE id % 11 = 0")
        went(lake, pipeline, allow_deletes=True)
        assert_equal(lake, pipeline)
        assert lake.by_duckdb == lake.lab.sql(f"{select} ORDER BY id")
        assert lake.lab.reconcile(pipeline)["equal"]
    month = "12 * extract(year FROM at AT TIME ZONE 'UTC') + extract(month FROM at AT TIME ZONE 'UTC') - 1 - 12 * 1970"
    wanted = lake.lab.sql(f"SELECT id % 3 = 0, ({month})::int, count(*) FROM content.item GROUP BY 1, 2")
    assert {key: rows for key, rows in parts(lake).items() if rows} == {(third, at): n for third, at, n in wanted}
    assert any(task.delete_files for task in lake.table.scan().plan_files()) is marks


def ways() -> Iterator[tuple[list[str], str]]:
    """By every way all columns of the exact types that take it, some at a time."""
    kinds = {name: KeptType.of(Column(name, type_)) for name, (type_, *_) in EXACT.items() if name != "id"}
    width = {"bucket": "3, ", "truncate": "2, "}
    for how, types in TAKEN.items():
        taken = [n for n, kind in kinds.items() if kind.kept.partition("(")[0] in types and not kind.is_list]
        for first in range(0, len(taken), MOST):
            yield taken[first : first + MOST], f"{how}({width.get(how, '')}{{}})"


@pytest.mark.parametrize(("names", "how"), [*ways()])
def test_by_every_type_and_way(lake: LakeSink, names: list[str], how: str) -> None:
    """NULL is a part too, and a row moves there and back."""
    make_exact(lake.lab)
    by = [how.format(name) for name in names]
    pipeline = lake.lab.add(source_table="content.exact", key=["id"], target_table=lake.target, partition_by=by)
    assert went(lake, pipeline) == (3, 0)
    assert_equal(lake, pipeline)
    assert sum(parts(lake).values()) == 3
    set_ = ", ".join(f"{name} = two.{name}" for name in names)
    lake.lab.sql(f"UPDATE content.exact e SET {set_} FROM content.exact two WHERE e.id = 1 AND two.id = 2")
    assert went(lake, pipeline) == (1, 0)
    assert_equal(lake, pipeline)
    assert lake.lab.reconcile(pipeline)["equal"]


def test_another_division_is_another_table_and_said_before(lake: LakeSink) -> None:
    pipeline = items(lake, 20)
    went(lake, pipeline)
    old = lake.table
    wanted = pipeline.model_copy(update={"partition_by": ("month(at)", "bucket(4, id)")})
    served = Served.find(lake.lab.db, pipeline.id)
    found = Validation(lake.lab.connections, served=lambda _: served).of(wanted)
    [told] = [finding for finding in found if finding.code == Code.WOULD_REBUILD_TABLE]
    assert "USING iceberg PARTITIONED BY (month(at), bucket(4, id))" in told.message
    said = follows(wanted, pipeline.model_dump(mode="json"), [FoundOf(told.code, told.data)])
    assert said == "a full load: the next run fills a new table, which then takes the place of lake:cinema.mart"
    lake.lab.sql("UPDATE etl.etl_pipelines SET partition_by = '{month(at),\"bucket(4, id)\"}'")
    went(lake, wanted)
    assert_equal(lake, wanted)
    assert lake.table.metadata.table_uuid != old.metadata.table_uuid
    assert [str(field.transform) for field in lake.table.spec().fields] == ["month", "bucket[4]"]
    assert went(lake, wanted) == (0, 0)
    lake.lab.sql("UPDATE etl.etl_pipelines SET partition_by = '{}'")
    went(lake, pipeline)
    assert lake.table.spec().is_unpartitioned()
    assert_equal(lake, pipeline)


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        (["nothing"], "partition_by names 'nothing', which is not in the query it gives id, title, price, at"),
        (["month(title)"], "because title is text title takes bucket(16, title), truncate(4, title), title"),
        (["hour(day)"], "because day is date day takes year(day), month(day), day(day), bucket(16, day), day"),
        (["ratio"], "because ratio is double precision, by which no table is divided leave it out"),
        (["bucket(4, tags)"], "because tags is text[], by which no table is divided"),
        (["truncate(4, doc)"], "because doc is jsonb, by which no table is divided"),
    ],
)
def test_what_iceberg_does_not_divide_by_is_said_before_a_run(lake: LakeSink, parts: list[str], said: str) -> None:
    more = ", at::date AS day, 0.5::float8 AS ratio, ARRAY[title] AS tags, to_jsonb(title) AS doc"
    select = f"SELECT id, title, price, at{more if 'nothing' not in parts else ''} FROM content.item"
    pipeline = items(lake, source_query=select, partition_by=parts)
    [found] = [f for f in Validation(lake.lab.connections).of(pipeline) if f.level == "error"]
    assert said in f"{found.message} {found.remedy}"
    assert found.where == "partition_by"
    assert found.message in failed(lake, pipeline)


def test_a_mart_of_another_kind_is_not_divided(lake: LakeSink) -> None:
    pipeline = items(lake, partition_by=["id"], target_table="analytics.mart")
    assert "partition_by is for a table in a lake" in failed(lake, pipeline)
    several = {"name": "x", "source_query": pipeline.source_query, "key": ["id"], "partition_by": ["id"]}
    wanted = Pipeline.parse(several | {"targets": ["analytics.mart", lake.target]})
    assert not [f.message for f in Validation(lake.lab.connections).of(wanted) if f.level == "error"]


def test_a_division_that_is_too_fine_is_refused_before_anything_counts(
    lake: LakeSink, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(datafiles, "MOST_PARTS", 20)
    pipeline = items(lake, 21, batch_size=5_000, partition_by=["id"])
    assert "more than 20 parts" in failed(lake, pipeline)
    assert lake.rows(["id"]) == {}


@pytest.mark.parametrize("batch_size", [7, 5_000])
def test_however_many_parts_there_are_few_files_are_open_and_little_waits(
    lake: LakeSink, monkeypatch: pytest.MonkeyPatch, batch_size: int
) -> None:
    """Each part has its rows, though files are closed for others meanwhile; a load brings them part by part."""
    monkeypatch.setattr(datafiles, "MOST_OPEN", 2)
    monkeypatch.setattr(datafiles, "GROUP_BYTES", 100)
    monkeypatch.setattr(datafiles, "WAITING_BYTES", 200)
    select = "SELECT id, title, price, at, md5(title) AS digest FROM content.item"
    wanted = ["truncate(1, digest)"]
    pipeline = items(lake, 200, source_query=select, partition_by=wanted, batch_size=batch_size)
    went(lake, pipeline)
    assert_equal(lake, pipeline)
    sizes = lake.lab.sql("SELECT left(md5(title), 1), count(*) FROM content.item GROUP BY 1")
    assert parts(lake) == {(digit,): rows for digit, rows in sizes}
    if batch_size == 5_000:
        assert len([*lake.table.scan().plan_files()]) <= 2 * len(sizes)


def test_small_files_become_one_in_each_part(lake: LakeSink, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(iceberg, "MOST_SMALL", 3)
    pipeline = items(lake, 12, batch_size=2, partition_by=["bucket(2, id)"])
    went(lake, pipeline)
    for number in range(4):
        add_items(lake.lab, 100 + number * 4, 103 + number * 4)
        went(lake, pipeline)
        assert_equal(lake, pipeline)
        files = Counter(task.file.partition[0] for task in lake.table.scan().plan_files())
        assert set(files) == {0, 1}
        assert max(files.values()) <= 4
    assert not lake.unreferenced()


def test_values_of_any_kind_name_no_file(lake: LakeSink) -> None:
    """A value may be no name of a file, or say what a list of files should not."""
    odd = ["../../x", "a/b", "", " ", "x" * 3_000, "%2F", "é\n\t", "secret"]
    rows = ", ".join(f"({n}, $odd${value}$odd$)" for n, value in enumerate(odd))
    select = f'SELECT * FROM (VALUES {rows}, (99, NULL)) AS v (id, "odd name")'
    pipeline = lake.lab.add(source_query=select, key=["id"], target_table=lake.target, partition_by=['"odd name"'])
    went(lake, pipeline)
    assert parts(lake) == {(value,): 1 for value in [*odd, None]}
    assert not [path for path in lake.folder.rglob("*") if "secret" in str(path) or "%" in str(path)]
    assert went(lake, pipeline) == (0, 0)
    for number, value in enumerate(odd):
        found = lake.table.scan(row_filter=EqualTo("odd name", value))  # type: ignore[call-arg, arg-type]
        assert (found.to_arrow()["id"].to_pylist(), len([*found.plan_files()])) == ([number], 1)


def test_of_a_divided_table_only_the_files_of_what_is_asked_for_are_read(lake: LakeSink) -> None:
    pipeline = items(lake, 60, batch_size=5_000, partition_by=["truncate(10, id)"])
    went(lake, pipeline)
    tasks = [*lake.table.scan(row_filter="id >= 20 and id < 30").plan_files()]
    assert [task.file.partition[0] for task in tasks] == [20]

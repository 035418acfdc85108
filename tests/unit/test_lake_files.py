"""Tables of a lake as files, without a warehouse that points to them."""

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.io.pyarrow import ParquetFormatWriter
from pyiceberg.table.statistics import StatisticsFile

from vitrina.sinks.lake import datafiles, iceberg
from vitrina.sinks.lake.folder import Folder
from vitrina.sinks.lake.iceberg import LakeTable
from vitrina.sinks.lake.shape import LakeShape
from vitrina.sinks.parquet.parsing import Text, to_arrow
from vitrina.sql.describe import Column

SHAPE = LakeShape((Column("id", "text"), Column("said", "text")), ("id",), ())


class Files:
    """A table, and what is put into it."""

    def __init__(self, folder: str) -> None:
        url = f"file://{folder}"
        self.table = LakeTable.create(Folder(url), url, SHAPE, "somebody")

    def put(self, rows: dict[str, str], *, anew: bool = False) -> None:
        """As a run does: in the place of others, perhaps."""
        lines = "".join(f'(,{id_},"{said}",)\n' for id_, said in rows.items())
        fresh = to_arrow(SHAPE, Text(lines.encode()), ["id", "said"], self.table.types)
        self.table.change(fresh, fresh.select(["id"]).slice(0, None if anew else 0), [], 0)

    @property
    def rows(self) -> dict[str, str]:
        found = [row for rows in self.table.read() for row in rows.to_pylist()]
        assert len({row["id"] for row in found}) == len(found)
        return {row["id"]: row["said"] for row in found}


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(f"{tmp_path}/lake")


def test_a_snapshot_that_somebody_has_tagged_is_kept_and_the_others_go(files: Files) -> None:
    files.put({"a": "1"})
    [tagged] = files.table.table.metadata.snapshots
    files.table.table.manage_snapshots().create_tag(tagged.snapshot_id, "audit").commit()
    for number in range(3):
        files.put({f"b{number}": "2"})
    kept = [snapshot.snapshot_id for snapshot in files.table.table.metadata.snapshots]
    assert (kept[0], len(kept)) == (tagged.snapshot_id, 3)


def test_who_has_rolled_it_back_to_what_was_ours_is_noticed(files: Files) -> None:
    files.put({"a": "1"})
    before = files.table.table.metadata.snapshots[-1]
    files.put({"a": "2"}, anew=True)
    assert files.table.is_ours
    files.table.table.manage_snapshots().set_current_snapshot(snapshot_id=before.snapshot_id).commit()
    assert files.rows == {"a": "1"}
    assert not files.table.is_ours


def test_however_many_files_are_written_anew_few_are_in_memory(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch may touch every file there is."""
    size, most = 1_000_000, [0]
    monkeypatch.setattr(iceberg, "SMALL_BYTES", 0)
    monkeypatch.setattr(datafiles, "GROUP_BYTES", size)
    for number in range(12):
        files.put({f"{number}-{part}": "x" * size for part in range(2)})
    write = ParquetFormatWriter.write

    def written(writer: ParquetFormatWriter, rows: pa.Table) -> None:
        most[0] = max(most[0], pa.total_allocated_bytes())
        write(writer, rows)

    monkeypatch.setattr(ParquetFormatWriter, "write", written)
    files.put({f"{number}-1": "other" for number in range(12)}, anew=True)
    assert most[0] < 12 * size  # half of all there is
    assert {said for id_, said in files.rows.items() if id_.endswith("-1")} == {"other"}


def marked(files: Files) -> dict[str, int]:
    """How many rows of each data file do not count."""
    tasks = files.table.table.scan().plan_files()
    assert all(len(task.delete_files) <= 1 for task in tasks)
    return {task.file.file_path: sum(file.record_count for file in task.delete_files) for task in tasks}


def test_a_few_rows_of_many_are_marked_where_they_are_until_they_are_many(
    files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(iceberg, "SMALL_BYTES", 0)
    want = {f"{number:03}": "1" for number in range(100)}
    files.put(want)
    [first] = marked(files)
    for number, deleted in ((3, 1), (7, 2), (3, 2), (50, 3)):  # the third is in another file by then
        files.put({f"{number:03}": f"{number} anew"}, anew=True)
        want[f"{number:03}"] = f"{number} anew"
        assert files.rows == want
        assert marked(files)[first] == deleted
    files.put({f"{number:03}": "2" for number in range(90, 99)}, anew=True)
    assert files.rows == want | {f"{number:03}": "2" for number in range(90, 99)}
    assert first not in marked(files)
    assert sum(marked(files).values()) == 0
    assert not [path for path in iceberg.unused(files.table, 0) if path in marked(files)]
    assert files.table.count() == 100


def test_rows_that_are_marked_are_skipped_by_who_knows_nothing_of_us(
    files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file that marks them is as Iceberg has it: by path and position, in order; old snapshots have them still."""
    monkeypatch.setattr(iceberg, "SMALL_BYTES", 0)
    files.put({f"{number:03}": "1" for number in range(100)})
    before = files.table.table.metadata.current_snapshot_id
    files.put({"011": "2", "005": "2"}, anew=True)
    [marks] = [file for task in files.table.table.scan().plan_files() for file in task.delete_files]
    found = pq.read_table(marks.file_path.removeprefix("file://"))
    assert [field.metadata[b"PARQUET:field_id"] for field in found.schema] == [b"2147483546", b"2147483545"]
    assert found["pos"].to_pylist() == [5, 11]
    summary = files.table.table.current_snapshot().summary  # type: ignore[union-attr]
    assert summary
    assert summary["total-position-deletes"] == "2"
    assert files.table.table.scan(snapshot_id=before).count() == 100


def test_statistics_of_somebody_else_are_not_swept_away(files: Files, tmp_path: Path) -> None:
    files.put({"a": "1"})
    table, path = files.table.table, tmp_path / "lake" / "metadata" / "of-trino.stats"
    path.touch()
    [snapshot] = table.metadata.snapshots
    sizes: dict[str, Any] = {"file-size-in-bytes": 0, "file-footer-size-in-bytes": 0, "blob-metadata": []}
    told = {"snapshot-id": snapshot.snapshot_id, "statistics-path": f"file://{path}"}
    with table.update_statistics() as update:
        update.set_statistics(StatisticsFile.model_validate(told | sizes))
    files.table.location = table.catalog.staged  # type: ignore[attr-defined]
    assert f"file://{path}" not in iceberg.unused(files.table, 0)


def test_bounds_are_those_of_all_rows_however_long_a_value_is(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a value this long a group of rows has no bounds, and they would be taken to be those of another."""
    monkeypatch.setattr(datafiles, "GROUP_BYTES", 4_000)
    rows = {f"a{number:07}": "" for number in range(400)} | {"b" + "x" * 5_000: "1"}
    files.put(rows)
    [task] = files.table.table.scan().plan_files()
    assert len(task.file.split_offsets or ()) > 1
    files.put({[*rows][-1]: "2"}, anew=True)
    assert files.table.count() == len(rows)


ODD = ["", " ", '"', '""', "\\", '\\"', "a,b", "(,)", "\n", "\r\n", "NULL", "\\N", "\u2028", "é" * 9, "x" * 9_000_000]


@pytest.mark.parametrize("is_record", [True, False])
def test_text_arrives_as_it_is(is_record: bool) -> None:
    """However odd or long it is, next to a NULL; in a record Postgres doubles what CSV would not."""
    quoted = [odd.replace('"', '""') for odd in ODD]
    if is_record:
        lines = "".join(f'(,{n},"{odd}",)\n'.replace("\\", "\\\\") for n, odd in enumerate(quoted)) + "(,none,,)\n"
    else:
        lines = "".join(f'{n},"{odd}"\n' for n, odd in enumerate(quoted)) + "none,\n"
    target = pa.schema([("id", pa.large_string()), ("said", pa.large_string())])
    rows = to_arrow(SHAPE, Text(lines.encode(), is_record), ["id", "said"], target)
    assert rows["said"].to_pylist() == [*ODD, None]


@pytest.mark.parametrize("name", ["my lake", "озеро", "50%25"])
def test_a_folder_may_have_any_name(tmp_path: Path, name: str) -> None:
    files = Files(f"{tmp_path}/{name}/x")
    files.put({"a": "1"})
    url = f"file://{tmp_path}/{name}"
    folder = Folder(url)
    newest = iceberg.newest_in(folder, f"{url}/x")
    assert newest is not None
    assert newest.location == files.table.location
    assert iceberg.look(folder)
    assert not iceberg.unused(files.table, 0)
    folder.remove(f"{url}/x")
    assert not (tmp_path / name / "x").exists()


def test_files_are_on_the_disk_before_anybody_is_told_of_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A warehouse that survives a loss of power points to nothing that does not."""
    sync, kept = os.fsync, set[int]()

    def fsync(number: int) -> None:
        kept.add(os.fstat(number).st_ino)
        sync(number)

    monkeypatch.setattr(os, "fsync", fsync)
    files = Files(f"{tmp_path}/lake/cinema/mart-000001")
    for number in range(3):
        files.put({"a": str(number)}, anew=True)
        assert not {str(path) for path in (tmp_path / "lake").rglob("*") if path.stat().st_ino not in kept}

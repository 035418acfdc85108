"""Tables of Iceberg, by pyiceberg: the only module that knows its tables, and the names of it that are not public.

A change is staged: its files are written, the last of them the table's new metadata. Nobody sees it until a pointer in
the warehouse is moved there. What is staged and not pointed to is swept up.
"""

import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyiceberg
from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io.pyarrow import ArrowScan, _read_all_delete_files, schema_to_pyarrow
from pyiceberg.manifest import DataFile
from pyiceberg.schema import Schema
from pyiceberg.serializers import FromInputFile, ToOutputFile
from pyiceberg.table import CommitTableResponse, FileScanTask, Table, Transaction
from pyiceberg.table.metadata import new_table_metadata
from pyiceberg.table.snapshots import Operation
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.table.update import TableRequirement, TableUpdate, update_table_metadata
from pyiceberg.table.update.snapshot import ExpireSnapshots
from pyiceberg.transforms import BucketTransform
from pyiceberg.types import ListType, NestedField

from vitrina.sinks.lake.datafiles import DataWriter
from vitrina.sinks.lake.deleting import Mark, Rewriting, about_it_alone, deleted_before
from vitrina.sinks.lake.dividing import spec_of
from vitrina.sinks.lake.files import Files
from vitrina.sinks.lake.keys import around
from vitrina.sinks.lake.place import spelled
from vitrina.sinks.lake.shape import LakeShape
from vitrina.sinks.parquet.keys import among

OWNER = "vitrina.pipeline"
SMALL_BYTES = 2_000_000  # of a file of Parquet, which is better off in a larger one
MOST_SMALL = 20  # of a table, or of a part of it
MOST_SNAPSHOTS = 200  # each is a part of every metadata file: a live mart would have thousands
MOST_MARKED = 0.1  # of the rows of a file: with more of them deleted, what stays is written anew
MARKED_AT_REST = 0.01  # of the rows of a file, once no run writes
MOST_AT_ONCE = 1_000_000_000  # bytes of files that one turn at rest writes anew
PROPERTIES = {
    "commit.retry.num-retries": "0",
    "write.parquet.compression-codec": "zstd",
    "write.parquet.row-group-limit": str(64 * 1024 * 1024),  # of rows: `parquet.py` says how large a group is
}


class Staging(NoopCatalog):
    """In the place of a catalogue: what would be committed is written, and remembered."""

    staged: str = ""

    def commit_table(
        self, table: Table, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
    ) -> CommitTableResponse:
        """Write the metadata; who asked for it moves the pointer."""
        for requirement in requirements:
            requirement.validate(table.metadata)
        old = table.metadata_location
        metadata = update_table_metadata(table.metadata, updates, metadata_location=old)
        self.staged = table.location_provider().new_table_metadata_file_location(_version(old) + 1)
        ToOutputFile.table_metadata(metadata, table.io.new_output(self.staged))
        return CommitTableResponse.model_validate({"metadata": metadata, "metadata-location": self.staged})


def _version(location: str) -> int:
    number = location.rpartition("/")[2].partition("-")[0]
    return int(number) if number.isdigit() else 0


@dataclass
class LakeTable:
    """A table as one metadata file describes it; a change stages the next."""

    location: str
    table: Table = field(repr=False)
    files: Files = field(repr=False)

    @classmethod
    def open(cls, files: Files, location: str) -> "LakeTable":
        """By its metadata file."""
        metadata = FromInputFile.table_metadata(files.io.new_input(location))
        return cls(location, Table(("lake", "table"), metadata, location, files.io, Staging("staging")), files)

    @classmethod
    def create(cls, files: Files, folder: str, shape: LakeShape, owner: str) -> "LakeTable":
        """Empty, in a folder of its own; nobody points to it."""
        schema = _schema(shape)
        metadata = new_table_metadata(
            schema=schema,
            partition_spec=spec_of(schema, shape.divided),
            sort_order=UNSORTED_SORT_ORDER,
            location=folder,
            properties={**PROPERTIES, OWNER: owner},
        )
        location = f"{folder}/metadata/00000-{metadata.table_uuid}.metadata.json"
        ToOutputFile.table_metadata(metadata, files.io.new_output(location), overwrite=True)
        files.flush()
        return cls.open(files, location)

    @property
    def owner(self) -> str:
        """The pipeline that made it."""
        return self.table.metadata.properties.get(OWNER, "")

    @property
    def id(self) -> str:
        """What tells it from any other."""
        return str(self.table.metadata.table_uuid)

    @property
    def folder(self) -> str:
        """Where its files are."""
        return self.table.metadata.location

    @property
    def is_ours(self) -> bool:
        """Whether its last change was one of its pipeline's, and nobody has gone back to another."""
        snapshot, last = self.table.metadata.current_snapshot(), self.table.last_sequence_number
        if snapshot is None:
            return not last
        is_by_us = bool(snapshot.summary and snapshot.summary.additional_properties.get(OWNER))
        return is_by_us and snapshot.sequence_number == last

    @property
    def is_divided(self) -> bool:
        """Into partitions."""
        return not self.table.spec().is_unpartitioned()

    def buckets(self, column: str) -> int:
        """Into how many parts it is divided by a column, and by nothing else; 1 if it is not."""
        fields = self.table.spec().fields
        if len(fields) != 1 or self.table.schema().find_column_name(fields[0].source_id) != column:
            return 1
        how = fields[0].transform
        return int(how.num_buckets) if isinstance(how, BucketTransform) else 1

    @cached_property
    def types(self) -> Any:
        """Of its columns, as Arrow."""
        return schema_to_pyarrow(self.table.schema(), include_field_ids=False)

    def count(self) -> int:
        """How many rows it has."""
        return int(self.table.scan().count())

    def read(self) -> Iterator[Any]:
        """All of it, some rows at a time."""
        for task in self.table.scan().plan_files():
            yield from self._read(task)

    # ── changing ─────────────────────────────────────────────────────────────────────────────────────────────

    def change(self, fresh: Any, gone: Any, files: Sequence[DataFile], keep_seconds: float) -> str:
        """Stage the rows `fresh`, and those of `files`, in the place of those whose keys are in `gone`; the metadata
        file to point to.

        Of a file that holds a few of those keys, and many more, these rows are marked as deleted; else what stays of it
        is written anew. So are small files, once they are many. Snapshots that were replaced longer ago than
        `keep_seconds` are forgotten.
        """
        marks = [*self._marks(gone)] if gone.num_rows else []
        kept = [mark for mark in marks if _is_cheap(mark)]
        anew = self._written_anew(marks, [mark for mark in marks if not _is_cheap(mark)])
        with self.table.transaction() as transaction:
            with self._producer(transaction, anew, kept) as snapshot:
                for file in (*files, *self._write(anew, gone, fresh)):
                    snapshot.append_data_file(file)
            self._forget_snapshots(transaction, keep_seconds)
        assert isinstance(self.table.catalog, Staging)
        self.files.flush()
        self.location = self.table.catalog.staged
        return self.location

    def tidied(self, keep_seconds: float, least: int) -> str | None:
        """Stage the same rows in fewer files, where small ones are as many as `least` or rows were marked as deleted,
        without old snapshots; None if it is well as it is."""
        assert isinstance(self.table.catalog, Staging)
        self.table.catalog.staged = ""
        anew, none = self._piled_up(least), self.types.empty_table()
        with self.table.transaction() as transaction:
            if anew:
                with self._producer(transaction, anew, []) as snapshot:
                    for file in self._write(anew, none, none):
                        snapshot.append_data_file(file)
            self._forget_snapshots(transaction, keep_seconds)
        self.files.flush()
        self.location = self.table.catalog.staged or self.location
        return self.table.catalog.staged or None

    @property
    def files_count(self) -> int:
        """How many files a reader has to open."""
        tasks = [*self.table.scan().plan_files()]
        return len(tasks) + sum(len(task.delete_files) for task in tasks)

    def _piled_up(self, least: int) -> list[FileScanTask]:
        """As much as one turn may write."""
        marked = [task for task in self.table.scan().plan_files() if _marked(task) >= MARKED_AT_REST]
        taken = {task.file.file_path for task in marked}
        small = [task for task in self._too_small(least - 1) if task.file.file_path not in taken]
        found, size = [], 0
        for task in (*small, *marked):
            size += task.file.file_size_in_bytes
            if size <= MOST_AT_ONCE:
                found.append(task)
        return found

    def _producer(self, transaction: Transaction, anew: Sequence[FileScanTask], marks: Sequence[Mark]) -> Any:
        """Of a snapshot without these files, and with these rows deleted."""
        properties = {OWNER: self.owner}
        if not anew and not marks:
            return transaction.update_snapshot(properties).fast_append()
        found = Rewriting(Operation.OVERWRITE, transaction, self.table.io, snapshot_properties=properties)
        for task in anew:
            found.delete_data_file(task.file)
        found.marks = [mark.write(self.table) for mark in marks]
        found.dropped = [file for task in (*anew, *(mark.task for mark in marks)) for file in about_it_alone(task)]
        return found

    def _write(self, anew: Sequence[FileScanTask], gone: Any, fresh: Any) -> list[DataFile]:
        """What stays of these files, and what is new: never more in memory than a group of rows."""
        with DataWriter(self.table) as writer:
            for task in anew:
                for rows in self._read(task):
                    writer.add(rows.filter(pc.invert(among(rows, gone))) if gone.num_rows else rows)
            writer.add(fresh)
            return writer.close()

    def _written_anew(self, marks: Sequence[Mark], costly: Sequence[Mark]) -> list[FileScanTask]:
        """The files of costly marks; and small ones, to become one, unless they are few."""
        taken = {mark.task.file.file_path for mark in marks}
        others = [task for task in self._too_small(MOST_SMALL) if task.file.file_path not in taken]
        return [*(mark.task for mark in costly), *others]

    def _too_small(self, most: int) -> Iterator[FileScanTask]:
        """Files that would be better off as one: of each part of the table, if they are more than `most`."""
        parts = defaultdict[Any, list[FileScanTask]](list)
        for task in self.table.scan().plan_files():
            if _is_small(task):
                parts[task.file.spec_id, task.file.partition].append(task)
        for small in parts.values():
            if len(small) > most:
                yield from small

    def _marks(self, gone: Any) -> Iterator[Mark]:
        """Where those keys are, with what is deleted there already."""
        for task in self.table.scan(row_filter=around(self.table.schema(), gone)).plan_files():
            before, start, found = deleted_before(self.table, task), 0, []
            for rows in self._read(FileScanTask(task.file), gone.column_names):
                found.append(pc.add(pc.indices_nonzero(among(rows, gone)).cast(pa.int64()), start))
                start += rows.num_rows
            there = pa.chunked_array(found, pa.int64())
            there = there.filter(pc.invert(pc.is_in(there, value_set=before.combine_chunks())))
            if len(there):
                all_of_them = pa.chunked_array([*there.chunks, *before.chunks], pa.int64()).combine_chunks()
                yield Mark(task, all_of_them.unique().sort())

    def forget(self, keep_seconds: float) -> str | None:
        """Stage the table without snapshots that were replaced longer ago; None if there are none."""
        assert isinstance(self.table.catalog, Staging)
        self.table.catalog.staged = ""
        with self.table.transaction() as transaction:
            self._forget_snapshots(transaction, keep_seconds)
        self.files.flush()
        self.location = self.table.catalog.staged or self.location
        return self.table.catalog.staged or None

    def _forget_snapshots(self, transaction: Transaction, keep_seconds: float) -> None:
        """By when another took its place; the last one stays in any case, for who reads it now, and so does one that
        somebody has given a name."""
        known = sorted(transaction.table_metadata.snapshots, key=lambda snapshot: snapshot.sequence_number or 0)
        until = (time.time() - keep_seconds) * 1000
        few = known[-MOST_SNAPSHOTS:]
        old = [
            before.snapshot_id
            for before, after in pairwise(known[:-1])
            if after.timestamp_ms < until or before not in few
        ]
        named = {ref.snapshot_id for ref in transaction.table_metadata.refs.values()}
        if left := [id_ for id_ in old if id_ not in named]:
            ExpireSnapshots(transaction).by_ids(left).commit()

    def _read(self, task: FileScanTask, names: Sequence[str] | None = None) -> Iterator[Any]:
        """The rows of a file that count, some at a time."""
        schema, io = self.table.schema(), self.table.io
        kept = _some(self.types, names or self.types.names)
        scan = ArrowScan(self.table.metadata, io, schema.select(*names) if names else schema, AlwaysTrue())
        for batch in scan._record_batches_from_scan_tasks_and_deletes([task], _read_all_delete_files(io, [task])):
            yield pa.Table.from_batches([batch]).select(kept.names).cast(kept)


def _marked(task: FileScanTask) -> float:
    """Which share of its rows is deleted."""
    return sum(file.record_count for file in task.delete_files) / max(task.file.record_count, 1)


def _is_cheap(mark: Mark) -> bool:
    """Whether to mark them costs less than to write anew what stays; who reads has to skip them then."""
    return mark.share < MOST_MARKED and not _is_small(mark.task)


def _is_small(task: FileScanTask) -> bool:
    return task.file.file_size_in_bytes < SMALL_BYTES


def _schema(shape: LakeShape) -> Schema:
    fields = []
    for number, column in enumerate(shape.columns, 1):
        type_ = shape.type_of(column.name)
        kept: Any = type_.kept
        if type_.is_list:
            kept = ListType(len(shape.columns) + number, type_.kept, element_required=False)  # type: ignore[arg-type]
        fields.append(NestedField(number, column.name, kept, required=column.name in shape.key))
    ids = [field.field_id for field in fields if field.name in shape.key]
    return Schema(*fields, identifier_field_ids=ids)


def _some(types: Any, names: Sequence[str]) -> Any:
    return pa.schema([types.field(name) for name in names])


# ── files ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def look(files: Files) -> str:
    """The version of what is here, once the place has answered."""
    files.look()
    return pyiceberg.__version__


def newest_in(files: Files, folder: str) -> LakeTable | None:
    """The table that was last described in a folder, pointed to or not."""
    found = [path for path, _ in files.list(folder) if path.endswith(".metadata.json")]
    return LakeTable.open(files, max(found, key=lambda path: (_version(path), path))) if found else None


def unused(table: LakeTable, seconds: float) -> list[str]:
    """The files that the table knows nothing of, if they are as old as that: of a run that was lost, or forgotten."""
    io, metadata = table.table.io, table.table.metadata
    used = {table.location, *(entry.metadata_file for entry in metadata.metadata_log)}
    used |= {file.statistics_path for file in (*metadata.statistics, *metadata.partition_statistics)}
    for snapshot in metadata.snapshots:
        used.add(snapshot.manifest_list)
        for manifest in snapshot.manifests(io):
            if manifest.manifest_path in used:
                continue
            used.add(manifest.manifest_path)
            used |= {entry.data_file.file_path for entry in manifest.fetch_manifest_entry(io)}
    until, known = time.time() - seconds, set(map(spelled, used))
    return [path for path, changed in table.files.list(table.folder) if path not in known and changed <= until]


def delete(table: LakeTable, paths: Sequence[str]) -> None:
    """These files."""
    for path in paths:
        table.table.io.delete(path)

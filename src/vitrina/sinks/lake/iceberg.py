"""Tables of Iceberg, by pyiceberg: the only module that knows its tables, and the names of it that are not public.

A change is staged: its files are written, the last of them the table's new metadata. Nobody sees it until a pointer in
the warehouse is moved there. What is staged and not pointed to is swept up.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyiceberg
from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.expressions import AlwaysTrue, And, BooleanExpression, GreaterThanOrEqual, LessThanOrEqual
from pyiceberg.io.pyarrow import ArrowScan, _dataframe_to_data_files, schema_to_pyarrow
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.schema import Schema
from pyiceberg.serializers import FromInputFile, ToOutputFile
from pyiceberg.table import CommitTableResponse, FileScanTask, Table, Transaction
from pyiceberg.table.metadata import new_table_metadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.table.update import TableRequirement, TableUpdate, update_table_metadata
from pyiceberg.table.update.snapshot import ExpireSnapshots
from pyiceberg.types import ListType, NestedField

from vitrina.sinks.lake.files import Files
from vitrina.sinks.lake.place import spelled
from vitrina.sinks.lake.shape import LakeShape
from vitrina.sinks.parquet.keys import among

OWNER = "vitrina.pipeline"
FILE_BYTES = 64_000_000  # of a data file, as Arrow: what a change has to write anew
SMALL_BYTES = 2_000_000  # of a file of Parquet, which is better off in a larger one
MOST_SMALL = 20  # of a table
PRUNED = ("int", "long", "string", "date")  # types of keys that the bounds of a file are asked for
PROPERTIES = {
    "commit.retry.num-retries": "0",
    "write.target-file-size-bytes": str(FILE_BYTES),
    "write.parquet.compression-codec": "zstd",
    # One for each file: of a row group whose values are too long no bounds are known, and the file got those of others.
    "write.parquet.row-group-limit": str(64 * 1024 * 1024),
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
        metadata = new_table_metadata(
            schema=_schema(shape),
            partition_spec=UNPARTITIONED_PARTITION_SPEC,
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

    @cached_property
    def types(self) -> Any:
        """Of its columns, as Arrow."""
        return schema_to_pyarrow(self.table.schema(), include_field_ids=False)

    def count(self) -> int:
        """How many rows it has."""
        return int(self.table.scan().count())

    def read(self) -> Iterator[Any]:
        """All of it, a file at a time."""
        for task in self.table.scan().plan_files():
            yield self._read(task)

    # ── changing ─────────────────────────────────────────────────────────────────────────────────────────────

    def change(self, fresh: Any, gone: Any, keep_seconds: float) -> str:
        """Stage the rows `fresh` in the place of those whose keys are in `gone`; the metadata file to point to.

        Whatever has to be written anew is; and small files, once they are many, with it. Snapshots that were replaced
        longer ago than `keep_seconds` are forgotten.
        """
        anew = self._written_anew(gone)
        with self.table.transaction() as transaction:
            files = transaction.update_snapshot({OWNER: self.owner})
            with files.overwrite() if anew else files.fast_append() as snapshot:
                merged = []
                for task in anew:
                    snapshot.delete_data_file(task.file)
                    rows = self._staying(task, gone)
                    if _is_small(task):
                        merged.append(rows)
                    else:  # one after the other: all of them may be all of the table
                        self._add(snapshot, rows)
                self._add(snapshot, pa.concat_tables([*merged, fresh]))
            self._forget_snapshots(transaction, keep_seconds)
        assert isinstance(self.table.catalog, Staging)
        self.files.flush()
        self.location = self.table.catalog.staged
        return self.location

    def _add(self, snapshot: Any, rows: Any) -> None:
        if rows.num_rows:
            for file in _dataframe_to_data_files(self.table.metadata, rows, self.table.io):
                snapshot.append_data_file(file)

    def _written_anew(self, gone: Any) -> list[FileScanTask]:
        """The files that hold such keys; and small ones, to become one, unless they are few."""
        holding = [*self._holding(gone)] if gone.num_rows else []
        taken = {task.file.file_path for task in holding}
        small = [task for task in self.table.scan().plan_files() if _is_small(task)]
        return holding + [task for task in small if len(small) > MOST_SMALL and task.file.file_path not in taken]

    def _holding(self, gone: Any) -> Iterator[FileScanTask]:
        for task in self.table.scan(row_filter=_around(self.table.schema(), gone)).plan_files():
            if pc.any(among(self._read(task, gone.column_names), gone)).as_py():
                yield task

    def _staying(self, task: FileScanTask, gone: Any) -> Any:
        """Its rows but those."""
        rows = self._read(task)
        return rows.filter(pc.invert(among(rows, gone))) if gone.num_rows else rows

    def _forget_snapshots(self, transaction: Transaction, keep_seconds: float) -> None:
        """By when another took its place; the last one stays in any case, for who reads it now, and so does one that
        somebody has given a name."""
        known = sorted(transaction.table_metadata.snapshots, key=lambda snapshot: snapshot.sequence_number or 0)
        until = (time.time() - keep_seconds) * 1000
        old = [before.snapshot_id for before, after in pairwise(known[:-1]) if after.timestamp_ms < until]
        named = {ref.snapshot_id for ref in transaction.table_metadata.refs.values()}
        if left := [id_ for id_ in old if id_ not in named]:
            ExpireSnapshots(transaction).by_ids(left).commit()

    def _read(self, task: FileScanTask, names: Sequence[str] | None = None) -> Any:
        schema = self.table.schema()
        wanted = schema.select(*names) if names else schema
        found = ArrowScan(self.table.metadata, self.table.io, wanted, AlwaysTrue()).to_table([task])
        return found.select(names or self.types.names).cast(_some(self.types, names or self.types.names))


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


def _around(schema: Schema, gone: Any) -> BooleanExpression:
    """What the bounds of a file are compared with: the least and the greatest of the first column of the keys."""
    name = gone.column_names[0]
    if str(schema.find_type(name)) not in PRUNED:
        return AlwaysTrue()
    ends = pc.min_max(gone[name]).as_py()
    least, most = _literal(ends["min"]), _literal(ends["max"])
    return And(GreaterThanOrEqual(name, least), LessThanOrEqual(name, most))  # type: ignore[call-arg]


def _literal(value: Any) -> Any:
    return value if isinstance(value, int | str) else value.isoformat()


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
            used.add(manifest.manifest_path)
            used |= {entry.data_file.file_path for entry in manifest.fetch_manifest_entry(io)}
    until, known = time.time() - seconds, set(map(spelled, used))
    return [path for path, changed in table.files.list(table.folder) if path not in known and changed <= until]


def delete(table: LakeTable, paths: Sequence[str]) -> None:
    """These files."""
    for path in paths:
        table.table.io.delete(path)

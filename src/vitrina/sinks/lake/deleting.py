"""Rows that are deleted where they are: files that say which rows of another no longer count.

Each data file has one such file at most (of position deletes, as Iceberg says): what is deleted next goes into another,
which takes its place. pyiceberg reads them and writes none.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io import OutputFile
from pyiceberg.io.pyarrow import _read_all_delete_files, schema_to_pyarrow
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    ManifestWriterV2,
)
from pyiceberg.schema import Schema
from pyiceberg.table import FileScanTask, Table
from pyiceberg.table.snapshots import Summary
from pyiceberg.table.update.snapshot import _OverwriteFiles
from pyiceberg.types import LongType, NestedField, StringType

PATH, POSITION = 2147483546, 2147483545  # as Iceberg numbers them; pyiceberg's schema has an int where it says long
SCHEMA = schema_to_pyarrow(
    Schema(
        NestedField(PATH, "file_path", StringType(), required=True),
        NestedField(POSITION, "pos", LongType(), required=True),
    )
)


@dataclass(frozen=True)
class Mark:
    """Rows of a data file that do not count, by their positions, in order."""

    task: FileScanTask
    positions: Any

    @property
    def share(self) -> float:
        """Of all of its rows."""
        return len(self.positions) / max(self.task.file.record_count, 1)

    def write(self, table: Table) -> DataFile:
        """As a file that takes the place of the one there may be."""
        path = self.task.file.file_path
        columns = [pa.repeat(pa.scalar(path, SCHEMA[0].type), len(self.positions)), self.positions]
        rows = pa.Table.from_arrays(columns, schema=SCHEMA)
        output = table.io.new_output(table.location_provider().new_data_location(f"00000-0-{uuid4()}-deletes.parquet"))
        with output.create() as stream:
            pyarrow.parquet.write_table(rows, stream, compression="zstd")
        return self._described(output)

    def _described(self, output: OutputFile) -> DataFile:
        """Its bounds name the one file that it is about."""
        path = self.task.file.file_path.encode()
        first, last = (self.positions[end].as_py().to_bytes(8, "little") for end in (0, -1))
        found = DataFile.from_args(
            content=DataFileContent.POSITION_DELETES,
            file_path=output.location,
            file_format=FileFormat.PARQUET,
            partition=self.task.file.partition,
            record_count=len(self.positions),
            file_size_in_bytes=len(output),
            column_sizes={},
            value_counts={},
            null_value_counts={},
            nan_value_counts={},
            lower_bounds={PATH: path, POSITION: first},
            upper_bounds={PATH: path, POSITION: last},
            key_metadata=None,
            split_offsets=None,
            equality_ids=None,
            sort_order_id=None,
        )
        found.spec_id = self.task.file.spec_id
        return found


def about_it_alone(task: FileScanTask) -> list[DataFile]:
    """What says which rows of this file are deleted, and of no other: somebody else may have put many into one."""
    path = task.file.file_path.encode()
    return [
        file
        for file in task.delete_files
        if (file.lower_bounds or {}).get(PATH) == path == (file.upper_bounds or {}).get(PATH)
    ]


def deleted_before(table: Table, task: FileScanTask) -> Any:
    """The positions that do not count already."""
    found = _read_all_delete_files(table.io, [task]).get(task.file.file_path, [])
    return pa.chunked_array([chunk.cast(pa.int64()) for each in found for chunk in each.chunks], pa.int64())


class Deletes(ManifestWriterV2):
    """A manifest of such files."""

    def content(self) -> ManifestContent:
        """Not of data."""
        return ManifestContent.DELETES

    @property
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "content": "deletes"}


class Rewriting(_OverwriteFiles):
    """A snapshot that adds and removes files of both kinds."""

    marks: Sequence[DataFile] = ()  # what is to be added
    dropped: Sequence[DataFile] = ()  # and what no longer is about anything

    def _build_delete_files_partition_predicate(self) -> None:
        """All manifests are looked at: a file that is passed over would count on, beside what takes its place."""
        self.partition_filters.update(dict.fromkeys(self._transaction.table_metadata.specs(), AlwaysTrue()))

    def _existing_manifests(self) -> list[ManifestFile]:
        return [manifest for manifest in super()._existing_manifests() if manifest.content == ManifestContent.DATA]

    def _process_manifests(self, manifests: list[ManifestFile]) -> list[ManifestFile]:
        kept = [entry for manifest in self._manifests_before() for entry in self.fetch_manifest_entry(manifest)]
        dropped = {file.file_path for file in self.dropped}
        entries = [
            *map(_existing, (e for e in kept if e.data_file.file_path not in dropped)),
            *map(self._new, self.marks),
        ]
        return [*manifests, *self._written(entries)]

    def _manifests_before(self) -> Iterable[ManifestFile]:
        before = self._transaction.table_metadata.snapshot_by_name(self._target_branch)
        found = before.manifests(io=self._io) if before else []
        return [manifest for manifest in found if manifest.content == ManifestContent.DELETES]

    def _written(self, entries: list[ManifestEntry]) -> Iterable[ManifestFile]:
        """One manifest for each way of partitioning."""

        def spec_of(entry: ManifestEntry) -> int:
            return entry.data_file.spec_id

        for spec_id, some in groupby(sorted(entries, key=spec_of), spec_of):
            output = self.new_manifest_output()
            with Deletes(self.spec(spec_id), self.schema(), output, self._snapshot_id, self._compression) as writer:
                for entry in some:
                    writer.add_entry(entry)
            yield writer.to_manifest_file()

    def _new(self, file: DataFile) -> ManifestEntry:
        return _entry(ManifestEntryStatus.ADDED, self._snapshot_id, None, None, file)

    def _summary(self, snapshot_properties: dict[str, str] | None = None) -> Summary:
        """Files of both kinds are counted."""
        added, deleted = self._added_data_files, self._deleted_data_files
        self._added_data_files, self._deleted_data_files = [*added, *self.marks], {*deleted, *self.dropped}
        try:
            return super()._summary(snapshot_properties or {})
        finally:
            self._added_data_files, self._deleted_data_files = added, deleted


def _existing(entry: ManifestEntry) -> ManifestEntry:
    numbers = entry.snapshot_id, entry.sequence_number, entry.file_sequence_number
    return _entry(ManifestEntryStatus.EXISTING, *numbers, entry.data_file)


def _entry(
    status: ManifestEntryStatus, snapshot: int | None, sequence: int | None, of_file: int | None, file: DataFile
) -> ManifestEntry:
    return ManifestEntry.from_args(
        status=status, snapshot_id=snapshot, sequence_number=sequence, file_sequence_number=of_file, data_file=file
    )

"""Data files of a table: rows go into them a group at a time, so what is in memory is a group, however large a file."""

from collections.abc import Iterator, Mapping
from typing import Any, Self
from uuid import uuid4

import pyarrow as pa
from pyiceberg.io.pyarrow import ParquetFormatModel, parquet_path_to_id_mapping, schema_to_pyarrow
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.schema import sanitize_column_names
from pyiceberg.table import Table
from pyiceberg.typedef import Record

from vitrina.domain.errors import ConfigError
from vitrina.domain.refusals import Refusal
from vitrina.sinks.lake.dividing import Divider

FILE_BYTES = 128_000_000  # of a file, as Arrow: what a change may have to write anew
GROUP_BYTES = 8_000_000  # of a group of rows, as Arrow
WAITING_BYTES = 3 * GROUP_BYTES  # of the rows of all parts of a divided table that wait
MOST_OPEN = 16  # files at a time
MOST_PARTS = 5_000  # that one change may touch


class DataWriter:
    """Into as many files as it takes, which nobody sees until a change of the table names them. Of a divided table each
    part has files of its own."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._schema = sanitize_column_names(table.schema())
        self._arrow = schema_to_pyarrow(self._schema)
        self._divider = Divider(table.schema(), table.spec())
        self._model = ParquetFormatModel()
        self._parts: dict[Record, _Part] = {}  # whose file was written last comes last
        self.written: list[DataFile] = []

    def add(self, rows: Any) -> None:
        """Some rows, with the columns of the table."""
        if rows.num_rows:
            for partition, some in self._divider.parts(rows):
                self._part(partition).add(some)
        while part := self._due():
            self._flush(part)

    def close(self) -> list[DataFile]:
        """All of the files."""
        for part in [*self._parts.values()]:
            self._flush(part)
            self._end(part)
        return self.written

    def _part(self, partition: Record) -> "_Part":
        if partition not in self._parts:
            if len(self._parts) >= MOST_PARTS:
                raise ConfigError.of(Refusal.TOO_MANY_PARTITIONS, most=MOST_PARTS)
            self._parts[partition] = _Part(partition)
        return self._parts[partition]

    def _due(self) -> "_Part | None":
        """The one with the most rows that wait, once there are enough of them."""
        most = max(self._parts.values(), key=lambda part: part.size, default=None)
        if most is None:
            return None
        waiting = sum(part.size for part in self._parts.values())
        return most if most.size >= GROUP_BYTES or waiting >= WAITING_BYTES else None

    def _flush(self, part: "_Part") -> None:
        if not part.waiting:
            return
        rows = pa.concat_tables(part.take())
        for start, size in _groups(rows):
            self._write(part, rows.slice(start, size))

    def _write(self, part: "_Part", rows: Any) -> None:
        if part.file is None:
            self._make_room()
            part.file = _File(self._table, self._schema, self._model, part.partition)
        self._parts[part.partition] = self._parts.pop(part.partition)
        columns = [_as(column, field.type) for column, field in zip(rows.columns, self._arrow, strict=True)]
        part.file.write(pa.Table.from_arrays(columns, schema=self._arrow))
        if part.file.size >= FILE_BYTES:
            self._end(part)

    def _make_room(self) -> None:
        """Each open file has memory of its own."""
        opened = [part for part in self._parts.values() if part.file]
        if len(opened) >= MOST_OPEN:
            self._end(opened[0])

    def _end(self, part: "_Part") -> None:
        if part.file is not None:
            self.written.append(part.file.close())
            part.file = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """What was not closed is left: nobody points to it, and it is swept up."""
        for part in self._parts.values():
            if part.file is not None:
                part.file.abandon()


class _Part:
    """Rows that go into the same files."""

    def __init__(self, partition: Record) -> None:
        self.partition = partition
        self.waiting: list[Any] = []
        self.size = 0  # in bytes, of those that wait
        self.file: _File | None = None

    def add(self, rows: Any) -> None:
        """Some that wait."""
        self.waiting.append(rows)
        self.size += rows.nbytes

    def take(self) -> list[Any]:
        """All that wait."""
        rows, self.waiting, self.size = self.waiting, [], 0
        return rows


def _as(column: Any, type_: Any) -> Any:
    return column if column.type == type_ else column.cast(type_)


def _groups(rows: Any) -> Iterator[tuple[int, int]]:
    """Where each begins, and how many rows it has: all about as many."""
    count = max(1, round(rows.nbytes / GROUP_BYTES))
    size = -(-rows.num_rows // count)
    return ((start, size) for start in range(0, rows.num_rows, size))


class _File:
    """One that is being written."""

    def __init__(self, table: Table, schema: Any, model: ParquetFormatModel, partition: Record) -> None:
        self._table = table
        self._partition = partition
        self._schema = schema
        self.size = 0
        name = f"00000-0-{uuid4()}.parquet"
        self.path = table.location_provider().new_data_location(name)
        self._output = table.io.new_output(self.path)
        self._writer = model.create_writer(self._output, schema, table.metadata.properties)

    def write(self, rows: Any) -> None:
        """A group."""
        self._writer.write(rows)
        self.size += rows.nbytes

    def abandon(self) -> None:
        """Nobody will ask for it."""
        if self._writer._fos is not None:
            self._writer._fos.close()

    def close(self) -> DataFile:
        """As a manifest has it."""
        statistics = self._writer.close()
        metadata = self._writer._writer.writer.metadata  # type: ignore[union-attr]
        for field_id in _unbounded(metadata, parquet_path_to_id_mapping(self._schema)):
            statistics.column_aggregates.pop(field_id, None)
        return DataFile.from_args(
            content=DataFileContent.DATA,
            file_path=self.path,
            file_format=FileFormat.PARQUET,
            partition=self._partition,
            file_size_in_bytes=len(self._output),
            sort_order_id=None,
            spec_id=self._table.metadata.default_spec_id,
            equality_ids=None,
            key_metadata=None,
            **statistics.to_serialized_dict(),
        )


def _unbounded(metadata: Any, ids: Mapping[str, int]) -> set[int]:
    """Fields of which the bounds of some group are not known (their values are too long): those of the others are not
    the file's."""
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    columns = (group.column(number) for group in groups for number in range(metadata.num_columns))
    return {ids[column.path_in_schema] for column in columns if not _is_bounded(column)}


def _is_bounded(column: Any) -> bool:
    statistics = column.statistics
    if statistics is None or not statistics.has_null_count:
        return False
    return bool(statistics.has_min_max or statistics.null_count == column.num_values)

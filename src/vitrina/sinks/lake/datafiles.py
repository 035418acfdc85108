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

FILE_BYTES = 128_000_000  # of a file, as Arrow: what a change may have to write anew
GROUP_BYTES = 8_000_000  # of a group of rows, as Arrow


class DataWriter:
    """Into as many files as it takes, which nobody sees until a change of the table names them."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._schema = sanitize_column_names(table.schema())
        self._arrow = schema_to_pyarrow(self._schema)
        self._model = ParquetFormatModel()
        self._waiting: list[Any] = []
        self._file: _File | None = None
        self.written: list[DataFile] = []

    def add(self, rows: Any) -> None:
        """Some rows, with the columns of the table."""
        if rows.num_rows:
            self._waiting.append(rows)
        if sum(each.nbytes for each in self._waiting) >= GROUP_BYTES:
            self._flush()

    def close(self) -> list[DataFile]:
        """All of the files."""
        self._flush()
        self._end()
        return self.written

    def _flush(self) -> None:
        if not self._waiting:
            return
        rows, self._waiting = pa.concat_tables(self._waiting), []
        for start, size in _groups(rows):
            self._write(rows.slice(start, size))

    def _write(self, rows: Any) -> None:
        if self._file is None:
            self._file = _File(self._table, self._schema, self._model)
        columns = [_as(column, field.type) for column, field in zip(rows.columns, self._arrow, strict=True)]
        self._file.write(pa.Table.from_arrays(columns, schema=self._arrow))
        if self._file.size >= FILE_BYTES:
            self._end()

    def _end(self) -> None:
        if self._file is not None:
            self.written.append(self._file.close())
            self._file = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """What was not closed is left: nobody points to it, and it is swept up."""
        if self._file is not None:
            self._file.abandon()


def _as(column: Any, type_: Any) -> Any:
    return column if column.type == type_ else column.cast(type_)


def _groups(rows: Any) -> Iterator[tuple[int, int]]:
    """Where each begins, and how many rows it has: all about as many."""
    count = max(1, round(rows.nbytes / GROUP_BYTES))
    size = -(-rows.num_rows // count)
    return ((start, size) for start in range(0, rows.num_rows, size))


class _File:
    """One that is being written."""

    def __init__(self, table: Table, schema: Any, model: ParquetFormatModel) -> None:
        self._table = table
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
            partition=Record(),
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

"""Rows of a table that is divided (`partition_by`): which of them belong to the same files."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyiceberg.partitioning import PARTITION_FIELD_ID_START, PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    Transform,
    TruncateTransform,
    YearTransform,
)
from pyiceberg.typedef import Record

from vitrina.domain import partitions

TRANSFORMS: dict[str, Callable[..., Transform[Any, Any]]] = {
    "bucket": BucketTransform,
    "truncate": TruncateTransform,
    "year": YearTransform,
    "month": MonthTransform,
    "day": DayTransform,
    "hour": HourTransform,
    partitions.AS_IS: IdentityTransform,
}
SHORT = {"truncate": "trunc", partitions.AS_IS: ""}  # in names, as Spark makes them
ODD = re.compile(r"[^A-Za-z0-9_]")
POSITION = "n"


def spec_of(schema: Schema, fields: Sequence[partitions.PartitionField]) -> PartitionSpec:
    """As Iceberg has it. Names are plain, whatever the columns are called, and those of no other column."""
    ids = {field.name: field.field_id for field in schema.fields}
    taken, found = set(ids), []
    for number, field in enumerate(fields):
        name = _name(field, taken)
        taken.add(name)
        how = TRANSFORMS[field.how](*([] if field.width is None else [field.width]))
        found.append(PartitionField(ids[field.column], PARTITION_FIELD_ID_START + number, how, name))
    return PartitionSpec(*found)


def _name(field: partitions.PartitionField, taken: set[str]) -> str:
    parts = [field.column, SHORT.get(field.how, field.how), str(field.width or "")]
    name = "_".join(part for part in parts if part)
    if field.how == partitions.AS_IS and not ODD.search(name):
        return name
    name = ODD.sub("_", name)
    while name in taken:
        name += "_"
    return name


@dataclass(frozen=True)
class Divider:
    """Of one table, by what it is divided by now."""

    schema: Schema
    spec: PartitionSpec

    def parts(self, rows: Any) -> Iterator[tuple[Record, Any]]:
        """Rows that belong together, with what they have in common."""
        if self.spec.is_unpartitioned():
            yield Record(), rows
            return
        keys = [self._values(rows, field) for field in self.spec.fields]
        names = [f"p{number}" for number in range(len(keys))]
        numbered = pa.Table.from_arrays([*keys, pa.array(range(rows.num_rows), pa.int64())], [*names, POSITION])
        groups = numbered.group_by(names, use_threads=False).aggregate([(POSITION, "list")])
        for number in range(groups.num_rows):
            record = Record(*(groups[name][number].as_py() for name in names))
            yield record, rows if groups.num_rows == 1 else rows.take(groups[f"{POSITION}_list"][number].values)

    def _values(self, rows: Any, field: PartitionField) -> Any:
        """As a manifest has them."""
        source = self.schema.find_field(field.source_id)
        column = rows[rows.column_names.index(source.name)]
        if isinstance(field.transform, IdentityTransform):
            return _physical(column)
        return _physical(field.transform.pyarrow_transform(source.field_type)(column))


def _physical(values: Any) -> Any:
    """Dates and times are numbers there, and a uuid is bytes."""
    type_ = values.type
    if isinstance(type_, pa.UuidType):
        return values.cast(pa.binary(16))
    if pa.types.is_date32(type_):
        return values.cast(pa.int32())
    is_time = pa.types.is_timestamp(type_) or pa.types.is_time64(type_)
    return values.cast(pa.int64()) if is_time else values

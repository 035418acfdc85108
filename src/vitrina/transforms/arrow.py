"""Batches as Arrow tables: from the text of COPY to exact types and back, without a Python object for a value.

A type that Arrow does not have exactly (numeric without a precision, intervals, arrays, JSON, uuid, …) is a string that
Postgres takes for it. What a function gives back may have another type only where no value is changed by it.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from vitrina.domain.errors import ConfigError
from vitrina.sql.describe import Column
from vitrina.transforms import FormName, Row
from vitrina.transforms.forms import AsRows, check_names
from vitrina.transforms.frames import LETTERS, RESTORED, Batch
from vitrina.transforms.keys import repeated
from vitrina.transforms.types import canonical, digits, oid_of

MOST_DIGITS = 38
TYPES = {
    "boolean": pa.bool_(),
    "smallint": pa.int16(),
    "integer": pa.int32(),
    "bigint": pa.int64(),
    "real": pa.float32(),
    "double precision": pa.float64(),
    "date": pa.date32(),
    "timestamp without time zone": pa.timestamp("us"),
    "timestamp with time zone": pa.timestamp("us", "UTC"),
    "time without time zone": pa.time64("us"),
    "bytea": pa.binary(),
}
ESCAPES = (("\\", "\\\\"), ("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t"))
KINDS: dict[str, Callable[[Any], bool]] = {
    "boolean": pa.types.is_boolean,
    "integer": pa.types.is_integer,
    "float": pa.types.is_floating,
    "decimal": pa.types.is_decimal,
    "date": pa.types.is_date,
    "time": pa.types.is_time,
    "timestamp": lambda type_: pa.types.is_timestamp(type_) and type_.tz is None,
    "moment": lambda type_: pa.types.is_timestamp(type_) and type_.tz is not None,
    "binary": lambda type_: pa.types.is_binary(type_) or pa.types.is_large_binary(type_),
    "string": lambda type_: any(
        is_(type_) for is_ in (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    ),
}
BECOMES = {"integer": {"integer", "decimal"}, "float": {"float", "integer"}, "decimal": {"decimal", "integer"}}
NUMBERS = {"string", "integer", "decimal"}  # what is written as a numeric digit for digit


@dataclass
class AsArrow:
    """A table whose columns have the types that `type_of` tells."""

    form: ClassVar[FormName] = "arrow"
    columns: tuple[Column, ...]
    table: Any

    @classmethod
    def parsed(cls, text: bytes | bytearray, columns: tuple[Column, ...]) -> "AsArrow":
        """Rows as COPY writes them."""
        schema = pa.schema([(c.name, type_of(c.type)) for c in columns])
        table = _parse(text, _read_as(schema), columns) if text else schema.empty_table()
        read = [_restored(table.column(n), field.type) for n, field in enumerate(schema)]
        return cls(columns, pa.Table.from_arrays(read, schema=schema))

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def part(self, start: int, end: int) -> Any:
        return self.table.slice(start, end - start)

    def taken(self, result: Any, columns: tuple[Column, ...]) -> "AsArrow":
        if not hasattr(result, "__arrow_c_stream__") and not hasattr(result, "__arrow_c_array__"):
            raise ConfigError(f"returned {type(result).__name__} instead of an Arrow table: {result!r:.80}")
        table = _table(result)
        check_names(frozenset(c.name for c in columns), table.column_names)
        if len(table.column_names) > len(columns):
            raise ConfigError(f"returned a column twice: {', '.join(table.column_names)}")
        arrays = [fitted(table.column(c.name), c) for c in columns]
        return AsArrow(columns, pa.Table.from_arrays(arrays, names=[c.name for c in columns]))

    def keys(self, names: Sequence[str]) -> "ArrowKeys":
        return ArrowKeys(_joined([_written(self.table.column(name)) for name in names]))

    def row(self, number: int) -> Row:
        row: Row = self.table.slice(number, 1).to_pylist()[0]
        return row

    def rows(self) -> list[Row]:
        names, oids = [c.name for c in self.columns], [oid_of(c.type) for c in self.columns]
        return AsRows.of(Batch(names, oids, self.text(), len(self)), self.columns).held

    def text(self) -> bytes:
        if not len(self):
            return b""
        lines = _joined([_written(self.table.column(c.name)) for c in self.columns])
        whole = pa.ListArray.from_arrays(pa.array([0, len(lines)], pa.int32()), lines)
        return bytes(pc.binary_join(whole, "\n")[0].as_buffer()) + b"\n"


@dataclass(frozen=True)
class ArrowKeys:
    """As they are written: so each is equal only to itself."""

    texts: Any

    def repeated(self) -> int | None:
        if pc.count_distinct(self.texts, mode="all").as_py() == len(self.texts):
            return None
        return repeated(self.texts.to_pylist())

    def made_up(self, before: "ArrowKeys") -> int | None:
        first = pc.index(pc.is_in(self.texts, value_set=before.texts), False).as_py()
        return None if first < 0 else int(first)


def type_of(type_: str) -> Any:
    """The Arrow type that holds every finite value of a Postgres type exactly; a string if there is none."""
    sizes = digits(type_)
    if sizes and sizes[0] <= MOST_DIGITS and 0 <= sizes[1] <= sizes[0]:
        return pa.decimal128(*sizes)
    return TYPES.get(canonical(type_), pa.string())


# ── in ───────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _read_as(schema: Any) -> dict[str, Any]:
    return {field.name: pa.string() if pa.types.is_binary(field.type) else field.type for field in schema}


def _parse(text: bytes | bytearray, types: dict[str, Any], columns: Sequence[Column]) -> Any:
    try:
        return csv.read_csv(
            pa.BufferReader(text),
            csv.ReadOptions(column_names=[*types], use_threads=False, block_size=len(text) + 1),
            csv.ParseOptions(
                delimiter="\t", quote_char=False, double_quote=False, escape_char=False, ignore_empty_lines=False
            ),
            csv.ConvertOptions(
                column_types=types,
                null_values=["\\N"],
                strings_can_be_null=True,
                true_values=["t"],
                false_values=["f"],
            ),
        )
    except pa.ArrowInvalid as error:
        number = re.search(r"column #(\d+)", str(error))
        where = f" in column {columns[int(number[1])].name}" if number else ""
        raise ConfigError(
            f"a value{where} has no Arrow form: {str(error).rpartition(': ')[2]}", "cast its column to text"
        ) from error


def _restored(values: Any, type_: Any) -> Any:
    """What COPY has escaped is as it was; only strings and bytes can have been."""
    if pa.types.is_binary(type_):
        return pa.array([None if v is None else bytes.fromhex(v[3:]) for v in values.to_pylist()], type_)
    if not pa.types.is_string(type_) or not any(_may_hold(chunk, "\\") for chunk in values.chunks):
        return values
    return pa.array([None if v is None else _unescaped(v) for v in values.to_pylist()], type_)


def _unescaped(value: str) -> str:
    return (
        RESTORED.sub(lambda found: LETTERS.get(found[1], found[1]), value.encode()).decode() if "\\" in value else value
    )


def _table(result: Any) -> Any:
    try:
        return pa.table(result)
    except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError, ValueError) as error:
        raise ConfigError(f"returned {type(result).__name__}, which is no table: {error}") from error


# ── back ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def fitted(values: Any, column: Column) -> Any:
    """A column that a function gave, in the type it has here; a ConfigError if a value would not stay what it is."""
    wanted = type_of(column.type)
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    if values.type == wanted:
        return values
    if not (pa.types.is_null(values.type) or _may_become(values.type, wanted, canonical(column.type))):
        raise ConfigError(_said(values, column), _remedy(wanted))
    try:
        if pa.types.is_decimal(wanted) and pa.types.is_integer(values.type):
            values = values.cast(pa.decimal256(MOST_DIGITS * 2, wanted.scale))  # else refused whatever the values are
        return values.cast(wanted)
    except pa.ArrowInvalid as error:
        raise ConfigError(f"{_said(values, column)}: {error}", _remedy(wanted)) from error


def _said(values: Any, column: Column) -> str:
    return f"gave column {column.name}, which is {column.type}, as {values.type}"


def _remedy(wanted: Any) -> str:
    return f"give it as {wanted}" + (", written as Postgres takes it" if pa.types.is_string(wanted) else "")


def _may_become(given: Any, wanted: Any, name: str) -> bool:
    """Whether a checked cast says all that can go wrong; one from double to real would round unasked."""
    kind, target = _kind(given), _kind(wanted)
    if name == "numeric" and target == "string":
        return kind in NUMBERS
    if kind == target == "float":
        return bool(given.bit_width <= wanted.bit_width)
    return kind in BECOMES.get(target, {target})


def _kind(type_: Any) -> str:
    return next((kind for kind, is_ in KINDS.items() if is_(type_)), "")


def _written(values: Any) -> Any:
    """As COPY takes them, NULL but for the join."""
    values = values.combine_chunks()
    if pa.types.is_binary(values.type):
        return pa.array([None if v is None else f"\\\\x{v.hex()}" for v in values.to_pylist()], pa.string())
    if not pa.types.is_string(values.type):
        return values.cast(pa.string())
    for plain, escaped in ESCAPES:
        if _may_hold(values, plain):
            values = pc.replace_substring(values, plain, escaped)
    return values


def _may_hold(strings: Any, letter: str) -> bool:
    """Whether it is among their bytes, or among those beside them: a look at all at once, for what is rare."""
    data = strings.buffers()[2]
    return data is not None and letter.encode() in bytes(data)


def _joined(texts: Sequence[Any]) -> Any:
    """A line for each row, NULL being what COPY takes it for."""
    return pc.binary_join_element_wise(*texts, "\t", null_handling="replace", null_replacement="\\N")

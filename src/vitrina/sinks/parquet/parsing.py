"""Rows from their text to Arrow, in the exact types of a table. No row is looked at by itself but to name a wrong one.

The text is CSV, as COPY writes it; or as Postgres writes a record, which is CSV whose first and last column are the
parentheses.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import time
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.json

from vitrina.domain.errors import ConfigError
from vitrina.sinks.parquet.shape import RowShape
from vitrina.sinks.parquet.types import KeptType

OPEN, CLOSE = "vitrina_open", "vitrina_close"  # a record's parentheses
IN_LISTS = {"boolean": pa.bool_(), "int": pa.int64(), "long": pa.int64()}  # as JSON has them; all others are strings
UNREAD = ("uuid", "binary")  # by a reader of CSV
SHOWN = 60
REMEDY = "filter it out, or cast the column in the query"


@dataclass(frozen=True)
class Text:
    """Rows as text."""

    data: bytes
    is_records: bool = True

    def read(self, names: Sequence[str], types: Mapping[str, Any]) -> Any:
        """A table of the columns that have a type, each as that; `names` are all that the text has."""
        all_names = [OPEN, *names, CLOSE] if self.is_records else [*names]
        return pyarrow.csv.read_csv(
            pa.BufferReader(self.data),
            # One block, however long a row is.
            pyarrow.csv.ReadOptions(column_names=all_names, block_size=len(self.data) + 1, use_threads=False),
            pyarrow.csv.ParseOptions(
                double_quote=True,
                escape_char="\\" if self.is_records else False,
                newlines_in_values=True,
                ignore_empty_lines=False,
            ),
            _converting(types),
        )


def _converting(types: Mapping[str, Any]) -> pyarrow.csv.ConvertOptions:
    return pyarrow.csv.ConvertOptions(
        column_types=dict(types),
        include_columns=list(types),
        null_values=[""],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
        true_values=["t"],
        false_values=["f"],
    )


def to_arrow(shape: RowShape, text: Text, names: Sequence[str], target: Any) -> Any:
    """A table of these columns in the types of `target`; a ConfigError for a value that they do not hold."""
    return with_more(shape, text, names, target, ())[0]


def with_more(shape: RowShape, text: Text, names: Sequence[str], target: Any, more: Sequence[str]) -> tuple[Any, Any]:
    """The same, and the columns that come after them in the text, as it has them."""
    schema = pa.schema([target.field(name) for name in names])
    if not text.data:
        return schema.empty_table(), pa.schema([(name, pa.string()) for name in more]).empty_table()
    kinds = [Kind(name, shape.type_of(name), target.field(name).type) for name in names]
    types = {kind.name: kind.read_as for kind in kinds}
    try:
        found = text.read([*names, *more], types | dict.fromkeys(more, pa.string()))
    except pa.ArrowInvalid as error:
        _check_encoding(text)
        strings = text.read([*names, *more], dict.fromkeys(names, pa.large_string()))
        raise _refusal(kinds, strings, error) from error
    columns = [kind.typed(found[kind.name]) for kind in kinds]
    return pa.Table.from_arrays(columns, schema=schema), found.select([*more])


def _check_encoding(text: Text) -> None:
    """A database without an encoding of its own (SQL_ASCII) gives whatever was put into it."""
    try:
        text.data.decode()
    except UnicodeDecodeError as error:
        raise ConfigError("the query gives text that is not UTF-8", REMEDY) from error


def _refusal(kinds: Sequence["Kind"], strings: Any, error: Exception) -> Exception:
    found = (kind.why_not(strings[kind.name].to_pylist()) for kind in kinds)
    return next((why for why in found if why), error)


@dataclass(frozen=True)
class Kind:
    """How the values of a column are read."""

    name: str
    type: KeptType
    target: Any

    @property
    def read_as(self) -> Any:
        """By a reader of CSV."""
        return pa.large_string() if self.type.is_list or self._is_unread else self.target

    @property
    def _is_unread(self) -> bool:
        """A uuid may also be kept as its text."""
        return self.type.kept in UNREAD and not pa.types.is_string(self.target)

    def typed(self, values: Any) -> Any:
        """As the table has them."""
        whole = pa.concat_arrays(values.chunks)
        try:
            return self._typed(whole)
        except (pa.ArrowInvalid, ValueError) as error:
            raise self.why_not(whole.to_pylist()) or error from error

    def _typed(self, values: Any) -> Any:
        if self.type.is_list:
            return _lists(values, self.type, self.target)
        if self.type.kept == "uuid" and self._is_unread:
            return pa.ExtensionArray.from_storage(self.target, _uuids(values))
        return _bytes(values, self.target) if self.type.kept == "binary" else values

    def why_not(self, values: Sequence[str | None]) -> ConfigError | None:
        """The first value that cannot be kept, named."""
        wrong = _first([value for value in values if value is not None], self._hold)
        if wrong is None:
            return None
        said = f"column {self.name} is {self.type.said} in Parquet, which cannot hold {wrong[:SHOWN]}"
        return ConfigError(said, f"arrays have one dimension there; {REMEDY}" if self.type.is_list else REMEDY)

    def _hold(self, values: Sequence[str]) -> bool:
        quoted = (value.replace('"', '""') for value in values)
        text = Text("".join(f'"{value}"\n' for value in quoted).encode(), is_records=False)
        try:
            self._typed(pa.concat_arrays(text.read([self.name], {self.name: self.read_as})[self.name].chunks))
        except (pa.ArrowInvalid, ValueError):
            return False
        return True


def _first(values: Sequence[str], hold: Callable[[Sequence[str]], bool]) -> str | None:
    """The first that is not held; half of those that are left is asked at a time."""
    if not values or hold(values):
        return None
    while len(values) > 1:
        half = len(values) // 2
        values = values[half:] if hold(values[:half]) else values[:half]
    return values[0]


# ── what CSV does not know ───────────────────────────────────────────────────────────────────────────────────────────


def _uuids(values: Any) -> Any:
    """All of them in one go: 36 characters each."""
    filled = values.fill_null("0" * 32)
    data = _data(filled).replace(b"-", b"")
    return _nulled(pa.FixedSizeBinaryArray.from_buffers(pa.binary(16), len(values), [None, _unhexed(data)]), values)


def _bytes(values: Any, target: Any) -> Any:
    """Two hexadecimal digits a byte, so half of every offset."""
    filled = values.fill_null("")
    ends = pc.cumulative_sum(pc.divide(pc.binary_length(filled), 2).cast(pa.int64()))
    offsets = pa.concat_arrays([pa.array([0], pa.int64()), ends])
    found = pa.LargeBinaryArray.from_buffers(
        pa.large_binary(), len(values), [None, offsets.buffers()[1], _unhexed(_data(filled))]
    )
    return _nulled(found, values).cast(target)


def _data(strings: Any) -> bytes:
    """The characters of all of them (which are large strings), one after the other."""
    _, ends, characters = strings.buffers()
    offsets = pa.Array.from_buffers(pa.int64(), len(strings) + 1, [None, ends], offset=strings.offset)
    return bytes(characters[offsets[0].as_py() : offsets[-1].as_py()]) if characters else b""


def _unhexed(digits: bytes) -> Any:
    return pa.py_buffer(bytes.fromhex(digits.decode("ascii")))


def _nulled(found: Any, values: Any) -> Any:
    return pc.if_else(values.is_valid(), found, pa.scalar(None, found.type)) if values.null_count else found


def _lists(values: Any, type_: KeptType, target: Any) -> Any:
    """Each value is JSON."""
    before, after, between = (pa.scalar(part, values.type) for part in ('{"v":', "}\n", ""))
    text = _data(pc.binary_join_element_wise(before, values.fill_null("null"), after, between))
    read_as = pa.list_(IN_LISTS.get(type_.kept, pa.string()))
    found = pyarrow.json.read_json(
        pa.BufferReader(text),
        pyarrow.json.ReadOptions(block_size=len(text) + 1, use_threads=False),
        pyarrow.json.ParseOptions(explicit_schema=pa.schema([("v", read_as)]), unexpected_field_behavior="error"),
    )["v"].combine_chunks()
    sizes = pc.cumulative_sum(found.value_lengths().fill_null(0).cast(pa.int64()))
    offsets = pa.concat_arrays([pa.array([0], pa.int64()), sizes])
    elements = _elements(found.flatten(), type_, target.value_type)
    lists = pa.LargeListArray.from_arrays(offsets, elements, mask=found.is_null())
    return lists.cast(target)


def _elements(values: Any, type_: KeptType, target: Any) -> Any:
    if type_.kept == "uuid" and not pa.types.is_string(target):
        return pa.ExtensionArray.from_storage(target, _uuids(values.cast(pa.large_string())))
    if type_.kept == "time":
        return pa.array([None if text is None else time.fromisoformat(text) for text in values.to_pylist()], target)
    return values.cast(target)

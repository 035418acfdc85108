"""Rows between their text and Arrow: lines of JSON, as Postgres wrote them, to exact types, and back to that text."""

import json
from collections.abc import Iterator, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.json

from vitrina.domain.errors import ConfigError
from vitrina.sinks.documents.floats import write_float
from vitrina.sinks.parquet.shape import RowShape
from vitrina.sinks.parquet.types import KeptType

NATIVE = {"boolean": pa.bool_(), "int": pa.int64(), "long": pa.int64()}  # in the text; all others are strings
SHOWN = 60


def to_arrow(shape: RowShape, lines: Sequence[bytes], names: Sequence[str], target: Any) -> Any:
    """A table of these columns, in the types of `target`; a ConfigError for a value that they do not hold."""
    text = b"".join(lines)
    if not text:
        return pa.schema([target.field(name) for name in names]).empty_table()
    types = {name: shape.type_of(name) for name in names}
    parse = pyarrow.json.ParseOptions(
        explicit_schema=pa.schema([(name, _read_as(type_)) for name, type_ in types.items()]),
        unexpected_field_behavior="error",
    )
    read = pyarrow.json.ReadOptions(block_size=len(text) + 1, use_threads=False)
    try:
        found = pyarrow.json.read_json(pa.BufferReader(text), read_options=read, parse_options=parse)
    except pa.ArrowInvalid as error:
        raise ConfigError(f"a row cannot be kept in Parquet: {error}", "arrays have one dimension there") from error
    columns = [_typed(name, found[name].combine_chunks(), types[name], target.field(name).type) for name in names]
    return pa.Table.from_arrays(columns, schema=pa.schema([target.field(name) for name in names]))


def _read_as(type_: KeptType) -> Any:
    element = NATIVE.get(type_.kept, pa.string())
    return pa.list_(element) if type_.is_list else element


def _typed(name: str, values: Any, type_: KeptType, target: Any) -> Any:
    if not type_.is_list:
        return _cast(name, values, type_, target)
    elements = _cast(name, values.flatten(), type_, target.value_type)
    offsets = pa.array([0, *_ends(values)], pa.int32())
    mask = values.is_null()
    kind = pa.LargeListArray if pa.types.is_large_list(target) else pa.ListArray
    offsets = offsets.cast(pa.int64()) if kind is pa.LargeListArray else offsets
    return kind.from_arrays(offsets, elements, mask=mask).cast(target)


def _ends(lists: Any) -> Iterator[int]:
    end = 0
    for size in lists.value_lengths().to_pylist():
        end += size or 0
        yield end


def _cast(name: str, values: Any, type_: KeptType, target: Any) -> Any:
    """Nothing is rounded or cut: what does not fit is named."""
    try:
        if _is_parsed(type_, target):
            return pa.array([_parse(type_.kept, text) for text in values.to_pylist()], target)
        return values.cast(target)
    except (pa.ArrowInvalid, ValueError) as error:
        wrong = next(text for text in values.to_pylist() if not _fits(text, values.type, type_, target))
        raise ConfigError(
            f"column {name} is {type_.said} in Parquet, which cannot hold {str(wrong)[:SHOWN]}",
            "filter it out, or cast the column in the query",
        ) from error


def _fits(text: Any, read_as: Any, type_: KeptType, target: Any) -> bool:
    try:
        if _is_parsed(type_, target):
            _parse(type_.kept, text)
        else:
            pa.array([text], read_as).cast(target)
    except (pa.ArrowInvalid, ValueError):
        return False
    return True


def _is_parsed(type_: KeptType, target: Any) -> bool:
    """What Arrow does not read by itself; a uuid may also be kept as its text."""
    return type_.kept in ("uuid", "binary", "time") and not pa.types.is_string(target)


def _parse(kept: str, text: str | None) -> Any:
    if text is None:
        return None
    if kept == "time":
        return time.fromisoformat(text)
    return bytes.fromhex(text.removeprefix("\\x").replace("-", ""))


# ── back ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def to_texts(shape: RowShape, table: Any) -> Iterator[tuple[str, str]]:
    """Of each row, its id and the very text that Postgres would write."""
    types = {c.name: shape.type_of(c.name) for c in shape.columns}
    for row in table.select(list(types)).to_pylist():
        written = {name: _written(row[name], type_) for name, type_ in types.items()}
        yield _id([_key_text(written[name], types[name]) for name in shape.key]), _json(written)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _id(parts: Sequence[str]) -> str:
    if len(parts) == 1:
        return parts[0]
    return "|".join(part.replace("\\", "\\\\").replace("|", "\\|") for part in parts)


def _key_text(value: Any, type_: KeptType) -> str:
    """As Postgres writes it outside of JSON."""
    if type_.kept == "boolean":
        return str(value).lower()
    if type_.kept.startswith("timestamp"):
        return str(value).replace("T", " ").replace("+00:00", "+00")
    if type_.name == "character":  # as text it loses the blanks that fill it up
        return str(value).rstrip(" ")
    is_long = type_.kept.startswith("decimal") and "." in value
    return value.rstrip("0").rstrip(".") if is_long else str(value)


def _written(value: Any, type_: KeptType) -> Any:
    if value is None:
        return None
    if type_.is_list:
        return [None if each is None else _scalar(each, type_) for each in value]
    return _scalar(value, type_)


def _scalar(value: Any, type_: KeptType) -> Any:
    if isinstance(value, float):
        return _float(value, type_.name)
    if isinstance(value, datetime):
        return _moment(value)
    if isinstance(value, time):
        return _seconds(value.isoformat())
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Decimal):
        return format(value, "f")
    if type_.kept == "uuid":
        return str(UUID(bytes=value) if isinstance(value, bytes) else value)
    return f"\\x{value.hex()}" if isinstance(value, bytes) else value


def _moment(value: datetime) -> str:
    text = _seconds(value.replace(tzinfo=None).isoformat())
    return f"{text}+00:00" if value.tzinfo else text


def _seconds(text: str) -> str:
    return text.rstrip("0") if "." in text else text


def _float(value: float, kind: str) -> str:
    digits = repr(value) if kind == "double precision" else str(pa.scalar(value, pa.float32()).cast(pa.string()))
    return write_float(digits, kind).strip('"')

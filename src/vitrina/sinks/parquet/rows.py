"""Rows of Arrow as the very text that Postgres would write: for who compares them one by one."""

import json
from collections.abc import Iterator, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa

from vitrina.sinks.documents.floats import write_float
from vitrina.sinks.parquet.shape import RowShape
from vitrina.sinks.parquet.types import KeptType


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

"""What a Postgres type is in ClickHouse: exactly the same values, or refused with what to write instead."""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

from psycopg import sql

from vitrina.domain.errors import ConfigError
from vitrina.domain.mart_refusals import MartRefusal
from vitrina.sinks.documents.floats import POINT, write_float
from vitrina.sinks.documents.types import TEXTS, FieldType

UTC = "DateTime64(6, 'UTC')"
NAMES = {
    "boolean": "Bool",
    "smallint": "Int16",
    "integer": "Int32",
    "bigint": "Int64",
    "oid": "UInt32",
    "real": "Float32",
    "double precision": "Float64",
    "uuid": "UUID",
    "date": "Date32",
    "timestamp without time zone": UTC,
    "timestamp with time zone": UTC,
}
STRING = "String"
TIMES = {"date": "date", "timestamp without time zone": "timestamp", "timestamp with time zone": "timestamptz"}
NUMERIC = re.compile(r"numeric\((\d+),(-?\d+)\)")
MOST_DIGITS = 76
# Of these, equal keys have equal ids, and an id can be read as its key: a table can be ordered by them.
ORDERED = {"smallint", "integer", "bigint", "uuid", "text", "character varying"}
# Every version of ClickHouse keeps times of these years; what some of them do with others is no error, and wrong.
FIRST, END = "1900-01-01", "2300-01-01"
TIME = (
    "CASE WHEN {0} >= {1} AND {0} < {2} THEN pg_catalog.to_json({0})"
    " ELSE pg_catalog.to_json('not in 1900 to 2299: ' || {0}::text) END"
)
FLAT = "CASE WHEN pg_catalog.array_ndims({0}) > 1 THEN pg_catalog.to_json('{{array of arrays}}'::text) ELSE {1} END"


@dataclass(frozen=True)
class Kind:
    """One column, from its Postgres type as format_type writes it."""

    type: str
    field: FieldType

    @classmethod
    def of(cls, type_: str) -> Self:
        """Of any; whether ClickHouse can have it is asked of `element`."""
        return cls(type_, FieldType.of(type_))

    def check(self, name: str) -> None:
        """A ConfigError, with what to write instead, for what would not be kept exactly."""
        element, many = self.field.element, "[]" if self.field.is_array else ""
        if element == "bytea":
            instead = f"array_to_string({name}, …)" if many else f"encode({name}, 'hex')"
            raise ConfigError.of(MartRefusal.CLICKHOUSE_TEXT_ONLY, column=name, type=self.type, instead=instead)
        if element in TIMES and many:
            raise ConfigError.of(MartRefusal.CLICKHOUSE_TIMES, column=name, type=self.type)
        if element == "numeric":
            self._check_digits(name, many)

    def _check_digits(self, name: str, many: str) -> None:
        digits, scale = self._digits or (0, 0)
        if not (0 <= scale <= digits and 0 < digits <= MOST_DIGITS):
            raise ConfigError.of(MartRefusal.CLICKHOUSE_DIGITS, column=name, type=self.type, many=many)

    @property
    def _digits(self) -> tuple[int, int] | None:
        found = NUMERIC.match(self.type)
        return (int(found[1]), int(found[2])) if found else None

    @property
    def element(self) -> str:
        """ClickHouse's name of it, of an array's elements."""
        if self.field.element == "numeric" and self._digits:
            return "Decimal({}, {})".format(*self._digits)
        return NAMES.get(self.field.element, STRING)

    def column(self, *, is_key: bool) -> str:
        """ClickHouse's type of a column. An array cannot be NULL there, and a key is never."""
        if self.field.is_array:
            return f"Array(Nullable({self.element}))"
        return self.element if is_key else f"Nullable({self.element})"

    @property
    def is_kept(self) -> bool:
        """Whether JSON has it as it is; else it is the text that Postgres writes."""
        return self.field.element in {*NAMES, *TEXTS, "numeric"}

    def value(self, column: sql.Composable) -> sql.Composable:
        """As `row_to_json` should see it: what ClickHouse could only keep otherwise, it cannot even read."""
        if self.field.element in TIMES and not self.field.is_array:
            first, end = (f"'{day}'::pg_catalog.{TIMES[self.field.element]}" for day in (FIRST, END))
            return sql.SQL(TIME).format(column, sql.SQL(first), sql.SQL(end))
        plain = column if self.is_kept else self._text(column)
        if not self.field.is_array:
            return plain
        return sql.SQL(FLAT).format(column, sql.SQL("pg_catalog.to_json({})").format(plain))

    def _text(self, column: sql.Composable) -> sql.Composable:
        return sql.SQL("{}::pg_catalog.text[]" if self.field.is_array else "{}::pg_catalog.text").format(column)

    # ── and back ─────────────────────────────────────────────────────────────────────────────────────────────

    def selected(self, column: str) -> str:
        """As ClickHouse is asked for it: numbers as the digits that they have."""
        if self.field.element not in {"numeric", *POINT}:
            return column
        return f"arrayMap(x -> toString(x), {column})" if self.field.is_array else f"toString({column})"

    def render(self, value: Any) -> str:
        """A value that ClickHouse gave, as `row_to_json` wrote it."""
        if value is None:
            return "null"
        return f"[{','.join(map(self._one, value))}]" if self.field.is_array else self._one(value)

    def _one(self, value: Any) -> str:
        return "null" if value is None else self._writer(value)

    @property
    def _writer(self) -> Callable[[Any], str]:
        element = self.field.element
        if element in POINT:
            return partial(write_float, kind=element)
        if element == "numeric" and self._digits:
            return partial(_write_decimal, scale=self._digits[1])
        if element.startswith("timestamp"):
            return partial(_write_time, zone="+00:00" if element.endswith("with time zone") else "")
        return _write_json


def _write_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _write_decimal(value: str, scale: int) -> str:
    whole, _, fraction = value.partition(".")
    return f"{whole}.{fraction.ljust(scale, '0')}" if scale else whole


def _write_time(value: str, zone: str) -> str:
    day, _, time = value.partition(" ")
    return f'"{day}T{time.rstrip("0").rstrip(".") if "." in time else time}{zone}"'

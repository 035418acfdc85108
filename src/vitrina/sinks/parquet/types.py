"""Which type of Parquet keeps a type of Postgres exactly, by Iceberg's name for it, and how its values are written in a
row's text.

What has no exact type there is refused: a cast in the query says what is to become of it.
"""

import re
from dataclasses import dataclass
from typing import Self

from psycopg import sql

from vitrina.domain.errors import ConfigError
from vitrina.domain.mart_refusals import MartRefusal
from vitrina.sql.describe import Column

ARRAY = "[]"
NUMERIC = re.compile(r"numeric\((\d+),(-?\d+)\)")
MODIFIER = re.compile(r"\((\d+)\)")
MOST_DIGITS = 38
AS_IS, AS_TEXT, AS_HEX = "{}", "{}::text", r"('\x' OPERATOR(pg_catalog.||) pg_catalog.encode({}, 'hex'))"
# What an image has instead of a value, so that a type that only grows wider tells no row from itself.
WIDEST = {
    "smallint": "{}::pg_catalog.int8",
    "integer": "{}::pg_catalog.int8",
    "real": "{}::pg_catalog.float8",
    "character varying": "{}::pg_catalog.text",
}
DIGITS, AS_JSON = "pg_catalog.encode({}, 'hex')", "pg_catalog.to_json({})::text"
# The type there, and what row_to_json is given: itself where JSON says it exactly, else its text.
SCALARS = {
    "boolean": ("boolean", AS_IS),
    "smallint": ("int", AS_IS),
    "integer": ("int", AS_IS),
    "bigint": ("long", AS_IS),
    "real": ("float", AS_TEXT),
    "double precision": ("double", AS_TEXT),
    "text": ("string", AS_IS),
    "character varying": ("string", AS_IS),
    "character": ("string", AS_IS),
    "uuid": ("uuid", AS_IS),
    "date": ("date", AS_IS),
    "time without time zone": ("time", AS_IS),
    "timestamp without time zone": ("timestamp", AS_IS),
    "timestamp with time zone": ("timestamptz", AS_IS),
    "bytea": ("binary", AS_HEX),
    "json": ("string", AS_TEXT),
    "jsonb": ("string", AS_TEXT),
}
NO_LISTS = {"bytea", "json", "jsonb"}
NO_KEYS = {"float", "double", "binary"}  # rows of Iceberg are told apart by none of the first two
INEXACT = {"json", "jsonb"}


@dataclass(frozen=True)
class KeptType:
    """A type of Postgres in Parquet."""

    name: str  # without its length
    kept: str  # as Iceberg calls it, of an element if it is a list
    written: str
    is_list: bool = False

    @classmethod
    def of(cls, column: Column) -> Self:
        """As format_type writes it; a ConfigError if there is no exact one."""
        element, is_list = column.type.removesuffix(ARRAY), column.type.endswith(ARRAY)
        bare = MODIFIER.sub("", element)
        found = _decimal(element) or SCALARS.get(bare)
        if found is None or (is_list and bare in NO_LISTS):
            raise _refusal(column)
        kept, written = found
        if is_list and written == AS_TEXT:
            written = "CAST({} AS text[])"
        return cls(bare, kept, written, is_list)

    @property
    def said(self) -> str:
        """As people write it."""
        return f"list<{self.kept}>" if self.is_list else self.kept

    def value(self, column: sql.Composable) -> sql.Composable:
        """A column as `row_to_json` should see it."""
        return sql.SQL(self.written).format(column)

    def plain(self, column: sql.Composable) -> sql.Composable:
        """A column as a line of CSV has it: lists are JSON, bytes are digits, all else as Postgres writes it."""
        if self.is_list:
            return sql.SQL(AS_JSON).format(self.value(column))
        if self.kept == "binary":
            return sql.SQL(DIGITS).format(column)
        return self.value(column) if self.checked else column

    def imaged(self, column: sql.Composable) -> sql.Composable:
        """A column as the image of a row should have it."""
        return self.plain(column) if self.is_list else sql.SQL(WIDEST.get(self.name, AS_IS)).format(self.plain(column))

    @property
    def checked(self) -> str | None:
        """As which type a check sees it, if not its own: what is kept as text is text."""
        return "text" if self.name in INEXACT else None


def _decimal(element: str) -> tuple[str, str] | None:
    match = NUMERIC.fullmatch(element)
    if not match or not 0 <= int(match[2]) <= int(match[1]) <= MOST_DIGITS:
        return None
    return f"decimal({match[1]}, {match[2]})", AS_TEXT


def _refusal(column: Column) -> ConfigError:
    name, type_ = column.name, column.type
    if type_.startswith("numeric") and not type_.endswith(ARRAY):
        return ConfigError.of(MartRefusal.PARQUET_DIGITS, column=name, type=type_, digits=MOST_DIGITS)
    code = MartRefusal.PARQUET_LIST if type_.endswith(ARRAY) else MartRefusal.PARQUET_TYPE
    return ConfigError.of(code, column=name, type=type_)

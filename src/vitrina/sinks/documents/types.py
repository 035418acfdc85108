"""From a Postgres type to the value in a document, which holds what JSON can hold without loss.

Numbers keep all their digits, times are ISO 8601 in UTC, json is embedded. What JSON or an index has no word for (NaN,
infinite times and numbers, an empty range) is null.
"""

import re
from dataclasses import dataclass

from psycopg import sql

MODIFIER = re.compile(r"\([^)]*\)")
SCHEMA = re.compile(r'^("[^"]*"|\w+)\.')  # of a type that an extension brought: it means the same wherever it is
ARRAY = "[]"
RANGES = {"int4range", "int8range", "numrange", "tsrange", "tstzrange", "daterange"}
NUMBERS = ("numeric", "real", "double precision")
TIMES = ("date", "timestamp without time zone", "timestamp with time zone")
NATIVE = {"boolean", "smallint", "integer", "bigint", "oid", "jsonb"}  # JSON has them as they are
TEXTS = {
    *("text", "character varying", "character", "citext", "uuid", "name", "inet", "cidr"),
    *("interval", "time without time zone", "time with time zone"),
}
FINITE_NUMBER = "CASE WHEN {0} NOT IN ('NaN', 'Infinity', '-Infinity') THEN {0} END"
FINITE_TIME = "CASE WHEN pg_catalog.isfinite({0}) THEN {0} END"


@dataclass(frozen=True)
class FieldType:
    """A Postgres type without its length or precision."""

    element: str
    is_array: bool

    @classmethod
    def of(cls, type_: str) -> "FieldType":
        """Of a type as format_type writes it."""
        bare = SCHEMA.sub("", MODIFIER.sub("", type_))
        return cls(bare.removesuffix(ARRAY).strip(), bare.endswith(ARRAY))

    def value(self, column: sql.Composable) -> sql.Composable:
        """The column as `row_to_json` should see it."""
        if self.element in NATIVE:
            return column
        if self.is_array:
            return self._array(column)
        return self._scalar(column)

    def _array(self, column: sql.Composable) -> sql.Composable:
        """Element by element where an element is not what JSON makes of it; arrays of arrays come out flat."""
        one = self._scalar(sql.SQL("e").format())
        if one.as_string(None) == "e":
            return column
        text = "(SELECT coalesce(pg_catalog.jsonb_agg({}), '[]') FROM pg_catalog.unnest({}) AS e)"
        return sql.SQL("CASE WHEN {0} IS NOT NULL THEN {1} END").format(column, sql.SQL(text).format(one, column))

    def _scalar(self, column: sql.Composable) -> sql.Composable:
        if self.element == "json":
            return sql.SQL("{}::jsonb").format(column)  # which has no line breaks
        if self.element in NUMBERS:
            return sql.SQL(FINITE_NUMBER).format(column)
        if self.element in TIMES:
            return sql.SQL(FINITE_TIME).format(column)
        if self.element == "bytea":
            return sql.SQL("pg_catalog.translate(pg_catalog.encode({}, 'base64'), E'\\n', '')").format(column)
        if self.element.endswith("multirange"):
            text = "(SELECT coalesce(pg_catalog.jsonb_agg({}), '[]') FROM pg_catalog.unnest({}) AS r)"
            each = sql.SQL(text).format(_range(sql.SQL("r").format(), self.element), column)
            return sql.SQL("CASE WHEN {0} IS NOT NULL THEN {1} END").format(column, each)
        if self.element in RANGES:
            return _range(column, self.element)
        if self.element in TEXTS:
            return column
        return sql.SQL("{}::text").format(column)


def _range(column: sql.Composable, kind: str) -> sql.Composed:
    """As Elasticsearch writes a range: an end that is open or infinite is left out, and an empty range is nothing."""
    return sql.SQL(
        """CASE WHEN NOT pg_catalog.isempty({0}) THEN pg_catalog.jsonb_strip_nulls(pg_catalog.jsonb_build_object(
            CASE WHEN pg_catalog.lower_inc({0}) THEN 'gte' ELSE 'gt' END, {1},
            CASE WHEN pg_catalog.upper_inc({0}) THEN 'lte' ELSE 'lt' END, {2})) END"""
    ).format(column, *(_end(column, which, kind) for which in ("lower", "upper")))


def _end(column: sql.Composable, which: str, kind: str) -> sql.Composed:
    end = sql.SQL("pg_catalog." + which + "({})").format(column)
    if kind.startswith("int"):
        return end
    return sql.SQL(FINITE_NUMBER if kind.startswith("num") else FINITE_TIME).format(end)


def checked_type(type_: str) -> str:
    """As which type a check sees the value in a document: its own, where JSON holds it as it is."""
    kept = FieldType.of(type_).element in {*NATIVE, *NUMBERS, *TIMES, *TEXTS}
    return type_ if kept else "jsonb"

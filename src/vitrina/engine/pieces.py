"""Pieces of SQL that statements over marts are put together from."""

from collections.abc import Iterable

from psycopg import sql

COMMA, AND = sql.SQL(", "), sql.SQL(" AND ")
SHOWN_LENGTH = 200  # characters of a value that is for people


def column_of(alias: str, name: str) -> sql.Composed:
    """A column of an alias of ours."""
    return sql.SQL("{}.{}").format(sql.SQL(alias), sql.Identifier(name))


def unnested(arrays: Iterable[sql.Composable], names: Iterable[str]) -> sql.Composed:
    """Arrays, one a column, as a relation that can stand after FROM."""
    return sql.SQL("(SELECT * FROM {} AS u ({}))").format(side_by_side(arrays), COMMA.join(map(sql.Identifier, names)))


def side_by_side(arrays: Iterable[sql.Composable]) -> sql.Composed:
    """The elements of arrays, one a column; unnest of several is a form of its own, and has no schema."""
    elements = COMMA.join(sql.SQL("pg_catalog.unnest({})").format(array) for array in arrays)
    return sql.SQL("ROWS FROM ({})").format(elements)


def positions(alias: str, size: int) -> sql.Composed:
    """The columns c1, c2, … of an alias."""
    return COMMA.join(sql.SQL("{}.c{}").format(sql.SQL(alias), number(i)) for i in range(1, size + 1))


def number(value: int) -> sql.SQL:
    """A number, written out."""
    return sql.SQL(str(int(value)))


def shown(value: sql.Composable, length: int = SHOWN_LENGTH) -> sql.Composed:
    """A value exactly as Postgres writes it, cut and marked when it is long: at the database, before it travels."""
    text = """CASE WHEN pg_catalog.num_nulls({0}) OPERATOR(pg_catalog.=) 0
        THEN pg_catalog.concat(pg_catalog.left(pg_catalog.format('%s', {0}), {1}), CASE
        WHEN pg_catalog.length(pg_catalog.format('%s', {0})) OPERATOR(pg_catalog.>) {1}
        THEN pg_catalog.format('… (%s characters)', pg_catalog.length(pg_catalog.format('%s', {0}))) END) END"""
    return sql.SQL(text).format(value, sql.Literal(length))

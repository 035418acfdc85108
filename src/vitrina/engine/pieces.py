"""Pieces of SQL that statements over marts are put together from."""

from collections.abc import Iterable

from psycopg import sql

COMMA, AND = sql.SQL(", "), sql.SQL(" AND ")


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

"""Pieces of SQL that statements over marts are put together from."""

from collections.abc import Iterable, Sequence

from psycopg import sql

COMMA, AND = sql.SQL(", "), sql.SQL(" AND ")


def column_of(alias: str, name: str) -> sql.Composed:
    """A column of an alias of ours."""
    return sql.SQL("{}.{}").format(sql.SQL(alias), sql.Identifier(name))


def same_key(key: Sequence[str], left: str, right: str) -> sql.Composed:
    """Whether two aliases have the same key."""
    return AND.join(sql.SQL("{} = {}").format(column_of(left, k), column_of(right, k)) for k in key)


def unnested(arrays: Iterable[sql.Composable], names: Iterable[str]) -> sql.Composed:
    """Arrays, one a column, as a relation that can stand after FROM."""
    return sql.SQL("(SELECT * FROM unnest({}) AS u ({}))").format(
        COMMA.join(arrays), COMMA.join(map(sql.Identifier, names))
    )


def positions(alias: str, size: int) -> sql.Composed:
    """The columns c1, c2, … of an alias."""
    return COMMA.join(sql.SQL("{}.c{}").format(sql.SQL(alias), number(i)) for i in range(1, size + 1))


def number(value: int) -> sql.SQL:
    """A number, written out."""
    return sql.SQL(str(int(value)))

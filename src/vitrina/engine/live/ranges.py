"""Ranges of keys: the same rows at both sides, however each of them sorts text."""

from dataclasses import dataclass

from psycopg import sql

from vitrina.engine.job import ask
from vitrina.engine.mart import Mart
from vitrina.engine.pieces import AND, COMMA, column_of
from vitrina.meta.db import Connection

BYTEWISE = sql.SQL('COLLATE "C"')  # how text is ordered here: another server, or an index, may know no other in common


@dataclass(frozen=True)
class KeyRange:
    """The keys after one bound and up to another, which are a key's columns as text; None: an open end."""

    mart: Mart
    lower: list[str] | None
    upper: list[str] | None

    def condition(self, alias: str) -> sql.Composed:
        """Whether a row of this alias is within."""
        ends = [(self.lower, sql.SQL(">")), (self.upper, sql.SQL("<="))]
        wanted = [
            sql.SQL("({}) {} ({})").format(_ordered(self.mart, alias), comparison, self._bound(bound))
            for bound, comparison in ends
            if bound is not None
        ]
        return AND.join(wanted) if wanted else sql.SQL("true").format()

    def _bound(self, values: list[str]) -> sql.Composed:
        pairs = zip(self.mart.key, values, strict=True)
        return COMMA.join(sql.SQL("{}::{}").format(sql.Literal(v), sql.SQL(self.mart.types[k])) for k, v in pairs)


def next_range(conn: Connection, mart: Mart, lower: list[str] | None, size: int) -> tuple[KeyRange, int]:
    """So many rows of the mart after a bound, or all that are left; and how many they are.

    The last one has an open end, and so has the first: keys that only the query has are within one of them.
    """
    if not _has_ranges(mart):
        return KeyRange(mart, None, None), _count(conn, KeyRange(mart, None, None))
    names = COMMA.join(sql.SQL("m.{}::text").format(sql.Identifier(name)) for name in mart.key)
    rest = KeyRange(mart, lower, None)
    text = sql.SQL("SELECT ARRAY[{}] AS bound FROM {} AS m WHERE {} ORDER BY {} OFFSET {} LIMIT 1").format(
        names, mart.identifier, rest.condition("m"), _ordered(mart, "m"), sql.Literal(size - 1)
    )
    found = ask(conn, mart, text)
    return (KeyRange(mart, lower, found[0]["bound"]), size) if found else (rest, _count(conn, rest))


def about(conn: Connection, mart: Mart) -> int:
    """How many rows a mart has, as far as it is known without counting many."""
    text = sql.SQL("SELECT greatest(c.reltuples, (SELECT count(*) FROM (SELECT FROM {} LIMIT 10000) AS few)) AS rows"
                   " FROM pg_class c WHERE c.oid = {}::regclass")  # fmt: skip
    [found] = ask(conn, mart, text.format(mart.identifier, sql.Literal(mart.identifier.as_string(conn))))
    return int(found["rows"])


def _has_ranges(mart: Mart) -> bool:
    """Keys that both sides compare in the same way, with the operators of the server itself."""
    return mart.pushable and all(column.builtin for column in mart.columns if column.name in mart.key)


def _count(conn: Connection, range_: KeyRange) -> int:
    text = "SELECT count(*) AS rows FROM {} AS m WHERE {}"
    [found] = ask(conn, range_.mart, sql.SQL(text).format(range_.mart.identifier, range_.condition("m")))
    return int(found["rows"])


def _ordered(mart: Mart, alias: str) -> sql.Composed:
    """The key's columns, in an order that both sides have."""
    return COMMA.join(
        column_of(alias, name) + (sql.SQL(" ") + BYTEWISE if mart.collations.get(name) else sql.SQL(""))
        for name in mart.key
    )

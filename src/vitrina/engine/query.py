"""The user's SELECT, restricted to the keys, the range or the window that is wanted of it."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import LiteralString

from psycopg import sql

from vitrina.engine.pieces import AND, COMMA, column_of, number, side_by_side
from vitrina.engine.stage import KeySegment
from vitrina.sql.describe import Column, operator


@dataclass(frozen=True)
class Window:
    """A part of the cursor's order: after a position (value and tie-breaker, as text), up to a bound."""

    after: tuple[str, str] | None
    bound: str
    inclusive: bool

    @property
    def args(self) -> list[str | None]:
        """As `after_cursor` expects them in $1."""
        return [*(self.after or (None, None)), self.bound]


@dataclass(frozen=True)
class QueryText:
    """The user's SELECT, restricted to a scope by an array of arguments in $1: what the reader function executes."""

    select: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    args: sql.Composable = field(default_factory=lambda: sql.SQL("$1::text[]"))

    def with_args(self, args: Sequence[str | None]) -> "QueryText":
        """The arguments written out, for COPY, which takes no parameters."""
        return replace(self, args=sql.SQL("{}::text[]").format(sql.Literal(list(args))))

    def with_unknown_args(self) -> "QueryText":
        """Arguments that a planner cannot look into: a range is any half per cent of the rows to it."""
        return replace(self, args=sql.SQL("(SELECT '{}'::text[])"))

    def whole(self, columns: Sequence[Column] | None = None) -> sql.Composed:
        """All of it, in the described types: a domain is described as its base type."""
        values = [
            sql.SQL("{}::{} AS {}").format(column_of("q", c.name), c.sql_type, c.identifier)
            for c in columns or self.columns
        ]
        return sql.SQL("SELECT {} FROM {} AS q").format(COMMA.join(values), self.source)

    def by_keys(self) -> sql.Composed:
        """The rows whose key is in the arrays ($1)[1], ($1)[2], …

        `= ANY` on each column is what Postgres pushes into the query; a composite key is then matched exactly.
        """
        arrays = [self._arg(i, f"{self._type(name)}[]") for i, name in enumerate(self.key, 1)]
        wanted = [
            sql.SQL("q.{} {} ANY ({})").format(sql.Identifier(k), self._column(k).operator("="), a)
            for k, a in zip(self.key, arrays, strict=True)
        ]
        if len(self.key) > 1:
            exact = sql.SQL("({}) {} ANY (SELECT * FROM {})")
            wanted.append(exact.format(self._key_columns(), self._operator(self.key, "="), side_by_side(arrays)))
        return self.whole() + sql.SQL(" WHERE ") + AND.join(wanted)

    def by_range(self, *, lower: bool, upper: bool) -> sql.Composed:
        """The rows after the first bound in $1 and up to the second; an end without a bound is open."""
        size = len(self.key)
        wanted = []
        if lower:
            after = self._operator(self.key, ">")
            wanted.append(sql.SQL("({}) {} ({})").format(self._key_columns(), after, self._bound(1)))
        if upper:
            up_to = self._operator(self.key, "<=")
            wanted.append(sql.SQL("({}) {} ({})").format(self._key_columns(), up_to, self._bound(1 + size)))
        # The parameter appears even when no bound does: a statement's parameters must have types.
        return self.whole() + sql.SQL(" WHERE ") + AND.join([sql.SQL("{} IS NOT NULL").format(self.args), *wanted])

    def after_cursor(self, cursor: tuple[str, str], window: "Window", limit: int) -> sql.Composed:
        """The next rows in cursor order: after (($1)[1], ($1)[2]) and before, or up to, ($1)[3].

        WITH TIES: rows that share the last position come along, so no batch ends among them.
        """
        value, tie = (column_of("q", name) for name in cursor)
        value_type, tie_type = (self._type(name) for name in cursor)
        within = self._column(cursor[0]).operator("<=" if window.inclusive else "<")
        wanted = [sql.SQL("{} {} {}").format(value, within, self._arg(3, value_type))]
        if window.after is not None:
            position = (self._arg(1, value_type), self._arg(2, tie_type))
            wanted.append(sql.SQL("({}, {}) {} ({}, {})").format(value, tie, self._operator(cursor, ">"), *position))
        tail = " WHERE {} ORDER BY {}, {} FETCH FIRST {} ROWS WITH TIES"
        return self.whole() + sql.SQL(tail).format(AND.join(wanted), value, tie, sql.Literal(limit))

    def last_of_cursor(self, cursor: tuple[str, str], window: "Window") -> sql.Composed:
        """The position, as text, of the last row before, or up to, ($1)[3]."""
        value, tie = (column_of("q", name) for name in cursor)
        within = self._column(cursor[0]).operator("<=" if window.inclusive else "<")
        text = """SELECT {0}::text AS value, {1}::text AS id FROM {2} AS q
                  WHERE {0} {3} {4} ORDER BY {0} DESC, {1} DESC LIMIT 1"""
        return sql.SQL(text).format(value, tie, self.source, within, self._arg(3, self._type(cursor[0])))

    def from_cursor(self, name: str) -> sql.Composed:
        """A row, if there is one, whose cursor is at or after ($1)[1]."""
        reaches, bound = self._column(name).operator(">="), self._arg(1, self._type(name))
        text = "SELECT 1 AS found FROM {} AS q WHERE {} {} {} LIMIT 1"
        return sql.SQL(text).format(self.source, column_of("q", name), reaches, bound)

    def bounds(self, every: int) -> sql.Composed:
        """Each `every`-th key in order: where the batches of a load end. Rows with a NULL in the key come too."""
        keys = [sql.SQL("q.{}").format(sql.Identifier(name)) for name in self.key]
        numbered = sql.SQL(
            "SELECT {keys}, pg_catalog.row_number() OVER (ORDER BY {keys}) AS vitrina_n FROM {source} AS q"
        ).format(keys=COMMA.join(keys), source=self.source)
        nulls = sql.SQL(" OR ").join(sql.SQL("n.{} IS NULL").format(sql.Identifier(name)) for name in self.key)
        text = """
            SELECT 'b'::"char", {} FROM ({}) AS n
            WHERE pg_catalog.mod(n.vitrina_n, {}::bigint) OPERATOR(pg_catalog.=) 0::bigint OR {} ORDER BY n.vitrina_n
            """
        return sql.SQL(text).format(
            COMMA.join(sql.SQL("n.{}").format(sql.Identifier(name)) for name in self.key),
            numbered,
            sql.Literal(every),
            nulls,
        )

    def bounds_as_text(self, every: int) -> sql.Composed:
        """The same, each as one array of texts."""
        names = [sql.SQL("k{}").format(sql.SQL(str(number))) for number in range(len(self.key))]
        texts = COMMA.join(sql.SQL("b.{}::text").format(name) for name in names)
        text = "SELECT ARRAY[{}] AS bound FROM ({}) AS b (vitrina_kind, {})"
        return sql.SQL(text).format(texts, self.bounds(every), COMMA.join(names))

    def some_keys(self, most: int) -> sql.Composed:
        """The first keys that it gives, in arrays as `by_keys` expects them, and how many."""
        arrays = COMMA.join(sql.SQL("pg_catalog.array_agg({})::text").format(column_of("k", name)) for name in self.key)
        names = COMMA.join(column_of("q", name) for name in self.key)
        text = "SELECT pg_catalog.count(*) AS keys, ARRAY[{}] AS args FROM (SELECT {} FROM {} AS q LIMIT {}) AS k"
        return sql.SQL(text).format(arrays, names, self.source, sql.Literal(most))

    @property
    def source(self) -> sql.Composed:
        """The SELECT in parentheses; the line breaks keep a trailing comment from swallowing them."""
        return sql.SQL("(\n{}\n)").format(sql.SQL(self.select))

    def _key_columns(self) -> sql.Composed:
        return COMMA.join(sql.SQL("q.{}").format(sql.Identifier(name)) for name in self.key)

    def _bound(self, first: int) -> sql.Composed:
        return COMMA.join(self._arg(first + i, self._type(name)) for i, name in enumerate(self.key))

    def _arg(self, index: int, type_: str) -> sql.Composed:
        text = sql.SQL("({})[{}]::{}")
        return text.format(self.args, number(index), sql.SQL(type_))

    def _type(self, name: str) -> str:
        return self._column(name).unbounded_type

    def _column(self, name: str) -> Column:
        return next(c for c in self.columns if c.name == name)

    def _operator(self, names: Sequence[str], symbol: LiteralString) -> sql.Composable:
        """For rows of these columns. Where they have theirs in several schemas, none can be named for all."""
        schemas = {self._column(name).operators for name in names}
        return operator(schemas.pop(), symbol) if len(schemas) == 1 else sql.SQL(symbol)


def reader_scope(columns: Sequence[Column], args: sql.Composable, query: str) -> sql.Composed:
    """A query text executed as the reader, its rows numbered; stands after FROM, before an alias."""
    definitions = COMMA.join(sql.SQL("{} {}").format(c.identifier, c.sql_type) for c in columns)
    text = "(SELECT * FROM ROWS FROM (etl.read_as_reader({}::text, {}) AS ({})) WITH ORDINALITY AS r ({}, vitrina_n))"
    names = COMMA.join(c.identifier for c in columns)
    return sql.SQL(text).format(sql.SQL(query), args, definitions, names)


def key_arrays(segment: KeySegment) -> sql.Composed:
    """The keys of a slice of a segment, as the argument of the reader function: an array of array literals."""
    arrays = COMMA.join(sql.SQL("array_agg(k.{})::text").format(c.identifier) for c in segment.columns)
    return sql.SQL("(SELECT ARRAY[{}] FROM {} AS k)").format(arrays, segment.slice())

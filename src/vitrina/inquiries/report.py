"""The statements of a reconcile report: the same comparison as a full run's, summed up and shown instead of written."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import LiteralString

from psycopg import sql

from vitrina.engine.converge import MartSql
from vitrina.engine.pieces import AND, COMMA, column_of, number, positions, shown

WIDE = 700  # columns; of more, both sides do not fit into one row of Postgres, which has 1,664 at most


@dataclass(frozen=True)
class ReportSql(MartSql):
    """Statements over one mart that only read. Columns go by position, as in every comparison."""

    def summary(self, scope: sql.Composable, control: str, *, as_text: bool) -> sql.Composed:
        """Everything about both sides in one parallel read: how many rows, how many differ, ends of a column.

        `joined` is how many rows of the mart found a partner: more than it has if the query gives a key twice.
        """
        ends = sql.SQL('{0}(f.{1}::text COLLATE "C")') if as_text else sql.SQL("{0}(f.{1})::text")
        return sql.SQL(
            """
            SELECT now() AS taken_at, pg_catalog.count(f.s) AS query_rows, pg_catalog.count(f.m) AS joined,
                   (SELECT count(*) FROM {mart}) AS mart_rows,
                   count(*) FILTER (WHERE f.m IS NULL) AS missing,
                   count(*) FILTER (WHERE f.s IS NULL) AS extra,
                   count(*) FILTER (WHERE f.s AND f.m AND f.differs) AS different,
                   {query_min} AS query_min, {query_max} AS query_max, {mart_min} AS mart_min, {mart_max} AS mart_max
            FROM (SELECT s.p AS s, m.p AS m, {differs} AS differs, s.c{at} AS query, m.c{at} AS mart
                  FROM {pairs} {apart}) AS f
            """
        ).format(
            mart=self.mart.identifier,
            differs=self._images_differ(),
            at=number([c.name for c in self.mart.columns].index(control) + 1),
            query_min=ends.format(sql.SQL("pg_catalog.min"), sql.SQL("query")),
            query_max=ends.format(sql.SQL("pg_catalog.max"), sql.SQL("query")),
            mart_min=ends.format(sql.SQL("pg_catalog.min"), sql.SQL("mart")),
            mart_max=ends.format(sql.SQL("pg_catalog.max"), sql.SQL("mart")),
            pairs=self._pairs(scope, self.mart.identifier),
            apart=self._apart,
        )

    def details(self, scope: sql.Composable, keys: sql.Composable, sample: int) -> sql.Composed:
        """What still differs among `keys`: how many of each kind, and the first few with both values of each column."""
        columns = range(1, len(self.mart.columns) + 1)
        plain = [sql.SQL("s.c{0} AS s{0}, m.c{0} AS m{0}").format(number(i)) for i in columns]
        return sql.SQL(
            """
            SELECT d.kind, d.total, ARRAY[{keys}] AS key, {seen}
            FROM (
                SELECT f.*, pg_catalog.row_number() OVER (PARTITION BY f.kind ORDER BY {order_keys}) AS n,
                       count(*) OVER (PARTITION BY f.kind) AS total
                FROM (
                    SELECT CASE WHEN m.p IS NULL THEN 'missing' WHEN s.p IS NULL THEN 'extra'
                                ELSE 'different' END AS kind, {both}, {order_values}
                    FROM {pairs} WHERE m.p IS NULL OR s.p IS NULL OR {differs} {apart}
                ) AS f
            ) AS d
            WHERE d.n <= {sample} ORDER BY d.kind, d.n
            """
        ).format(
            keys=COMMA.join(shown(_at("d.k{0}", i)) for i in self._key_positions()),
            seen=sql.SQL("d.differ, d.query_values, d.mart_values")
            if self._is_wide
            else _seen("d.s{0}", "d.m{0}", columns),
            apart=self._apart,
            order_keys=COMMA.join(_at("f.k{0}", i) for i in self._key_positions()),
            order_values=COMMA.join(
                sql.SQL("{} AS k{}").format(_either("s.c{0}", "m.c{0}", i), number(i)) for i in self._key_positions()
            ),
            both=_seen("s.c{0}", "m.c{0}", columns) if self._is_wide else COMMA.join(plain),
            pairs=self._pairs(scope, sql.SQL("({})").format(self._mart_rows(keys))),
            differs=self._images_differ(),
            sample=sql.Literal(max(sample, 1)),  # one at least, or the totals would not be told
        )

    @property
    def _is_wide(self) -> bool:
        return len(self.mart.columns) > WIDE

    @property
    def _apart(self) -> sql.SQL:
        """Of a wide mart, what is joined is made narrow before anything else is done with it."""
        return sql.SQL("OFFSET 0" if self._is_wide else "")

    def _pairs(self, scope: sql.Composable, mart: sql.Composable) -> sql.Composed:
        text = """(SELECT true AS p, {} FROM {} AS t) AS s
                  FULL JOIN (SELECT true AS p, {} FROM {} AS t) AS m ON {}"""
        sides = (self._numbered(cast=True), scope, self._numbered(cast=False), mart)
        return sql.SQL(text).format(*sides, self._same_positions())

    def _images_differ(self) -> sql.Composed:
        size = len(self.mart.columns)
        images = (positions("s", size), positions("m", size))
        return sql.SQL("pg_catalog.record_image_ne(ROW({}), ROW({}))").format(*images)

    def _mart_rows(self, keys: sql.Composable) -> sql.Composed:
        text = "SELECT r.* FROM {} AS r WHERE EXISTS (SELECT FROM {} AS k WHERE {})"
        cast = [(name, self.mart.cast(name, column_of("k", name), self.mart.types[name])) for name in self.mart.key]
        same_key = AND.join(
            sql.SQL("{} {} {}").format(column_of("r", name), self.mart.equals(name), value) for name, value in cast
        )
        return sql.SQL(text).format(self.mart.identifier, keys, same_key)


def _at(text: LiteralString, position: int) -> sql.Composed:
    return sql.SQL(text).format(number(position))


def _seen(query: LiteralString, mart: LiteralString, columns: Sequence[int]) -> sql.Composed:
    """Where two rows differ, and the values of each, as arrays."""
    differ = "pg_catalog.record_image_ne(ROW({}), ROW({}))"
    text = "ARRAY[{}] AS differ, ARRAY[{}] AS query_values, ARRAY[{}] AS mart_values"
    return sql.SQL(text).format(
        COMMA.join(sql.SQL(differ).format(_at(query, i), _at(mart, i)) for i in columns),
        COMMA.join(shown(_at(query, i)) for i in columns),
        COMMA.join(shown(_at(mart, i)) for i in columns),
    )


def _either(one: LiteralString, other: LiteralString, position: int) -> sql.Composed:
    return sql.SQL("coalesce({}, {})").format(_at(one, position), _at(other, position))

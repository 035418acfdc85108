"""The statements of a reconcile report: the same comparison as a full run's, summed up and shown instead of written."""

from dataclasses import dataclass
from typing import LiteralString

from psycopg import sql

from vitrina.adapters.writers.converge import MartSql
from vitrina.adapters.writers.pieces import AND, COMMA, column_of, number, positions

SHOWN_LENGTH = 200  # characters of a value


@dataclass(frozen=True)
class ReportSql(MartSql):
    """Statements over one mart that only read. Columns go by position, as in every comparison."""

    def summary(self, scope: sql.Composable, control: str, *, as_text: bool) -> sql.Composed:
        """Everything about both sides in one parallel read: how many rows, how many differ, ends of a column.

        `joined` is how many rows of the mart found a partner: more than it has if the query gives a key twice.
        """
        ends = sql.SQL('{0}({1}.c{2}::text COLLATE "C")') if as_text else sql.SQL("{0}({1}.c{2})::text")
        at = number([c.name for c in self.mart.columns].index(control) + 1)
        return sql.SQL(
            """
            SELECT now() AS taken_at, pg_catalog.count(s.p) AS query_rows, pg_catalog.count(m.p) AS joined,
                   (SELECT count(*) FROM {mart}) AS mart_rows,
                   count(*) FILTER (WHERE m.p IS NULL) AS missing,
                   count(*) FILTER (WHERE s.p IS NULL) AS extra,
                   count(*) FILTER (WHERE s.p AND m.p AND {differs}) AS different,
                   {query_min} AS query_min, {query_max} AS query_max, {mart_min} AS mart_min, {mart_max} AS mart_max
            FROM {pairs}
            """
        ).format(
            mart=self.mart.identifier,
            differs=self._images_differ(),
            query_min=ends.format(sql.SQL("pg_catalog.min"), sql.SQL("s"), at),
            query_max=ends.format(sql.SQL("pg_catalog.max"), sql.SQL("s"), at),
            mart_min=ends.format(sql.SQL("pg_catalog.min"), sql.SQL("m"), at),
            mart_max=ends.format(sql.SQL("pg_catalog.max"), sql.SQL("m"), at),
            pairs=self._pairs(scope, self.mart.identifier),
        )

    def details(self, scope: sql.Composable, keys: sql.Composable, sample: int) -> sql.Composed:
        """What still differs among `keys`: how many of each kind, and the first few with both values of each column."""
        columns = range(1, len(self.mart.columns) + 1)
        both = [sql.SQL("s.c{0} AS s{0}, m.c{0} AS m{0}").format(number(i)) for i in columns]
        return sql.SQL(
            """
            SELECT d.kind, d.total, ARRAY[{keys}] AS key, ARRAY[{differ}] AS differ,
                   ARRAY[{query_values}] AS query_values, ARRAY[{mart_values}] AS mart_values
            FROM (
                SELECT f.*, pg_catalog.row_number() OVER (PARTITION BY f.kind ORDER BY {order_keys}) AS n,
                       count(*) OVER (PARTITION BY f.kind) AS total
                FROM (
                    SELECT CASE WHEN m.p IS NULL THEN 'missing' WHEN s.p IS NULL THEN 'extra'
                                ELSE 'different' END AS kind, {both}, {order_values}
                    FROM {pairs} WHERE m.p IS NULL OR s.p IS NULL OR {differs}
                ) AS f
            ) AS d
            WHERE d.n <= {sample} ORDER BY d.kind, d.n
            """
        ).format(
            keys=COMMA.join(shown(_either("d.s{0}", "d.m{0}", i)) for i in self._key_positions()),
            differ=COMMA.join(
                sql.SQL("pg_catalog.record_image_ne(ROW(d.s{0}), ROW(d.m{0}))").format(number(i)) for i in columns
            ),
            query_values=COMMA.join(shown(_at("d.s{0}", i)) for i in columns),
            mart_values=COMMA.join(shown(_at("d.m{0}", i)) for i in columns),
            order_keys=COMMA.join(_at("f.k{0}", i) for i in self._key_positions()),
            order_values=COMMA.join(
                sql.SQL("{} AS k{}").format(_either("s.c{0}", "m.c{0}", i), number(i)) for i in self._key_positions()
            ),
            both=COMMA.join(both),
            pairs=self._pairs(scope, sql.SQL("({})").format(self._mart_rows(keys))),
            differs=self._images_differ(),
            sample=sql.Literal(max(sample, 1)),  # one at least, or the totals would not be told
        )

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


def _either(one: LiteralString, other: LiteralString, position: int) -> sql.Composed:
    return sql.SQL("coalesce({}, {})").format(_at(one, position), _at(other, position))


def shown(value: sql.Composable, length: int = SHOWN_LENGTH) -> sql.Composed:
    """A value exactly as Postgres writes it, cut and marked when it is long: at the database, before it travels."""
    text = """CASE WHEN pg_catalog.num_nulls({0}) OPERATOR(pg_catalog.=) 0
        THEN pg_catalog.concat(pg_catalog.left(pg_catalog.format('%s', {0}), {1}), CASE
        WHEN pg_catalog.length(pg_catalog.format('%s', {0})) OPERATOR(pg_catalog.>) {1}
        THEN pg_catalog.format('… (%s characters)', pg_catalog.length(pg_catalog.format('%s', {0}))) END) END"""
    return sql.SQL(text).format(value, sql.Literal(length))

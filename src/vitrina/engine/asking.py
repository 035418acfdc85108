"""The SQL that asks a mart what its checks want to know: always read as the reader, whatever it is part of.

Each check gives up to a few rows: its number, how many rows break it, and the key of one of them. No rows: it is kept.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from psycopg import sql

from vitrina.domain.checks import Check
from vitrina.domain.errors import ConfigError
from vitrina.domain.mart_refusals import MartRefusal
from vitrina.engine.pieces import AND, COMMA, column_of, number
from vitrina.sql.describe import Column, operator

MART = "mart"  # the name by which a check's own SQL calls it
SHOWN = 5  # keys of those that break a check
OR = sql.SQL(" OR ")
READ = sql.SQL("SELECT * FROM etl.read_as_reader($1::text, $2::text[]) AS f (number integer, total bigint, shown text)")


@dataclass(frozen=True)
class Asked:
    """A mart as its checks see it: columns with their types, and the key that rows are named by."""

    types: Mapping[str, str]
    key: tuple[str, ...]
    operators: Mapping[str, str] = field(default_factory=dict)  # the schema of a column's `=`, unless pg_catalog

    @classmethod
    def of(cls, columns: Sequence[Column], key: Sequence[str]) -> "Asked":
        """One that is not there yet, as its query gives it."""
        return cls({c.name: c.type for c in columns}, tuple(key), {c.name: c.operators for c in columns})

    # ── statements ───────────────────────────────────────────────────────────────────────────────────────────

    def by_row(self, rows: sql.Composable, checks: Sequence[tuple[int, Check]]) -> sql.Composed:
        """Of each row by itself. `rows` stands after FROM."""
        return self._over(rows, (self._broken(n, self.violated(check)) for n, check in checks))

    def whole(self, rows: sql.Composable, checks: Sequence[tuple[int, Check]]) -> sql.Composed:
        """Of all of the mart."""
        return self._over(rows, (self._whole(n, check) for n, check in checks))

    def no_rows(self) -> sql.Composed:
        """A mart of these columns with nothing in it, for who only looks whether a check can be asked."""
        nulls = (sql.SQL("NULL::{} AS {}").format(sql.SQL(t), sql.Identifier(name)) for name, t in self.types.items())
        return sql.SQL("(SELECT {} WHERE false)").format(COMMA.join(nulls))

    def guardable(self, check: Check) -> str:
        """The check's own SQL as a statement that the guard can judge; empty if it has none."""
        if check.condition:
            asked = sql.SQL("SELECT 1 FROM {} AS m WHERE {}").format(sql.Identifier(MART), self.violated(check))
        elif check.empty:
            asked = sql.SQL("SELECT * FROM (\n{}\n) AS q").format(sql.SQL(check.empty))
        else:
            return ""
        return self._named(self.no_rows(), asked).as_string(None)

    # ── rows that break a check ──────────────────────────────────────────────────────────────────────────────

    def violated(self, check: Check) -> sql.Composable:
        """Whether the row `m` breaks a check that each row tells by itself. What is NULL breaks no condition."""
        if check.not_null:
            return OR.join(sql.SQL("{} IS NULL").format(column_of("m", name)) for name in check.not_null)
        if check.accepted_values:
            return OR.join(self._not_among(name, values) for name, values in check.accepted_values.items())
        return sql.SQL("(\n{}\n) IS FALSE").format(sql.SQL(check.condition or ""))

    def _not_among(self, name: str, values: Iterable[object]) -> sql.Composed:
        texts = [str(value).lower() if isinstance(value, bool) else str(value) for value in values]
        text = "(NOT ({} {} ANY (CAST({} AS {}[]))))"
        equal = operator(self.operators.get(name, "pg_catalog"), "=")
        return sql.SQL(text).format(column_of("m", name), equal, sql.Literal(texts), sql.SQL(self.types[name]))

    def _whole(self, n: int, check: Check) -> sql.Composed:
        if check.empty:
            return self._given(n, check.empty)
        if check.row_count:
            return self._counted(n, check)
        if check.unique:
            columns = COMMA.join(column_of("t", name) for name in check.unique)
            filled = AND.join(sql.SQL("t.{} IS NOT NULL").format(sql.Identifier(name)) for name in check.unique)
            text = """(SELECT t.*, pg_catalog.count(*) OVER (PARTITION BY {}) AS vitrina_n FROM {} AS t WHERE {})"""
            found = sql.SQL(text).format(columns, sql.Identifier(MART), filled)
            return self._broken(n, sql.SQL("m.vitrina_n OPERATOR(pg_catalog.>) 1::bigint"), found)
        return self._broken(n, self.violated(check))

    def _broken(self, n: int, violated: sql.Composable, rows: sql.Composable | None = None) -> sql.Composed:
        text = """(SELECT {}::integer AS number, pg_catalog.count(*) OVER () AS total, {} AS shown
                   FROM {} AS m WHERE {} LIMIT {})"""
        return sql.SQL(text).format(
            number(n), self._shown("m", self.key), rows or sql.Identifier(MART), violated, number(SHOWN)
        )

    def _given(self, n: int, select: str) -> sql.Composed:
        """Rows of a SELECT of somebody's own: nothing of them is shown but what they have of the key."""
        text = """(SELECT {}::integer AS number, pg_catalog.count(*) OVER () AS total, {} AS shown
                   FROM (SELECT pg_catalog.to_jsonb(q.*) AS r FROM (\n{}\n) AS q) AS g LIMIT {})"""
        parts = [
            sql.SQL("{}, g.r OPERATOR(pg_catalog.->>) {}").format(sql.Literal(k), sql.Literal(k)) for k in self.key
        ]
        shown = sql.SQL("pg_catalog.jsonb_strip_nulls(pg_catalog.jsonb_build_object({}))::text").format(
            COMMA.join(parts)
        )
        return sql.SQL(text).format(number(n), shown, sql.SQL(select), number(SHOWN))

    def _counted(self, n: int, check: Check) -> sql.Composed:
        assert check.row_count
        least, most = check.row_count.at_least, check.row_count.at_most
        wrong = [sql.SQL("c.n OPERATOR(pg_catalog.<) {}::bigint").format(number(least))] if least is not None else []
        wrong += [sql.SQL("c.n OPERATOR(pg_catalog.>) {}::bigint").format(number(most))] if most is not None else []
        text = """(SELECT {}::integer AS number, c.n AS total, NULL::text AS shown
                   FROM (SELECT pg_catalog.count(*) AS n FROM {}) AS c WHERE {})"""
        return sql.SQL(text).format(number(n), sql.Identifier(MART), OR.join(wrong))

    def _shown(self, alias: str, names: Sequence[str]) -> sql.Composed:
        """The key as JSON: an object of texts."""
        parts = (sql.SQL("{}, {}::text").format(sql.Literal(name), column_of(alias, name)) for name in names)
        return sql.SQL("pg_catalog.jsonb_build_object({})::text").format(COMMA.join(parts))

    def _over(self, rows: sql.Composable, asked: Iterable[sql.Composable]) -> sql.Composed:
        return self._named(rows, sql.SQL(" UNION ALL ").join(asked))

    def _named(self, rows: sql.Composable, asked: sql.Composable) -> sql.Composed:
        names = COMMA.join(column_of("t", name) for name in self.types)
        text = "WITH {} AS NOT MATERIALIZED (SELECT {} FROM {} AS t) {}"
        return sql.SQL(text).format(sql.Identifier(MART), names, rows, asked)

    # ── before anything is asked ─────────────────────────────────────────────────────────────────────────────

    def trial(self, check: Check) -> sql.Composed:
        """What would be asked, of a mart without rows: for who looks whether it can be planned."""
        return (
            self.by_row(self.no_rows(), [(0, check)]) if check.is_by_row else self.whole(self.no_rows(), [(0, check)])
        )

    def require_columns(self, check: Check) -> None:
        """A ConfigError for a column that the mart does not have."""
        missing = [name for name in check.columns if name not in self.types]
        if missing:
            raise ConfigError.of(
                MartRefusal.CHECK_NAMES_UNKNOWN, check=check.name, columns=missing, given=list(self.types)
            )

"""The statements that compare a mart with its query and make them equal, for the keys in scope.

Everything that depends on the user's query is composed here. Inside comparisons, columns go by position
(c1, c2, …), so no name of the user's can clash with ours.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from psycopg import sql

from vitrina.engine.asking import Asked
from vitrina.engine.changed import changed, removed
from vitrina.engine.mart import STAMP, Mart
from vitrina.engine.pieces import AND, COMMA, column_of, number, positions, unnested
from vitrina.engine.sealing import counted
from vitrina.engine.stage import KeySegment, Stage

LAST_POSITION = sql.SQL(
    ", (SELECT ARRAY[vitrina_value, vitrina_id] FROM src ORDER BY vitrina_n DESC LIMIT 1) AS last_position"
)
Rows: TypeAlias = tuple[sql.Composable, list[str | None]]
"""What can stand after FROM in a statement of the reader's, and its arguments."""


@dataclass(frozen=True)
class MartSql:
    """Statements over one mart. A `scope` is anything that can stand after FROM and gives the query's columns."""

    mart: Mart

    def compare(self, scope: sql.Composable, part: sql.Composable | None = None) -> sql.Composed:
        """Which keys differ, in one parallel read of both sides: kind (i missing, u differs, d gone) and key.

        `part`: of the mart, if the scope is only a part of the query.
        """
        size = len(self.mart.columns)
        keys = [number(position) for position in self._key_positions()]
        return sql.SQL(
            """
            SELECT CASE WHEN m.p IS NULL THEN 'i' WHEN s.p IS NULL THEN 'd' ELSE 'u' END::"char" AS kind, {keys}
            FROM (SELECT true AS p, {source_columns} FROM {scope} AS t) AS s
            FULL JOIN (SELECT true AS p, {mart_columns} FROM {mart} AS t) AS m ON {same_key}
            WHERE m.p IS NULL OR s.p IS NULL OR pg_catalog.record_image_ne(ROW({source_image}), ROW({mart_image}))
            ORDER BY s.p IS NULL, {order}
            """
        ).format(
            keys=COMMA.join(sql.SQL("coalesce(s.c{0}, m.c{0})").format(i) for i in keys),
            source_columns=self._numbered(cast=True),
            mart_columns=self._numbered(cast=False),
            scope=scope,
            mart=part or self.mart.identifier,
            same_key=self._same_positions(),
            source_image=positions("s", size),
            mart_image=positions("m", size),
            order=COMMA.join(number(position) for position in range(2, len(keys) + 2)),
        )

    def part(self, condition: sql.Composable) -> sql.Composed:
        """The rows of the mart for which a condition on the alias `m` holds, as what can stand after FROM."""
        return sql.SQL("(SELECT m.* FROM {} AS m WHERE {})").format(self.mart.identifier, condition)

    def insert(self, scope: sql.Composable, order: sql.Composable) -> sql.Composed:
        """Load into an empty mart: plain, in order, no conflict expected."""
        names, values = self._write_columns("t", cast=True)
        text = "INSERT INTO {} ({}) SELECT {} FROM {} AS t ORDER BY {}"
        plain = sql.SQL(text).format(self.mart.identifier, names, values, scope, order)
        if not self.mart.is_asked_by_row:
            return plain
        keys = COMMA.join(map(sql.Identifier, self.mart.key))
        text = "WITH put AS ({} RETURNING {}) SELECT (SELECT count(*) FROM put) AS written {}"
        return sql.SQL(text).format(plain, keys, self._told())

    def upsert(
        self,
        scope: sql.Composable,
        cursor: tuple[str, str] | None = None,
        keys: sql.Composable | None = None,
        *,
        at_most: int | None = None,
        compare_first: bool = True,
        shown: int = 0,
    ) -> sql.Composed:
        """Insert what is missing and update what differs; counts what was read and what was written.

        Joining first and sending only what differs to ON CONFLICT is what makes unchanged rows cheap; where most rows
        differ it is costly, since each is looked up twice. Sent without, an unchanged row is locked and not written.
        With a cursor, the scope is numbered by `vitrina_n` and the position of its last row is told too.
        With keys, those of them that the scope does not give are deleted: there is none, and it is not looked for, if
        the scope gives no other keys and `at_most` so many.
        Of so many rows as are to be `shown`, it tells what was and what is.
        """
        names, values = self._write_columns("d", cast=False)
        gone = None if keys is None else self._delete_gone(keys, at_most, shown)
        beside, last = ([], sql.SQL("")) if cursor is None else (position_columns(cursor), LAST_POSITION)
        return sql.SQL(
            """
            WITH src AS MATERIALIZED (SELECT {columns} FROM {scope} AS t),
            put AS (
                INSERT INTO {mart} AS m ({names}) SELECT {values} FROM {put} AS d ORDER BY {keys}
                ON CONFLICT ({conflict}) DO UPDATE SET {assignments} {unless_same} RETURNING {told}
            ) {gone}
            SELECT (SELECT count(*) FROM src) AS read, (SELECT count(*) FROM put) AS written {deleted} {last} {written}
                   {changed}
            """
        ).format(
            columns=COMMA.join([*self._casts("t"), *beside]),
            scope=scope,
            mart=self.mart.identifier,
            put=self._different() if compare_first else sql.SQL("src"),
            unless_same=sql.SQL("") if compare_first else sql.SQL("WHERE {}").format(self._differs("m", "EXCLUDED")),
            names=names,
            values=values,
            keys=COMMA.join(sql.SQL("d.{}").format(sql.Identifier(k)) for k in self.mart.key),
            conflict=COMMA.join(map(sql.Identifier, self.mart.key)),
            assignments=self._assignments(),
            gone=sql.SQL(", gone AS ({})").format(gone) if gone is not None else sql.SQL(""),
            deleted=sql.SQL("" if gone is None else ", (SELECT count(*) FROM gone) AS deleted"),
            last=last,
            told=self._given_back("m", self.mart.key if self.mart.is_asked_by_row else (), shown),
            written=self._told() if self.mart.is_asked_by_row else sql.SQL(""),
            changed=self._shown(shown, gone=gone is not None) if shown else sql.SQL(""),
        )

    def _given_back(self, alias: str, names: Sequence[str], shown: int) -> sql.Composable:
        """Of each row that is written: these columns, or all if some rows are to be shown."""
        wanted = [c.name for c in self.mart.columns] if shown else names
        return COMMA.join(column_of(alias, name) for name in wanted) if wanted else sql.SQL("1")

    def _shown(self, most: int, *, gone: bool) -> sql.Composed:
        names = [c.name for c in self.mart.columns]
        written = changed(self.mart.identifier, self.mart.same_key("m", "p"), self.mart.key[0], names, most)
        return written + removed(names, most) if gone else written

    def _told(self) -> sql.Composed:
        """The keys of the rows in `put`, as arrays."""
        arrays = COMMA.join(sql.SQL("array_agg({})::text").format(sql.Identifier(name)) for name in self.mart.key)
        return sql.SQL(", (SELECT ARRAY[{}] FROM put) AS keys").format(arrays)

    # ── for checks ───────────────────────────────────────────────────────────────────────────────────────────

    def asked(self) -> Asked:
        """The mart as its checks see it."""
        types = {c.name: self.mart.types[c.name] for c in self.mart.columns}
        return Asked(types, self.mart.key, self.mart.operators)

    def all_rows(self) -> sql.Composable | None:
        """The mart itself, for the reader; None where statements do not reach it."""
        return self.mart.identifier

    def written(self, row: Mapping[str, Any]) -> Rows | None:
        """The rows that a statement has written, as they are now, by what it has told; None if there are none."""
        keys: Sequence[str | None] = row.get("keys") or [None]
        if keys[0] is None:
            return None
        arrays = [
            sql.SQL("(SELECT ($1::text[])[{}]::{}[])").format(number(n), sql.SQL(self.mart.types[name]))
            for n, name in enumerate(self.mart.key, 1)
        ]
        text = "(SELECT m.* FROM {} AS k JOIN {} AS m ON {})"
        same = self.mart.same_key("m", "k")
        return sql.SQL(text).format(unnested(arrays, self.mart.key), self.mart.identifier, same), list(keys)

    # ── pieces ───────────────────────────────────────────────────────────────────────────────────────────────

    def _different(self) -> sql.Composed:
        """The rows of `src` that the mart does not have like that."""
        text = "(SELECT s.* FROM src AS s LEFT JOIN {} AS m ON {} WHERE m.{} IS NULL OR {})"
        first, same = sql.Identifier(self.mart.key[0]), self.mart.same_key("m", "s")
        return sql.SQL(text).format(self.mart.identifier, same, first, self._differs("m", "s"))

    def delete(self, scope: sql.Composable, keys: sql.Composable, shown: int = 0) -> sql.Composed:
        """Delete the keys that are gone, checked again at the source in the same statement."""
        return sql.SQL(
            """
            WITH src AS MATERIALIZED (SELECT {columns} FROM {scope} AS t), gone AS ({gone})
            SELECT (SELECT count(*) FROM gone) AS deleted {removed}
            """
        ).format(
            columns=COMMA.join(self._casts("t", only=self.mart.key)),
            scope=scope,
            gone=self._delete_gone(keys, shown=shown),
            removed=removed([c.name for c in self.mart.columns], shown) if shown else sql.SQL(""),
        )

    def _delete_gone(self, keys: sql.Composable, at_most: int | None = None, shown: int = 0) -> sql.Composed:
        text = "DELETE FROM {} AS m USING {} AS k WHERE {} RETURNING {}"
        same, told = self.mart.same_key("m", "k"), self._given_back("m", (), shown)
        return sql.SQL(text).format(self.mart.identifier, self._not_given(keys, at_most), same, told)

    def _not_given(self, keys: sql.Composable, at_most: int | None) -> sql.Composed:
        """Those of the keys that `src` does not have: few as a rule, so they are told before the mart is looked at."""
        text = "(SELECT * FROM {} AS k WHERE {} NOT EXISTS (SELECT FROM src AS s WHERE {}) OFFSET 0)"
        found = sql.SQL("(SELECT count(*) FROM (SELECT DISTINCT {} FROM src) AS found)").format(
            COMMA.join(map(sql.Identifier, self.mart.key))
        )
        some = sql.SQL("") if at_most is None else sql.SQL("{} < {} AND").format(found, sql.Literal(at_most))
        return sql.SQL(text).format(keys, some, self.mart.same_key("s", "k"))

    def joined(self, scope: sql.Composable, keys: sql.Composable) -> sql.Composed:
        """The rows of a scope whose key is among `keys`, which are in the mart's types."""
        cast = [(name, self.mart.cast(name, column_of("q", name), self._type(name))) for name in self.mart.key]
        matched = AND.join(
            sql.SQL("{} {} {}").format(value, self.mart.equals(name), column_of("k", name)) for name, value in cast
        )
        return sql.SQL("SELECT q.* FROM {} AS q JOIN {} AS k ON {}").format(scope, keys, matched)

    def staged_scope(self, stage: Stage, segment: KeySegment) -> sql.Composed:
        """The staged rows whose key is in a slice of a segment."""
        return sql.SQL("({})").format(self.joined(stage.identifier, segment.slice()))

    def duplicates(self, scope: sql.Composable) -> sql.Composed:
        """A few keys, as text, that the scope gives more than once as the mart sees them."""
        keys = [column_of("d", name) for name in self.mart.key]
        shown = [sql.SQL("{}::text").format(key) for key in keys]
        text = "SELECT {} FROM (SELECT {} FROM {} AS t) AS d GROUP BY {} HAVING count(*) > 1 LIMIT 3"
        casts = self._casts("t", only=self.mart.key)
        return sql.SQL(text).format(COMMA.join(shown), COMMA.join(casts), scope, COMMA.join(keys))

    def delete_all(self) -> sql.Composed:
        """Every row."""
        return sql.SQL("DELETE FROM {}").format(self.mart.identifier)

    def count(self) -> sql.Composed:
        """How many rows the mart has."""
        return sql.SQL("SELECT count(*) AS rows FROM {}").format(self.mart.identifier)

    def count_gone(self, scope: sql.Composable) -> sql.Composed:
        """How many of them have a key that the scope does not give."""
        source = sql.SQL("SELECT {} FROM {} AS t").format(COMMA.join(self._casts("t", only=self.mart.key)), scope)
        text = "SELECT count(*) AS rows FROM {} AS m WHERE NOT EXISTS (SELECT FROM ({}) AS s WHERE {})"
        return sql.SQL(text).format(self.mart.identifier, source, self.mart.same_key("m", "s"))

    def is_empty(self) -> sql.Composed:
        """Whether it has none."""
        return sql.SQL("SELECT NOT EXISTS (SELECT FROM {}) AS empty").format(self.mart.identifier)

    def _type(self, name: str) -> str:
        return next(c.type for c in self.mart.columns if c.name == name)

    def _differs(self, mart: str, source: str) -> sql.Composed:
        images = [COMMA.join(column_of(alias, c.name) for c in self.mart.columns) for alias in (source, mart)]
        return sql.SQL("pg_catalog.record_image_ne(ROW({}), ROW({}))").format(*images)

    def _assignments(self) -> sql.Composed:
        names = [c.name for c in self.mart.columns] + ([STAMP] if self.mart.stamped else [])
        return COMMA.join(sql.SQL("{0} = EXCLUDED.{0}").format(sql.Identifier(name)) for name in names)

    def _write_columns(self, alias: str, *, cast: bool) -> tuple[sql.Composed, sql.Composed]:
        names = [c.identifier for c in self.mart.columns]
        values = self._casts(alias) if cast else [column_of(alias, c.name) for c in self.mart.columns]
        if self.mart.stamped:
            names.append(sql.Identifier(STAMP))
            values.append(sql.SQL("now()").format())
        return COMMA.join(names), COMMA.join(values)

    def _casts(self, alias: str, only: Iterable[str] | None = None) -> list[sql.Composed]:
        chosen = [c for c in self.mart.columns if only is None or c.name in only]
        return [
            sql.SQL("{} AS {}").format(self.mart.cast(c.name, column_of(alias, c.name), c.type), c.identifier)
            for c in chosen
        ]

    def _numbered(self, *, cast: bool) -> sql.Composed:
        values = []
        for position, column in enumerate(self.mart.columns, 1):
            value: sql.Composable = column_of("t", column.name)
            if cast:
                value = self.mart.cast(column.name, value, column.type)
            values.append(sql.SQL("{} AS c{}").format(value, number(position)))
        return COMMA.join(values)

    def _same_positions(self) -> sql.Composed:
        """Whether `s` and `m` have the same key."""
        named = zip(self.mart.key, map(number, self._key_positions()), strict=True)
        return AND.join(sql.SQL("s.c{0} {1} m.c{0}").format(i, self.mart.equals(name)) for name, i in named)

    def _key_positions(self) -> list[int]:
        names = [c.name for c in self.mart.columns]
        return [names.index(name) + 1 for name in self.mart.key]


@dataclass(frozen=True)
class SealedSql(MartSql):
    """Over a mart whose code runs as the writer: every statement tells what it did in a row."""

    def insert(self, scope: sql.Composable, order: sql.Composable) -> sql.Composed:
        """The same, counted."""
        inserted = super().insert(scope, order)
        return inserted if self.mart.is_asked_by_row else counted(inserted)

    def delete_all(self) -> sql.Composed:
        """The same, counted."""
        return counted(super().delete_all())


def position_columns(cursor: tuple[str, str]) -> list[sql.Composed]:
    """The cursor as text beside each row, and its number."""
    named = zip(("vitrina_value", "vitrina_id"), cursor, strict=True)
    columns = [sql.SQL("{}::text AS {}").format(column_of("t", c), sql.Identifier(name)) for name, c in named]
    return [*columns, sql.SQL("t.vitrina_n").format()]

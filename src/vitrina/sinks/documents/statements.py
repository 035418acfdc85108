"""The statements over a shadow: each writes ahead what will be sent, and gives it as the lines of a batch.

A mart elsewhere is compared by its shadow, which is a mart like any other: a key, and the hash of the document. A hash
is NULL where the document is to be deleted, and empty where nobody knows what the mart has.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from psycopg import sql

from vitrina.engine.asking import Asked
from vitrina.engine.converge import LAST_POSITION, MartSql, Rows, position_columns
from vitrina.engine.pieces import COMMA, column_of
from vitrina.engine.stage import KeySegment
from vitrina.sinks.documents.shape import DOCUMENT, Shape
from vitrina.sinks.documents.types import checked_type
from vitrina.sql.describe import Column

HASH, VERSION = "vitrina_hash", "vitrina_version"
SEEDS = (1, 2)
NOTHING = sql.SQL("")
NO_DOCUMENT = sql.SQL("''")


def digest(text: sql.Composable) -> sql.Composed:
    """What tells documents apart: 128 bits, in a fraction of the time of sha256. Nobody's secrets depend on it."""
    half = 'pg_catalog.int8send(pg_catalog.hashtextextended({} COLLATE "C", {}::bigint))'
    return sql.SQL(" OPERATOR(pg_catalog.||) ").join(sql.SQL(half).format(text, sql.Literal(seed)) for seed in SEEDS)


HASHED = sql.SQL("{} AS {}").format(digest(column_of("t", DOCUMENT)), sql.Identifier(HASH))


def made_once(documents: sql.Composable, beside: Sequence[str], condition: sql.Composable = NOTHING) -> sql.Composed:
    """Documents that are named more than once around it: without the fence each would be built as often."""
    columns = COMMA.join(column_of("t", name) for name in (*beside, DOCUMENT))
    return sql.SQL("(SELECT {} FROM {} AS t {} OFFSET 0)").format(columns, documents, condition)


@dataclass(frozen=True)
class ShadowSql(MartSql):
    """`built`: the scope has documents already; else it has rows that they are built from."""

    shape: Shape
    built: bool
    version: Callable[[], int]

    def compare(self, scope: sql.Composable, part: sql.Composable | None = None) -> sql.Composed:
        """By key and hash."""
        return super().compare(self._hashed(scope), part)

    def part(self, condition: sql.Composable) -> sql.Composed:
        """What is deleted and not yet forgotten is no part of it."""
        return super().part(sql.SQL("{} AND m.{} IS NOT NULL").format(condition, sql.Identifier(HASH)))

    def insert(self, scope: sql.Composable, order: sql.Composable) -> sql.Composed:
        """Into an empty shadow, in the order of its key whatever was asked for."""
        del order
        return sql.SQL(
            """
            WITH src AS MATERIALIZED ({source}),
            put AS (INSERT INTO {shadow} ({names}) SELECT {values} FROM src AS d ORDER BY {order})
            SELECT (SELECT count(*) FROM src) AS written, {lines}
            """
        ).format(
            source=self._source(scope),
            shadow=self.mart.identifier,
            names=self._names(),
            values=self._values("d"),
            order=COMMA.join(column_of("d", name) for name in self.mart.key),
            lines=self._given(sql.SQL("src")),
        )

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
        """What is missing or differs; with keys, those that the scope does not give are marked as deleted.

        Always compared first: what differs is also what is sent. There is nothing to be shown: a hash was.
        """
        del compare_first, shown
        last = NOTHING if cursor is None else LAST_POSITION
        return sql.SQL(
            """
            WITH src AS MATERIALIZED ({source}),
            diff AS MATERIALIZED (
                SELECT s.* FROM src AS s LEFT JOIN {shadow} AS m ON {same_key}
                WHERE m.{version} IS NULL OR m.{hash} IS DISTINCT FROM s.{hash}
            ),
            put AS (
                INSERT INTO {shadow} ({names}) SELECT {values} FROM diff AS d ORDER BY {ordered}
                ON CONFLICT ({conflict}) DO UPDATE SET {assignments} RETURNING 1
            ) {gone}
            SELECT (SELECT count(*) FROM src) AS read, (SELECT count(*) FROM put) AS written,
                   {lines} {deleted} {last}
            """
        ).format(
            source=self._source(scope, cursor),
            shadow=self.mart.identifier,
            same_key=self.mart.same_key("m", "s"),
            version=sql.Identifier(VERSION),
            hash=sql.Identifier(HASH),
            names=self._names(),
            values=self._values("d"),
            ordered=COMMA.join(column_of("d", name) for name in self.mart.key),
            conflict=COMMA.join(map(sql.Identifier, self.mart.key)),
            assignments=COMMA.join(
                sql.SQL("{0} = EXCLUDED.{0}").format(sql.Identifier(name)) for name in (*self.mart.key, HASH, VERSION)
            ),
            lines=self._given(sql.SQL("diff")),
            gone=NOTHING if keys is None else sql.SQL(", gone AS ({})").format(self._mark_gone(keys, at_most)),
            deleted=NOTHING if keys is None else sql.SQL(", ") + self._deleted(),
            last=last,
        )

    def delete(self, scope: sql.Composable, keys: sql.Composable, shown: int = 0) -> sql.Composed:
        """Mark as deleted what the scope does not give: a tombstone, until the delete has arrived."""
        del shown
        columns = COMMA.join(self._casts("t", only=self.mart.key))
        text = "WITH src AS MATERIALIZED (SELECT {} FROM {} AS t), gone AS ({}) SELECT {}"
        return sql.SQL(text).format(columns, scope, self._mark_gone(keys), self._deleted())

    # ── for checks ───────────────────────────────────────────────────────────────────────────────────────────

    def asked(self) -> Asked:
        """The documents as checks see them."""
        return asked_of_documents(self.shape.columns, self.mart.key, self.shape.checked_type)

    def all_rows(self) -> None:
        """They are elsewhere."""

    def written(self, row: Mapping[str, Any]) -> Rows | None:
        """The very documents that are to be sent."""
        if not row.get("lines"):
            return None
        documents = self._documents_in(bytes(row["lines"]))
        fields = COMMA.join(
            sql.SQL("{} {}").format(sql.Identifier(n), sql.SQL(t)) for n, t in self.asked().types.items()
        )
        text = "(SELECT d.* FROM pg_catalog.json_to_recordset(($1::text[])[1]::json) AS d ({}))"
        return sql.SQL(text).format(fields), [(b"[" + b",".join(documents) + b"]").decode()]

    # ── what has arrived, and what may not have ──────────────────────────────────────────────────────────────

    def bury(self) -> sql.Composed:
        """Forget the documents that are deleted for good: up to version $1."""
        text = "DELETE FROM {} WHERE {} IS NULL AND {} <= $1"
        return sql.SQL(text).format(self.mart.identifier, sql.Identifier(HASH), sql.Identifier(VERSION))

    def doubt(self) -> sql.Composed:
        """Nobody knows whether what was written ahead after version $1 has arrived."""
        text = "UPDATE {} SET {} = '' WHERE {} > $1 AND {} IS NOT NULL"
        hash_, version = sql.Identifier(HASH), sql.Identifier(VERSION)
        return sql.SQL(text).format(self.mart.identifier, hash_, version, hash_)

    def keep_doubted(self, keys: KeySegment) -> sql.Composed:
        """The keys of what was written ahead after version $1."""
        names = COMMA.join(map(sql.Identifier, self.mart.key))
        text = "INSERT INTO {} (vitrina_kind, {}) SELECT 'u', {} FROM {} WHERE {} > $1 ORDER BY {}"
        parts = (keys.identifier, names, names, self.mart.identifier, sql.Identifier(VERSION), names)
        return sql.SQL(text).format(*parts)

    def count_documents(self) -> sql.Composed:
        """How many documents there should be."""
        text = "SELECT count(*) AS rows FROM {} WHERE {} IS NOT NULL"
        return sql.SQL(text).format(self.mart.identifier, sql.Identifier(HASH))

    def count_not_in(self, other: "ShadowSql") -> sql.Composed:
        """How many documents have an id that another shadow of the same key does not have."""
        text = """SELECT count(*) AS rows FROM {} AS m LEFT JOIN {} AS o ON {} = {} AND o.{} IS NOT NULL
                  WHERE m.{} IS NOT NULL AND o.{} IS NULL"""
        hash_ = sql.Identifier(HASH)
        ids = (self.shape.id_of("m"), other.shape.id_of("o"))
        return sql.SQL(text).format(
            self.mart.identifier, other.mart.identifier, *ids, hash_, hash_, sql.Identifier(VERSION)
        )

    # ── pieces ───────────────────────────────────────────────────────────────────────────────────────────────

    def documents(self, scope: sql.Composable) -> sql.Composable:
        """A scope whose rows have a document each."""
        return scope if self.built else self.shape.documents(scope)

    def _hashed(self, scope: sql.Composable) -> sql.Composed:
        """Key and hash of the rows of a scope; can stand after FROM."""
        keys = COMMA.join(column_of("t", name) for name in self.mart.key)
        text = "(SELECT {}, {} FROM {} AS t)"
        return sql.SQL(text).format(keys, HASHED, made_once(self.documents(scope), self.mart.key))

    def _given(self, rows: sql.Composable) -> sql.Composed:
        """What goes on of these rows."""
        return sql.SQL("(SELECT {} FROM {} AS d) AS lines").format(self._lines("d"), rows)

    def _source(self, scope: sql.Composable, cursor: tuple[str, str] | None = None) -> sql.Composed:
        document = column_of("t", DOCUMENT)
        columns = [
            *self._casts("t", only=self.mart.key),
            document,
            HASHED,
            *(position_columns(cursor) if cursor else []),
        ]
        documents = scope if self.built else made_once(self.documents(scope), self.mart.key)
        return sql.SQL("SELECT {} FROM {} AS t").format(COMMA.join(columns), documents)

    def _names(self) -> sql.Composed:
        return COMMA.join(sql.Identifier(name) for name in (*self.mart.key, HASH, VERSION))

    def _values(self, alias: str) -> sql.Composed:
        values = [column_of(alias, name) for name in (*self.mart.key, HASH)]
        return COMMA.join([*values, sql.Literal(self.version())])

    def _lines(self, alias: str) -> sql.Composed:
        """Of a batch that puts documents. What is large, the whole, is not put together by `||`."""
        return lines_of(self.shape.id_of(alias), column_of(alias, DOCUMENT))

    def _documents_in(self, lines: bytes) -> list[bytes]:
        return lines.split(b"\n")[1::2]

    def _deleted(self) -> sql.Composed:
        """How many were marked, and the lines that delete them."""
        text = "(SELECT count(*) FROM gone) AS deleted, (SELECT {} FROM gone) AS deletes"
        return sql.SQL(text).format(lines_of(self.shape.id_of("gone")))

    def _mark_gone(self, keys: sql.Composable, at_most: int | None = None) -> sql.Composed:
        text = "UPDATE {} AS m SET {} = NULL, {} = {} FROM {} AS k WHERE {} RETURNING {}"
        return sql.SQL(text).format(
            self.mart.identifier,
            sql.Identifier(HASH),
            sql.Identifier(VERSION),
            sql.Literal(self.version()),
            self._not_given(keys, at_most),
            self.mart.same_key("m", "k"),
            COMMA.join(column_of("m", name) for name in self.mart.key),
        )


def asked_of_documents(
    columns: Sequence[Column], key: Sequence[str], seen_as: Callable[[str], str] = checked_type
) -> Asked:
    """What checks see of documents of these columns: a value that JSON holds in another form is jsonb."""
    seen = [(c, seen_as(c.type)) for c in columns]
    return Asked({c.name: t for c, t in seen}, tuple(key), {c.name: c.operators for c, t in seen if t == c.type})


def lines_of(id_: sql.Composable, document: sql.Composable = NO_DOCUMENT) -> sql.Composed:
    """As `Batch` has them, of all rows together."""
    text = "convert_to(string_agg(to_json({})::text || E'\\n' || {} || E'\\n', ''), 'UTF8')"
    return sql.SQL(text).format(id_, document)


def shadow_columns(key: tuple[Column, ...]) -> tuple[Column, ...]:
    """What is compared: the key and the hash."""
    return (*key, Column(HASH, "bytea"))

"""The statements over the shadow of a mart of rows: what they write there becomes files.

A row goes on as a line of text, and is told from others by its image; both are made here, of the rows as they are.
"""

from collections.abc import Mapping
from typing import Any

from psycopg import sql

from vitrina.engine.asking import Asked
from vitrina.engine.converge import Rows, position_columns
from vitrina.engine.pieces import COMMA, column_of
from vitrina.engine.query import QueryText
from vitrina.sinks.documents.shape import DOCUMENT
from vitrina.sinks.documents.statements import HASH, NOTHING, SEEDS, ShadowSql
from vitrina.sinks.parquet.shape import RowShape

LINE, IMAGE = "vitrina_line", "vitrina_image"
LINES = "pg_catalog.convert_to(pg_catalog.string_agg({} OPERATOR(pg_catalog.||) E'\\n', ''), 'UTF8')"
JSON = "(SELECT pg_catalog.json_agg(d.{}::pg_catalog.json)::pg_catalog.text FROM {} AS d)"
HALF = "pg_catalog.int8send(pg_catalog.hash_record_extended(ROW({}), {}::pg_catalog.int8))"


def digest(image: sql.Composable) -> sql.Composed:
    """What tells rows apart: 128 bits. Nobody's secrets depend on it."""
    halves = (sql.SQL(HALF).format(image, sql.Literal(seed)) for seed in SEEDS)
    return sql.SQL(" OPERATOR(pg_catalog.||) ").join(halves)


HASHED = sql.SQL("{} AS {}").format(digest(column_of("t", IMAGE)), sql.Identifier(HASH))


class RowSql(ShadowSql):
    """Rows go on as lines; of what is deleted, the keys."""

    shape: RowShape

    def streamed(self, query: QueryText) -> sql.Composed:
        """All rows of the query: the values, then the key and the hash for the shadow.

        They come as they do, unless files want them together: to sort whole rows costs more than all else of it.
        """
        keys = COMMA.join(
            sql.SQL("{}::pg_catalog.text").format(self.mart.cast(c.name, column_of("t", c.name), c.type))
            for c in self.mart.columns
            if c.name in self.mart.key
        )
        rows = self._imaged(sql.SQL("({})").format(query.whole()), NOTHING)
        order = self.shape.order("t")
        ordered = sql.SQL(" ORDER BY {}").format(order) if order else NOTHING
        text = "SELECT {}, {}, {} FROM {} AS t{}"
        return sql.SQL(text).format(self.shape.plain("t", self.shape.names), keys, HASHED, rows, ordered)

    def written(self, row: Mapping[str, Any]) -> Rows | None:
        """The rows in their own types, but for what Parquet has as text."""
        if not row.get("rows"):
            return None
        types = self.asked().types.items()
        fields = COMMA.join(sql.SQL("{} {}").format(sql.Identifier(name), sql.SQL(type_)) for name, type_ in types)
        text = "(SELECT d.* FROM pg_catalog.json_to_recordset(($1::text[])[1]::json) AS d ({}))"
        return sql.SQL(text).format(fields), [row["rows"]]

    def asked(self) -> Asked:
        """The rows as checks see them: in their own types, but for what Parquet has as text."""
        return asked_of_rows(self.shape)

    # ── pieces ───────────────────────────────────────────────────────────────────────────────────────────────

    def _hashed(self, scope: sql.Composable) -> sql.Composed:
        keys = COMMA.join(column_of("t", name) for name in self.mart.key)
        return sql.SQL("(SELECT {}, {} FROM {} AS t)").format(keys, HASHED, self._imaged(scope, NOTHING))

    def _source(self, scope: sql.Composable, cursor: tuple[str, str] | None = None) -> sql.Composed:
        document = [column_of("t", DOCUMENT)] if self.mart.is_asked_by_row else []
        columns = [
            *self._casts("t", only=self.mart.key),
            column_of("t", LINE),
            *document,
            HASHED,
            *(position_columns(cursor) if cursor else []),
        ]
        return sql.SQL("SELECT {} FROM {} AS t").format(COMMA.join(columns), self._imaged(scope, self._texts()))

    def _imaged(self, scope: sql.Composable, more: sql.Composable) -> sql.Composed:
        """Each row with its image, which is named twice: without the fence it would be made as often."""
        text = "(SELECT q.*, {} AS {} {} FROM {} AS q OFFSET 0)"
        return sql.SQL(text).format(self.shape.image("q"), sql.Identifier(IMAGE), more, scope)

    def _texts(self) -> sql.Composed:
        """The line of a row; for checks its JSON too."""
        line = sql.SQL(", {} AS {}").format(self.shape.line("q", self.shape.names), sql.Identifier(LINE))
        if not self.mart.is_asked_by_row:
            return line
        return line + sql.SQL(", {} AS {}").format(self.shape.as_json("q"), sql.Identifier(DOCUMENT))

    def _given(self, rows: sql.Composable) -> sql.Composed:
        lines = super()._given(rows)
        if not self.mart.is_asked_by_row:
            return lines
        return lines + sql.SQL(", ") + sql.SQL(JSON).format(sql.Identifier(DOCUMENT), rows) + sql.SQL(" AS rows")

    def _lines(self, alias: str) -> sql.Composed:
        return sql.SQL(LINES).format(column_of(alias, LINE))

    def _deleted(self) -> sql.Composed:
        text = "(SELECT count(*) FROM gone) AS deleted, (SELECT {} FROM gone) AS deletes"
        return sql.SQL(text).format(sql.SQL(LINES).format(self.shape.line("gone", self.mart.key)))


def asked_of_rows(shape: RowShape) -> Asked:
    """What checks see of such a mart."""
    seen = {c.name: shape.type_of(c.name).checked or c.type for c in shape.columns}
    own = {c.name: c.operators for c in shape.columns if seen[c.name] == c.type}
    return Asked(seen, shape.key, own)

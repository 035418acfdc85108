"""The statements over the shadow of a mart of rows: what they write there becomes files."""

from psycopg import sql

from vitrina.engine.asking import Asked
from vitrina.engine.pieces import column_of
from vitrina.sinks.documents.shape import DOCUMENT
from vitrina.sinks.documents.statements import ShadowSql
from vitrina.sinks.parquet.shape import RowShape

LINES = "pg_catalog.convert_to(pg_catalog.string_agg({} OPERATOR(pg_catalog.||) E'\\n', ''), 'UTF8')"


class RowSql(ShadowSql):
    """Rows go on as lines of JSON; of what is deleted, the keys."""

    shape: RowShape

    def asked(self) -> Asked:
        """The rows as checks see them: in their own types, but for what Parquet has as text."""
        return asked_of_rows(self.shape)

    def _lines(self, alias: str) -> sql.Composed:
        return sql.SQL(LINES).format(column_of(alias, DOCUMENT))

    def _deleted(self) -> sql.Composed:
        text = "(SELECT count(*) FROM gone) AS deleted, (SELECT {} FROM gone) AS deletes"
        return sql.SQL(text).format(sql.SQL(LINES).format(self.shape.key_text("gone")))

    def _documents_in(self, lines: bytes) -> list[bytes]:
        return lines.split(b"\n")[:-1]


def asked_of_rows(shape: RowShape) -> Asked:
    """What checks see of such a mart."""
    seen = {c.name: shape.type_of(c.name).checked or c.type for c in shape.columns}
    own = {c.name: c.operators for c in shape.columns if seen[c.name] == c.type}
    return Asked(seen, shape.key, own)

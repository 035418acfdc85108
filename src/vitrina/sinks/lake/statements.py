"""The statements over the shadow of a lake table: what they write there is in the lake in the same transaction."""

from psycopg import sql

from vitrina.engine.asking import Asked
from vitrina.engine.pieces import column_of
from vitrina.sinks.documents.shape import DOCUMENT
from vitrina.sinks.documents.statements import ShadowSql
from vitrina.sinks.lake.shape import LakeShape

LINES = "pg_catalog.convert_to(pg_catalog.string_agg({} OPERATOR(pg_catalog.||) E'\\n', ''), 'UTF8')"


class LakeSql(ShadowSql):
    """Rows go on as lines of JSON; of what is deleted, the keys."""

    shape: LakeShape

    def asked(self) -> Asked:
        """The rows as checks see them: in their own types, but for what a lake has as text."""
        return asked_of_lake(self.shape)

    def _lines(self, alias: str) -> sql.Composed:
        return sql.SQL(LINES).format(column_of(alias, DOCUMENT))

    def _deleted(self) -> sql.Composed:
        text = "(SELECT count(*) FROM gone) AS deleted, (SELECT {} FROM gone) AS deletes"
        return sql.SQL(text).format(sql.SQL(LINES).format(self.shape.key_text("gone")))

    def _documents_in(self, lines: bytes) -> list[bytes]:
        return lines.split(b"\n")[:-1]


def asked_of_lake(shape: LakeShape) -> Asked:
    """What checks see of a lake table."""
    seen = {c.name: shape.type_of(c.name).checked or c.type for c in shape.columns}
    own = {c.name: c.operators for c in shape.columns if seen[c.name] == c.type}
    return Asked(seen, shape.key, own)

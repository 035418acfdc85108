"""The audit's look at an index itself: are its documents what was sent, and are there others?"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from psycopg import sql

from vitrina.engine.job import Job, execute, fetch
from vitrina.meta.db import Connection
from vitrina.sinks.documents.mirror import Mirror
from vitrina.sinks.documents.statements import HASH, ShadowSql, digest
from vitrina.sinks.documents.writer import IndexWriter
from vitrina.sinks.elasticsearch.outlet import Outlet

AT_ONCE = 200  # documents that are asked for


@dataclass(frozen=True)
class IndexAudit:
    """See `Beyond`. Everything that was sent has arrived first: then the shadow says what must be there."""

    job: Job
    writer: IndexWriter
    outlet: Outlet
    await_arrival: Callable[[], None]

    def is_emptied(self, conn: Connection) -> bool:
        """By its number of documents, which costs little."""
        self.await_arrival()
        if self.outlet.keeper.count(self._index):
            return False
        return bool(fetch(conn, self._shadow(conn).count_documents())["rows"])

    def weed(self, conn: Connection) -> int:
        """Strangers show in the number of documents; only if there are too many is the whole index read."""
        self.await_arrival()
        if self.outlet.keeper.count(self._index) <= fetch(conn, self._shadow(conn).count_documents())["rows"]:
            return 0
        looked = Mirror(self.job, self.writer, self.outlet).look(conn)
        return looked.counts.deleted

    def doubt(self, conn: Connection, condition: sql.Composable) -> None:
        """Asked for by id, which shows what was written last, searched or not."""
        self.await_arrival()
        shadow = self._shadow(conn)
        for ids in self._ids(conn, shadow, condition):
            held = self.outlet.sources(self._index, ids).decode()
            execute(conn, _doubt(shadow, condition), [held, ids])

    def _ids(self, conn: Connection, shadow: ShadowSql, condition: sql.Composable) -> Iterator[list[str]]:
        text = sql.SQL("SELECT {} AS id FROM {} AS m").format(shadow.shape.id_of("m"), shadow.part(condition))
        found = [row["id"] for row in execute(conn, text)]
        for start in range(0, len(found), AT_ONCE):
            self.job.check()
            yield found[start : start + AT_ONCE]

    def _shadow(self, conn: Connection) -> ShadowSql:
        mart, _ = self.writer.prepare(conn, self.job.wanted)
        return self.writer.statements(mart)

    @property
    def _index(self) -> str:
        assert self.writer.generation is not None
        return self.writer.generation.index


def _doubt(shadow: ShadowSql, condition: sql.Composable) -> sql.Composed:
    """Of the ids in $2, those that the answer in $1 does not have as they were sent."""
    text = """
        WITH held AS MATERIALIZED (
            SELECT d ->> '_id' AS id, {digest} AS hash
            FROM json_array_elements($1::json -> 'docs') AS d,
                 LATERAL (SELECT (d -> '_source')::text OFFSET 0) AS t (source)
            WHERE d ->> 'found' = 'true'
        )
        UPDATE {shadow} AS m SET {hash} = ''
        WHERE {condition} AND m.{hash} IS NOT NULL AND {id} = ANY ($2::text[])
          AND NOT EXISTS (SELECT FROM held WHERE held.id = {id} AND held.hash = m.{hash})"""
    return sql.SQL(text).format(
        digest=digest(sql.SQL("t.source")),
        shadow=shadow.mart.identifier,
        hash=sql.Identifier(HASH),
        condition=condition,
        id=shadow.shape.id_of("m"),
    )

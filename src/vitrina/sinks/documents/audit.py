"""The audit's look at the mart itself: are its documents what was sent, and are there others?"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from psycopg import sql

from vitrina.engine.job import Job, execute, fetch
from vitrina.meta.db import Connection
from vitrina.sinks.documents.mirror import Mirror
from vitrina.sinks.documents.statements import HASH, ShadowSql, digest
from vitrina.sinks.documents.writer import ShadowWriter
from vitrina.stores import Store

AT_ONCE = 200  # documents that are asked for


@dataclass(frozen=True)
class DocumentAudit:
    """See `Beyond`. Everything that was sent has arrived first: then the shadow says what must be there."""

    job: Job
    writer: ShadowWriter
    store: Store
    await_arrival: Callable[[], None]

    def is_emptied(self, conn: Connection) -> bool:
        """By its number of documents, which costs little."""
        self.await_arrival()
        if self.store.count(self._set):
            return False
        return bool(fetch(conn, self._shadow(conn).count_documents())["rows"])

    def weed(self, conn: Connection) -> int:
        """Strangers show in the number of documents; only if there are too many is all of it read."""
        self.await_arrival()
        if self.store.count(self._set) <= fetch(conn, self._shadow(conn).count_documents())["rows"]:
            return 0
        looked = Mirror(self.job, self.writer, self.store).look(conn)
        return looked.counts.deleted

    def doubt(self, conn: Connection, condition: sql.Composable) -> None:
        """Asked for by id, which shows what was written last, searched or not."""
        self.await_arrival()
        shadow = self._shadow(conn)
        for ids in self._ids(conn, shadow, condition):
            held = [*self.store.find(self._set, ids)]
            columns = [[d.id for d in held], [d.text for d in held], ids]
            execute(conn, _doubt(shadow, condition), columns)

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
    def _set(self) -> str:
        assert self.writer.edition is not None
        return self.writer.edition.index


def _doubt(shadow: ShadowSql, condition: sql.Composable) -> sql.Composed:
    """Of the ids in $3, those that are not among the documents in $1 and $2 as they were sent."""
    text = """
        WITH held AS MATERIALIZED (
            SELECT d.id, {digest} AS hash FROM unnest($1::text[], $2::text[]) AS d (id, source)
        )
        UPDATE {shadow} AS m SET {hash} = ''
        WHERE {condition} AND m.{hash} IS NOT NULL AND {id} = ANY ($3::text[])
          AND NOT EXISTS (SELECT FROM held WHERE held.id = {id} AND held.hash = m.{hash})"""
    return sql.SQL(text).format(
        digest=digest(sql.SQL("d.source")),
        shadow=shadow.mart.identifier,
        hash=sql.Identifier(HASH),
        condition=condition,
        id=shadow.shape.id_of("m"),
    )

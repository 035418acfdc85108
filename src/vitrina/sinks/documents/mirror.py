"""Inspection at the mart itself: what documents it really has, against what the shadow thinks it has.

A store gives a document back as the very text that was sent, so its hash says whether it is still the same.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from psycopg import sql

from vitrina.domain.events import Event
from vitrina.domain.run import Counts
from vitrina.engine.job import Job, Step, StepResult, execute, fetch
from vitrina.engine.stage import Scratch
from vitrina.meta.db import Connection
from vitrina.meta.repos.indexes import IndexRepo
from vitrina.sinks.documents.statements import HASH, VERSION, ShadowSql, digest, lines_of
from vitrina.sinks.documents.writer import ShadowWriter
from vitrina.sql.describe import Column
from vitrina.stores import Document, Store

ID = "vitrina_id"
PAGE = 1_000
COLUMNS = (Column(ID, "text"), Column(HASH, "bytea"), Column(VERSION, "bigint"))


@dataclass(frozen=True)
class Mirrored(Scratch):
    """The documents of a set: id, hash of the text, and one thing more."""

    prefix = "m"

    def add(self, conn: Connection, page: Sequence[Document], field: str | None) -> None:
        """Some of them, as the texts that they are. The third column is a field's text, or the version."""
        text = """
            INSERT INTO {} ({}) SELECT d.id, {}, {}
            FROM unnest($1::text[], $2::bigint[], $3::text[]) AS d (id, version, source)"""
        names = sql.SQL(", ").join(c.identifier for c in self.columns)
        one = sql.SQL("d.source::json ->> {}").format(field) if field else sql.SQL("d.version")
        columns = [[d.id for d in page], [d.version for d in page], [d.text for d in page]]
        execute(conn, sql.SQL(text).format(self.identifier, names, digest(sql.SQL("d.source")), one), columns)


def mirror(
    conn: Connection, mirrored: Mirrored, documents: Iterable[Document], field: str | None, check: Callable[[], None]
) -> None:
    """All of them, into a scratch table."""
    mirrored.create(conn)
    left = iter(documents)
    while page := [*islice(left, PAGE)]:
        check()
        mirrored.add(conn, page, field)
    mirrored.finish(conn)
    execute(conn, sql.SQL("CREATE INDEX ON {} ({})").format(mirrored.identifier, sql.Identifier(ID)))


class Mirror:
    """The first step of a repair: the shadow is made to know what it is wrong about, and strangers are deleted."""

    def __init__(self, job: Job, writer: ShadowWriter, store: Store) -> None:
        self.job = job
        self.writer = writer
        self.store = store

    def steps(self) -> Iterator[Step]:
        """One."""
        yield self.look

    def look(self, conn: Connection) -> StepResult:
        """All of it."""
        edition = self.writer.edition
        assert edition is not None
        mirrored = Mirrored(self.job.pipeline_id, COLUMNS)
        mirror(conn, mirrored, self.store.read(edition.index), None, self.job.check)
        mart, _ = self.writer.prepare(conn, self.job.wanted)
        statements = MirrorSql(self.writer.statements(mart), mirrored)
        seen = fetch(conn, statements.newest_version())["version"] or 0
        IndexRepo(conn, self.job.pipeline_id).raise_version(edition.number, seen)
        self.writer.outbox.begin(max(self.writer.outbox.version, seen))
        wrong = execute(conn, statements.doubt_what_differs()).rowcount
        strangers = fetch(conn, statements.delete_strangers())
        self.writer.wrote(strangers)
        mirrored.drop(conn)
        fields = {"different": wrong, "strangers": strangers["deleted"]}
        return StepResult(Event.INDEX_MIRRORED, Counts(deleted=strangers["deleted"]), self.job.position, fields)


@dataclass(frozen=True)
class MirrorSql:
    """A shadow beside what its mart really has."""

    shadow: ShadowSql
    mirrored: Mirrored

    def newest_version(self) -> sql.Composed:
        """The highest version in the mart."""
        return sql.SQL("SELECT max({}) AS version FROM {}").format(sql.Identifier(VERSION), self.mirrored.identifier)

    def doubt_what_differs(self) -> sql.Composed:
        """Documents that are missing or are not what was sent."""
        text = """UPDATE {shadow} AS s SET {hash} = '' WHERE s.{hash} IS NOT NULL AND NOT EXISTS (
                      SELECT FROM {mirror} AS i WHERE i.{id} = {id_of} AND i.{hash} = s.{hash})"""
        return sql.SQL(text).format(
            shadow=self.shadow.mart.identifier,
            hash=sql.Identifier(HASH),
            mirror=self.mirrored.identifier,
            id=sql.Identifier(ID),
            id_of=self.shadow.shape.id_of("s"),
        )

    def delete_strangers(self) -> sql.Composed:
        """The lines that delete documents which the shadow knows nothing of."""
        text = """
            WITH gone AS (SELECT i.{id} FROM {mirror} AS i LEFT JOIN {shadow} AS s ON i.{id} = {id_of}
                          WHERE s.{version} IS NULL)
            SELECT count(*) AS deleted, {lines} AS deletes FROM gone"""
        return sql.SQL(text).format(
            id=sql.Identifier(ID),
            mirror=self.mirrored.identifier,
            shadow=self.shadow.mart.identifier,
            id_of=self.shadow.shape.id_of("s"),
            version=sql.Identifier(VERSION),
            lines=lines_of(sql.Identifier(ID)),
        )

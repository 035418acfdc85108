"""Looking at the index itself: what documents it really has, against what the shadow thinks it has.

Elasticsearch gives a document back as the very text that was sent, so its hash says whether it is still the same.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from psycopg import sql

from vitrina.domain.events import Event
from vitrina.domain.run import Counts
from vitrina.engine.job import Job, Step, StepResult, execute, fetch
from vitrina.engine.stage import Scratch
from vitrina.meta.db import Connection
from vitrina.meta.repos.indexes import IndexRepo
from vitrina.sinks.documents.statements import HASH, VERSION, ShadowSql, digest
from vitrina.sinks.documents.writer import IndexWriter
from vitrina.sinks.elasticsearch.outlet import Outlet
from vitrina.sql.describe import Column

ID = "vitrina_id"
COLUMNS = (Column(ID, "text"), Column(HASH, "bytea"), Column(VERSION, "bigint"))


@dataclass(frozen=True)
class Mirrored(Scratch):
    """The documents of an index: id, hash of the source, and one thing more."""

    prefix = "m"

    def add(self, conn: Connection, page: bytes, field: str | None) -> None:
        """One page of a scan, taken apart by Postgres: a number stays the text it was.

        The third column is a field's text, or the version.
        """
        text = """
            INSERT INTO {} ({}) SELECT h ->> '_id', {}, {}
            FROM json_array_elements($1::json #> '{{hits,hits}}') AS h,
                 LATERAL (SELECT (h -> '_source')::text OFFSET 0) AS t (source)"""
        names = sql.SQL(", ").join(c.identifier for c in self.columns)
        one = sql.SQL("h #>> ARRAY['_source', {}]").format(field) if field else sql.SQL("(h ->> '_version')::bigint")
        execute(conn, sql.SQL(text).format(self.identifier, names, digest(sql.SQL("t.source")), one), [page.decode()])


def mirror(
    conn: Connection, mirrored: Mirrored, pages: Iterable[bytes], field: str | None, check: Callable[[], None]
) -> None:
    """Every page, into a scratch table."""
    mirrored.create(conn)
    for page in pages:
        check()
        mirrored.add(conn, page, field)
    mirrored.settle(conn)
    execute(conn, sql.SQL("CREATE INDEX ON {} ({})").format(mirrored.identifier, sql.Identifier(ID)))


class Mirror:
    """The first step of a repair: the shadow is made to know what it is wrong about, and strangers are deleted."""

    def __init__(self, job: Job, writer: IndexWriter, outlet: Outlet) -> None:
        self.job = job
        self.writer = writer
        self.outlet = outlet

    def steps(self) -> Iterator[Step]:
        """One."""
        yield self.look

    def look(self, conn: Connection) -> StepResult:
        """All of it."""
        generation = self.writer.generation
        assert generation is not None
        mirrored = Mirrored(self.job.pipeline_id, COLUMNS)
        mirror(conn, mirrored, self.outlet.scan(generation.index), None, self.job.check)
        mart, _ = self.writer.prepare(conn, self.job.wanted)
        statements = MirrorSql(self.writer.statements(mart), mirrored)
        seen = fetch(conn, statements.newest_version())["version"] or 0
        IndexRepo(conn, self.job.pipeline_id).raise_version(generation.number, seen)
        self.writer.version = max(self.writer.version, seen)
        wrong = execute(conn, statements.doubt_what_differs()).rowcount
        strangers = fetch(conn, statements.delete_strangers())
        self.writer.wrote(strangers)
        mirrored.drop(conn)
        fields = {"different": wrong, "strangers": strangers["deleted"]}
        return StepResult(Event.INDEX_MIRRORED, Counts(deleted=strangers["deleted"]), self.job.position, fields)


@dataclass(frozen=True)
class MirrorSql:
    """A shadow beside what its index really has."""

    shadow: ShadowSql
    mirrored: Mirrored

    def newest_version(self) -> sql.Composed:
        """The highest version in the index."""
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
            SELECT count(*) AS deleted,
                   convert_to(string_agg('{{"delete":{{"_id":' || to_json({id}) || {tail}, ''), 'UTF8') AS deletes
            FROM gone"""
        return sql.SQL(text).format(
            id=sql.Identifier(ID),
            mirror=self.mirrored.identifier,
            shadow=self.shadow.mart.identifier,
            id_of=self.shadow.shape.id_of("s"),
            version=sql.Identifier(VERSION),
            tail=sql.Literal(self.shadow.tail),
        )

"""Inspection at the mart itself: the shadow is made to know which rows are not there as it thinks they are."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from psycopg import sql

from vitrina.domain.events import Event
from vitrina.engine.job import Job, Step, StepResult, execute
from vitrina.engine.mart import Mart
from vitrina.engine.pieces import COMMA, column_of
from vitrina.engine.stage import Scratch
from vitrina.meta.db import Connection
from vitrina.sinks.documents.statements import HASH, VERSION
from vitrina.sinks.parquet.shape import RowShape
from vitrina.sinks.parquet.statements import asked_of_rows, digest
from vitrina.sinks.parquet.writer import VERSION as ROW_VERSION
from vitrina.sinks.parquet.writer import RowWriter
from vitrina.sql.describe import Column
from vitrina.stores import Store

PAGE = 1_000


@dataclass(frozen=True)
class Seen(Scratch):
    """The rows that are really there: key, and hash of the text."""

    prefix = "m"

    def add(self, conn: Connection, shape: RowShape, texts: list[str]) -> None:
        """Some of them."""
        values = COMMA.join(column_of("t", c.name) for c in self.columns[:-1])
        types = asked_of_rows(shape).types.items()
        fields = COMMA.join(sql.SQL("{} {}").format(sql.Identifier(name), sql.SQL(type_)) for name, type_ in types)
        text = """INSERT INTO {} ({}) SELECT {}, {} FROM (
                      SELECT r.*, {} AS image FROM unnest($1::text[]) AS d (text)
                      CROSS JOIN LATERAL json_to_record(d.text::json) AS r ({}) OFFSET 0) AS t"""
        names = COMMA.join(c.identifier for c in self.columns)
        parts = (self.identifier, names, values, digest(sql.SQL("t.image")), shape.image("r"), fields)
        execute(conn, sql.SQL(text).format(*parts), [texts])


@dataclass(frozen=True)
class RowMirror:
    """The first step of a repair. What it finds, the comparison that follows puts right."""

    job: Job
    writer: RowWriter
    store: Store

    def steps(self) -> Iterator[Step]:
        """One."""
        yield self._look

    def _look(self, conn: Connection) -> StepResult:
        edition = self.writer.edition
        assert edition is not None
        seen = Seen(self.job.pipeline_id, (*self.writer.key_columns, Column(HASH, "bytea")))
        seen.create(conn)
        texts = (document.text or "" for document in self.store.read(edition.index))
        while page := [*islice(texts, PAGE)]:
            self.job.check()
            seen.add(conn, self.writer.shape, page)
        seen.finish(conn)
        mart, _ = self.writer.prepare(conn, self.job.wanted)
        wrong = execute(conn, _doubt(mart, seen)).rowcount
        strangers = execute(conn, _add_strangers(mart, seen)).rowcount
        seen.drop(conn)
        fields = {"different": wrong, "strangers": strangers}
        return StepResult(Event.INDEX_MIRRORED, position=self.job.position, fields=fields)


def _doubt(mart: Mart, seen: Seen) -> sql.Composed:
    """Rows that are missing, are not as they were written, or are there more than once."""
    text = """UPDATE {mart} AS m SET {hash} = '' WHERE (
                  SELECT count(*) FILTER (WHERE i.{hash} = m.{hash}) <> 1 OR count(*) <> 1
                  FROM {seen} AS i WHERE {same})"""
    hash_ = sql.Identifier(HASH)
    return sql.SQL(text).format(mart=mart.identifier, seen=seen.identifier, hash=hash_, same=mart.same_key("m", "i"))


def _add_strangers(mart: Mart, seen: Seen) -> sql.Composed:
    """Rows that nobody wrote: known from now on, so that they are deleted as any other that the query does not give."""
    text = """INSERT INTO {mart} ({names}, {hash}, {version}) SELECT DISTINCT {keys}, ''::bytea, {value}
              FROM {seen} AS i WHERE NOT EXISTS (SELECT FROM {mart} AS m WHERE {same})"""
    return sql.SQL(text).format(
        mart=mart.identifier,
        names=COMMA.join(map(sql.Identifier, mart.key)),
        keys=COMMA.join(column_of("i", name) for name in mart.key),
        hash=sql.Identifier(HASH),
        version=sql.Identifier(VERSION),
        value=sql.Literal(ROW_VERSION),
        seen=seen.identifier,
        same=mart.same_key("m", "i"),
    )

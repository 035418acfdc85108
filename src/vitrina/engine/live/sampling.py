"""A range of keys, read at both sides: which of them differ."""

from typing import Any

from psycopg import sql

from vitrina.engine.filling import copy_across
from vitrina.engine.job import ask
from vitrina.engine.live.ranges import KeyRange
from vitrina.engine.pieces import COMMA, number
from vitrina.engine.stage import Stage
from vitrina.engine.work import Work
from vitrina.meta.db import Connection

MOST_SUSPECTS = 1_000  # at a time; where there are more, everything is compared


class Sample(Stage):
    """Rows of a range, from another server or out of the transforms; it lives no longer than its transaction."""

    prefix = "a"


class Sampling:
    """Reads the query as the mart's own query is read: in place, from another server, or through the transforms."""

    def __init__(self, work: Work) -> None:
        self.work = work
        self.job = work.job

    @property
    def most(self) -> int:
        """How many keys are told."""
        return min(MOST_SUSPECTS, self.job.rows_at_once)

    def differing(self, range_: KeyRange, conn: Connection) -> tuple[list[str | None], int]:
        """Keys as arrays, one a key column, and how many. In place both sides are read in one snapshot."""
        part = self.work.statements.part(range_.condition("m"))
        wanted = self.work.query.whole() + sql.SQL(" WHERE ") + range_.condition("q")
        if self.work.stays_inside:
            scope = sql.SQL("({})").format(wanted)
            with self.work.mart.held(conn):
                return _keys(self.job.reader.fetch(self._told(self.work.statements.compare(scope, part)))[0])
        sample = Sample(self.job.pipeline_id, self.job.output)
        sample.create(conn)
        self._fill(sample, wanted, conn)
        [found] = ask(conn, self.work.mart, self._told(self.work.statements.compare(sample.identifier, part)))
        sample.drop(conn)
        return _keys(found)

    def _told(self, differing: sql.Composed) -> sql.Composed:
        numbers = [number(n) for n in range(1, len(self.work.mart.key) + 1)]
        arrays = COMMA.join(sql.SQL("array_agg(d.k{})::text").format(n) for n in numbers)
        names = COMMA.join(sql.SQL("k{}").format(n) for n in numbers)
        text = "SELECT ARRAY[{}] AS args, count(*) AS keys FROM (SELECT * FROM ({}) AS f LIMIT {}) AS d (kind, {})"
        return sql.SQL(text).format(arrays, differing, sql.Literal(self.most), names)

    def _fill(self, sample: Sample, wanted: sql.Composed, conn: Connection) -> None:
        transforming = self.job.transforming
        if transforming is None:
            copy_across(self.job.reader, wanted, sample, conn)
            return
        given = wanted + sql.SQL(" AND $1::text[] IS NOT NULL")  # with a parameter, values come as for a batch
        rows = self.job.reader.fetch(given, [""])
        with sample.copy_in(conn, "text") as copy:
            transforming.write(copy, rows)


def _keys(row: dict[str, Any]) -> tuple[list[str | None], int]:
    return list(row["args"]), int(row["keys"])

"""One reading of a query for several of its targets: who of those that are due is first reads it into a table, and all
take their rows from there. Each does so in a step of its own, under its own fence, and needs nobody from then on.

Whoever was asked for a run at a moment may have what was read since then: it is the query as it stood while the run was
wanted. A run's age is that of the reading.
"""

import hashlib
import json
import time
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg import sql

from vitrina.engine.filling import copy_across
from vitrina.engine.job import Job, Pour, execute
from vitrina.engine.query import QueryText
from vitrina.engine.stage import Scratch, Stage
from vitrina.failpoints import reach
from vitrina.meta.db import Connection, fetch_one, queries, translated
from vitrina.sql.describe import Column

SQL = queries("readings")
PAUSE_SECONDS = 0.05  # between two looks at whether another has read


@dataclass(frozen=True)
class Common(Scratch):
    """The rows of all targets, as the query gives them, or the last transform."""

    prefix = "r"


@dataclass(frozen=True)
class Company:
    """The other targets of a query, for one that is run since a moment."""

    whole: UUID
    pipeline_id: UUID
    since: datetime

    def is_there(self, conn: Connection) -> bool:
        """Whether one of them is due as well, or has read already."""
        return bool(self._ask(conn, "company")["found"])

    def fill(self, stage: Stage, job: Job, pour: Pour, conn: Connection) -> tuple[int, bool]:
        """The rows that the query gives, into a target's own stage; how many, and whether it was read for that."""
        common, meaning = Common(self.whole, _columns(job)), _meaning(job)
        taken_at, was_read = self._await(conn, meaning, job), False
        if taken_at is None:
            taken_at, was_read = self._read(common, meaning, job, pour, conn), True
        reach("shared reading")
        rows = _take(common, stage, job, conn)
        taken_by = self._ask(conn, "take", taken_at=taken_at)["taken_by"]
        if not self._ask(conn, "wanted", taken_by=taken_by, taken_at=taken_at)["found"]:
            self._forget(common, conn)
        return rows, was_read

    def _await(self, conn: Connection, meaning: str, job: Job) -> datetime | None:
        """When it was read that what is there now was read; None: nothing is, and it is ours to read."""
        while True:
            found = self._look(conn, meaning)
            if found or self._ask(conn, "try")["ours"]:
                return found or self._look(conn, meaning)  # somebody may have been faster between the two
            job.check()
            time.sleep(PAUSE_SECONDS)

    def _look(self, conn: Connection, meaning: str) -> datetime | None:
        with translated():
            row = fetch_one(conn, SQL["find"], self._params(meaning=meaning))
        return row["taken_at"] if row else None

    def _read(self, common: Common, meaning: str, job: Job, pour: Pour, conn: Connection) -> datetime:
        """Once, for all that come since."""
        taken_at: datetime = self._ask(conn, "try")["now"]
        self._forget(common, conn)
        common.create(conn)
        if _is_built(job):
            copy_across(job.reader, QueryText(job.plan.select, common.columns, ()).whole(), common, conn)
        else:
            pour(common, conn)
        with translated():
            conn.execute(SQL["keep"], self._params(meaning=meaning, taken_at=taken_at))
            conn.execute(sql.SQL("ANALYZE {}").format(common.identifier))
        return taken_at

    def _forget(self, common: Common, conn: Connection) -> None:
        with translated():
            conn.execute(SQL["forget"], self._params())
        common.drop(conn)

    def _ask(self, conn: Connection, name: str, **more: Any) -> dict[str, Any]:
        with translated():
            row = fetch_one(conn, SQL[name], self._params(**more))
        assert row is not None
        return row

    def _params(self, **more: Any) -> dict[str, Any]:
        relation = f"etl_stage.{Common.prefix}_{self.whole.hex}"
        return {"whole": self.whole, "pipeline_id": self.pipeline_id, "since": self.since, "relation": relation} | more


def _columns(job: Job) -> tuple[Column, ...]:
    """Documents are built by each target for itself."""
    return job.described if _is_built(job) else job.output


def _is_built(job: Job) -> bool:
    return job.select != job.plan.select


def _take(common: Common, stage: Stage, job: Job, conn: Connection) -> int:
    names = sql.SQL(", ").join(map(sql.Identifier, common.copied))
    rows = sql.SQL("SELECT {} FROM {} ORDER BY vitrina_n").format(names, common.identifier).as_string(conn)
    if _is_built(job):
        select, columns = job.writer.read(rows, common.columns)
        rows = QueryText(select, columns, ()).whole().as_string(conn)
    into = sql.SQL("INSERT INTO {} ({}) ").format(
        stage.identifier, sql.SQL(", ").join(map(sql.Identifier, stage.copied))
    )
    return execute(conn, into + sql.SQL(rows)).rowcount


def _meaning(job: Job) -> str:
    """Changes when other rows would be read, or in other columns."""
    plan = job.plan
    asked = [plan.source, plan.select, plan.transforms, [[c.name, c.type] for c in _columns(job)]]
    return hashlib.sha256(json.dumps(asked).encode()).hexdigest()[:16]

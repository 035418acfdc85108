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
from typing import Any, cast
from uuid import UUID

from psycopg import Rollback, sql

from vitrina.engine.filling import copy_across
from vitrina.engine.job import Job, Pour, execute, fetch
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
        was_read = not self._await(common, meaning, job, conn)
        if was_read:
            self._read(common, meaning, job, pour, conn)
        reach("shared reading")
        return _take(common, stage, job, conn), was_read

    def leave(self, conn: Connection) -> None:
        """This target has its rows. Last in a step: two that do so at once wait for each other."""
        taken = self._ask(conn, "take")
        if not self._ask(conn, "wanted", **taken)["found"] and self._ask(conn, "forget")["gone"]:
            Common(self.whole, ()).drop(conn)

    def _await(self, common: Common, meaning: str, job: Job, conn: Connection) -> bool:
        """Whether there is a reading, which we hold now; else it is ours to read."""
        while not self._holds(common, meaning, conn):
            if self._ask(conn, "try")["ours"]:
                return self._holds(common, meaning, conn)  # somebody may have been faster between the two
            _pause(job)
        return True

    def _holds(self, common: Common, meaning: str, conn: Connection) -> bool:
        """With all the rows that it had: a crash empties the table."""
        with translated(), conn.transaction() as held:
            row = fetch_one(conn, SQL["find"], self._params(meaning=meaning))
            if row is None or _count(common, conn) != row["rows"]:
                raise Rollback(held)  # who reads anew shall not wait for us
            return True
        return False

    def _read(self, common: Common, meaning: str, job: Job, pour: Pour, conn: Connection) -> None:
        """Once, for all that come since. Whoever still takes what was read before is waited for, without a lock."""
        while (found := self._ask(conn, "forget"))["was_there"] and not found["gone"]:
            _pause(job)
        taken_at = self._as_of(job, conn)
        common.create(conn)
        if _is_built(job):
            copy_across(job.reader, QueryText(job.plan.select, common.columns, ()).whole(), common, conn)
        else:
            pour(common, conn)
        with translated():
            kept = self._params(meaning=meaning, taken_at=taken_at, rows=_count(common, conn))
            conn.execute(SQL["keep"], kept)
            conn.execute(sql.SQL("ANALYZE {}").format(common.identifier))

    def _as_of(self, job: Job, conn: Connection) -> datetime:
        """As of when it is read at the latest: a file, as it was when the attempt opened it."""
        if job.reader.abilities.speaks_sql:
            return cast(datetime, self._ask(conn, "try")["now"])
        return cast(datetime, self._ask(conn, "begun")["tried_at"])

    def _ask(self, conn: Connection, name: str, **more: Any) -> dict[str, Any]:
        with translated():
            row = fetch_one(conn, SQL[name], self._params(**more))
        assert row is not None
        return row

    def _params(self, **more: Any) -> dict[str, Any]:
        relation = f"etl_stage.{Common.prefix}_{self.whole.hex}"
        return {"whole": self.whole, "pipeline_id": self.pipeline_id, "since": self.since, "relation": relation} | more


def _pause(job: Job) -> None:
    job.check()
    time.sleep(PAUSE_SECONDS)


def _count(common: Common, conn: Connection) -> int:
    return int(fetch(conn, sql.SQL("SELECT count(*) AS rows FROM {}").format(common.identifier))["rows"])


def _columns(job: Job) -> tuple[Column, ...]:
    """Documents are built by each target for itself."""
    return job.described if _is_built(job) else job.output


def _is_built(job: Job) -> bool:
    return job.select != job.plan.select


def may_be_shared(job: Job) -> bool:
    """Documents over a shared reading are built in the warehouse, by the runner: only of types that mean the same
    there, and that bring no code of anybody's along."""
    return not _is_built(job) or all(c.builtin and not c.type.startswith("record") for c in job.described)


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

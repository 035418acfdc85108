"""Whether a live mart is still there: nobody follows what somebody does to it by hand, and the audit is slow.

That it was truncated shows in where it is stored, that all was deleted in that nothing is left; both cost next to
nothing to ask.
"""

import time
from dataclasses import replace

from psycopg import sql

from vitrina.domain.errors import RetryableError
from vitrina.domain.positions import LivePosition, Storage
from vitrina.domain.reasons import Reason
from vitrina.domain.run import Counts
from vitrina.engine.job import fetch
from vitrina.engine.work import Work
from vitrina.meta.db import Connection, fetch_all, queries, transaction

SQL = queries("marts")
LOOK_SECONDS = 1.0  # between two looks of a follower
LIMITS = {"statement_timeout": "5s", "lock_timeout": "1s"}  # nobody waits long for a look


def find_mart(conn: Connection, schema: str, table: str) -> Storage:
    """Where a table is stored, and whether it has rows; nowhere if there is none of that name."""
    file = fetch_all(conn, SQL["file"], {"schema": schema, "table": table})[0]["file"]
    if file is None:
        return Storage()
    text = sql.SQL("SELECT EXISTS (SELECT FROM {}) AS filled").format(sql.Identifier(schema, table))
    return Storage(file, bool(fetch(conn, text)["filled"]))


def look_at(conn: Connection, schema: str, table: str) -> Storage:
    """The same outside of a step, and not for long: somebody may keep the table locked."""
    with transaction(conn, LIMITS, read_only=True):
        return find_mart(conn, schema, table)


def why_emptied(before: Storage | None, now: Storage) -> str:
    """What somebody has done to it; empty if nobody has, or if nothing is known of before."""
    if before is None or not before.file:
        return ""
    if before.file != now.file:
        return Reason.MART_REMADE.of()
    return Reason.MART_EMPTIED.of() if before.filled and not now.filled else ""


class Presence:
    """Of the mart of one follower, kept in its position. One in another system is left to the audit, and so is one with
    code of somebody's own, which a look could run."""

    def __init__(self, work: Work) -> None:
        self.work = work
        self._name = work.mart.schema, work.mart.table
        self._is_left_alone = not work.job.writer.abilities.is_compared_in_place or work.mart.seal is not None
        self._looked = float("-inf")

    def note(self, conn: Connection, position: LivePosition) -> LivePosition:
        """It is as it should be."""
        return self.look(conn, replace(position, mart=None))

    def look(self, conn: Connection, position: LivePosition, seconds: float = 0.0) -> LivePosition:
        """As it is now, unless that was asked so shortly ago. If it is not what the follower left, it is compared."""
        if self._is_left_alone:
            return replace(position, mart=None)
        if time.monotonic() - self._looked < seconds:
            return position
        try:
            now = look_at(conn, *self._name)
        except RetryableError:
            return position  # it is locked; another time
        self._looked = time.monotonic()
        why = why_emptied(position.mart, now)
        return replace(position, comparing=why) if why else replace(position, mart=now)

    def wrote(self, counts: Counts, conn: Connection, position: LivePosition) -> LivePosition:
        """The follower itself: it may have emptied the mart, or filled it, unless somebody was there before."""
        before = position.mart
        if before is None or not before.file or not (counts.deleted if before.filled else counts.written):
            return position
        now = find_mart(conn, *self._name)
        return position if why_emptied(before, replace(now, filled=True)) else replace(position, mart=now)

"""Capture by trigger, for sources whose WAL cannot be read: statement triggers write a log at the source, and what one
snapshot sees and an earlier one did not is new."""

import time
from collections.abc import Generator
from contextlib import suppress
from typing import Any

from psycopg import sql
from psycopg.rows import DictRow

from vitrina.capture.changes import CHUNK_ROWS, Change, Chunk, Columns, ContinuityLost
from vitrina.capture.sources import check_place, fingerprints, place
from vitrina.domain.errors import RetryableError
from vitrina.meta.db import Connection, connect, fetch_all, fetch_one, queries, translated
from vitrina.meta.repos.captures import Capture, Figures, Origin

SQL = queries("capture_trigger")
PAUSE = 0.05
HALF_BYTES = 32_000_000


class TriggerTap:
    """See `Tap`."""

    setup = "trigger"

    def __init__(self, conninfo: str) -> None:
        self._conninfo = conninfo
        self._conn: Connection | None = None

    def open(self, capture: Capture) -> None:
        """Check that nothing has been lost."""
        self.close()
        assert capture.position is not None
        self._capture, self._seen = capture, capture.position
        self._chunks: Generator[Chunk] | None = None
        self._conn = connect(self._conninfo, "capture")
        self.look()
        check_place(self._conn, capture)
        if fetch_one(self._conn, SQL["position_is_gone"], {"position": capture.position}):
            raise ContinuityLost("the log of the triggers was emptied beyond the position that is stored")

    def poll(self, seconds: float) -> Chunk | None:
        """What has become visible; looked for twenty times a second."""
        deadline = time.monotonic() + seconds
        while True:
            if self._chunks is None and self._anything_new():
                self._chunks = self._read()
            if self._chunks is not None:
                chunk = next(self._chunks)
                if chunk.position:
                    self._seen = chunk.position
                    self._finish()
                return chunk
            left = deadline - time.monotonic()
            if left <= 0:
                return None
            time.sleep(min(left, PAUSE))

    def want(self, columns: Columns | None) -> bool:
        """The triggers write whole rows."""
        del columns
        return False

    def acknowledge(self, position: str) -> None:
        """Nothing to tell: what is stored is known by its snapshot."""

    def idle_position(self) -> str | None:
        """The last snapshot that held nothing new."""
        return self._seen if self._chunks is None else None

    def look(self) -> tuple[Figures, dict[str, str]]:
        """Are log and triggers all there?"""
        conn, capture = self._source, self._capture
        mark = fetch_one(conn, SQL["mark"])
        if mark is None or capture.slot not in mark["mark"]:
            raise ContinuityLost("schema vitrina_capture, with the log of the triggers, was dropped")
        unfit = fetch_all(conn, SQL["unfit"], {"tables": list(capture.tables)})
        if unfit:
            raise ContinuityLost(f"triggers are off or missing on {', '.join(row['member'] for row in unfit)}")
        size = fetch_one(conn, SQL["log_size"])
        return Figures(size["bytes"] if size else None), fingerprints(conn, capture)

    def tidy(self, position: str) -> None:
        """Let the full half rest, and empty the one that rests, if all of it is stored."""
        conn = self._source
        row: Any = fetch_one(conn, SQL["halves"])
        active, resting = row["active"], 1 - row["active"]
        if row[f"size_{resting}"]:
            self._empty(f"log_{resting}", position)
        elif row[f"size_{active}"] > HALF_BYTES:
            with translated():
                conn.execute(SQL["switch"], {"active": resting})

    def reset(self, capture: Capture) -> Origin:
        """Log and triggers anew, where they are missing; from now on."""
        from vitrina.capture.installation import repair_triggers

        self.close()
        with connect(self._conninfo, "capture") as conn:
            repair_triggers(conn, capture)
            here = place(conn)
            return Origin(here["snapshot"], here["system_identifier"], here["timeline"])

    def close(self) -> None:
        """End the session."""
        self._finish()
        if self._conn:
            self._conn.close()
        self._conn = None

    @property
    def _source(self) -> Connection:
        assert self._conn is not None
        return self._conn

    def _anything_new(self) -> bool:
        row: Any = fetch_one(self._source, SQL["any_new"], {"position": self._seen})
        if not row["any"]:
            self._seen = row["snapshot"]
        return bool(row["any"])

    def _read(self) -> Generator[Chunk]:
        """Chunk by chunk, in one snapshot; the last one has its position, and comes when the transaction is over."""
        last: list[DictRow] = []
        with translated(), self._source.transaction():
            self._source.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            snapshot: Any = self._source.execute("SELECT pg_current_snapshot()::text AS text").fetchone()
            with self._source.cursor("changes") as cursor:
                cursor.execute(SQL["new"], {"position": self._seen})
                while rows := cursor.fetchmany(CHUNK_ROWS):
                    if last:
                        yield Chunk(_changes(last))
                    last = rows
        yield Chunk(_changes(last), snapshot["text"], last[-1]["committed_at"] if last else None)

    def _finish(self) -> None:
        chunks, self._chunks = getattr(self, "_chunks", None), None
        if chunks is not None:
            chunks.close()

    def _empty(self, half: str, position: str) -> None:
        """Under a lock that no writer passes: what is there now is all there will be."""
        conn = self._source
        table = sql.Identifier("vitrina_capture", half)
        unread = sql.SQL("SELECT count(*) AS n FROM {} WHERE NOT pg_visible_in_snapshot(xid, %s::pg_snapshot)")
        with suppress(RetryableError), translated(), conn.transaction():
            conn.execute("SET LOCAL lock_timeout = '100ms'")
            conn.execute(sql.SQL("LOCK TABLE {} IN ACCESS EXCLUSIVE MODE").format(table))
            row: Any = conn.execute(unread.format(table), [position]).fetchone()
            if not row["n"]:
                conn.execute(sql.SQL("TRUNCATE {}").format(table))
                conn.execute(SQL["emptied"], {"position": position})


def _changes(rows: list[DictRow]) -> list[Change]:
    return [
        Change(r["xid"], None, r["committed_at"].isoformat(), r["relation"], r["op"], r["old_image"], r["new_image"])
        for r in rows
    ]

"""Appending to the change log: segments that are filled, then dropped whole. Nothing is ever deleted from a head.

An append locks the capture's row and checks the epoch, so there is one writer at a time and a zombie writes nothing.
A transaction that is larger than a chunk is appended in several, above `last_id`, where no follower looks; the last
one moves `last_id` over all of them, together with the position.

An append does not wait for the disk: a crash of this server may take what is visible, and with it everything after it,
marts and their positions too. So the source is told of nothing before a later commit has waited (`Engine._renew`).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from datetime import UTC, datetime
from itertools import pairwise
from typing import LiteralString

from psycopg import Cursor, Transaction, sql
from psycopg.rows import DictRow
from psycopg.types.json import Jsonb

from vitrina.capture.changes import REWRITTEN, Change, Chunk
from vitrina.domain.errors import LeaseLost, RetryableError
from vitrina.failpoints import reach
from vitrina.meta.db import Connection, fetch_all, fetch_one, queries, stall_limit, translated
from vitrina.meta.repos.captures import Capture, CaptureRepo
from vitrina.meta.repos.marks import CAPTURE, Mark

SQL = queries("captures")
SCHEMA = "etl_log"
SEGMENT_ROWS = 100_000
FEW = 50  # changes that a statement takes along; more are copied
COPY = sql.SQL(
    "COPY {} (id, xid, lsn, committed_at, relation, op, old_image, new_image) FROM STDIN"  # the order of Change
)
INSERT = sql.SQL(
    "INSERT INTO {} (id, xid, lsn, committed_at, relation, op, old_image, new_image)"
    " SELECT * FROM (VALUES {}) AS v WHERE EXISTS ({})"
)
HELD: LiteralString = "SELECT FROM etl.etl_captures WHERE source = {source} AND owner = {owner} AND epoch = {epoch}"
ROW = sql.SQL('(%s::bigint, %s::text::xid8, %s::pg_lsn, %s::timestamptz, %s::text, %s::"char", %s::jsonb, %s::jsonb)')


class LogWriter:
    """The one writer of a source's log, for as long as its lease holds."""

    def __init__(self, conn: Connection, held: Capture, lease_seconds: float, max_rows: int) -> None:
        self._conn = conn
        self._held = held
        self._guard = CaptureRepo(conn, lease_seconds).guard(held)
        self._stall = stall_limit(lease_seconds)
        self._max_rows = max_rows
        self._next_id = held.last_id + 1
        self._segment: tuple[int, str] | None = None
        self._recent: dict[str, int] = {}  # the newest change of each relation, of what is not published yet

    def start(self) -> None:
        """Forget what a predecessor appended and did not publish: at most one transaction of its source."""
        with self._transaction():
            last = self._require(self._lock())
            segments = fetch_all(self._conn, SQL["segments"], {"source": self._held.source})
            while segments and segments[-1]["first_id"] > last + 1:
                self._conn.execute(sql.SQL("DROP TABLE {}").format(_table(segments[-1]["name"])))
                self._conn.execute(SQL["forget_segment"], {"name": segments.pop()["name"]})
            if segments:
                newest = _table(segments[-1]["name"])
                self._conn.execute(sql.SQL("DELETE FROM {} WHERE id > %s").format(newest), [last])
        self._next_id = last + 1
        self._segment = (segments[-1]["first_id"], segments[-1]["name"]) if segments else None

    def append(self, chunk: Chunk, fingerprints: Mapping[str, str] | None = None) -> None:
        """Store a chunk; one with a position is published with all before it. LeaseLost: nothing is stored."""
        reach("before append")
        after = self._next_id + len(chunk.changes)
        recent = self._recent | {change.relation: n for n, change in enumerate(chunk.changes, self._next_id)}
        with self._transaction() as few_round_trips:
            with few_round_trips if len(chunk.changes) <= FEW else nullcontext():
                held = self._lock()
                segment = self._segment_for(self._next_id)
                self._put(segment[1], chunk.changes)
                if chunk.position is not None:
                    self._publish(chunk, after - 1, recent, fingerprints)
            self._require(held)
            reach("in append")
        reach("after append")
        self._next_id, self._segment = after, segment
        self._recent = recent if chunk.position is None else {}

    def tidy(self) -> int:
        """Drop the segments that all followers have passed, and the oldest beyond the limit; how many."""
        passed = fetch_one(self._conn, SQL["passed"], {"source": self._held.source})
        last = self._next_id - 1
        keep_after = last if passed is None or passed["id"] is None else passed["id"]
        keep_after = max(keep_after, last - self._max_rows)
        segments = fetch_all(self._conn, SQL["segments"], {"source": self._held.source})
        dropped = 0
        for segment, later in pairwise(segments):
            if later["first_id"] - 1 > keep_after or not self._drop(segment["name"], later["first_id"]):
                break
            dropped += 1
        return dropped

    @contextmanager
    def _transaction(self) -> Iterator[AbstractContextManager[object]]:
        """Of this source's one writer: the server ends it if we stall. Gives what makes one round trip of several."""
        mark = Mark(self._conn, self._held.source, CAPTURE)
        with translated(), ExitStack() as stack:
            with self._conn.pipeline():
                stack.enter_context(Transaction(self._conn))  # outlives the pipeline
                self._conn.execute(SQL["begin_append"], {"stall": self._stall})
                mark.ask()
            mark.leave()
            yield self._conn.pipeline()

    def _lock(self) -> Cursor[DictRow]:
        """The capture's row, until the append ends."""
        return self._conn.execute(SQL["hold"], self._guard)

    def _require(self, held: Cursor[DictRow]) -> int:
        """The last id, or a LeaseLost."""
        row = held.fetchone()
        if row is None:
            raise LeaseLost(f"the capture of {self._held.source!r} is another runner's now")
        return int(row["last_id"])

    def _segment_for(self, first_id: int) -> tuple[int, str]:
        """The newest segment, or a new one when it is full."""
        if self._segment and first_id - self._segment[0] < SEGMENT_ROWS:
            return self._segment
        name = f"{self._held.slot}_{first_id}"
        self._conn.execute(
            sql.SQL(
                """
                CREATE TABLE {} (
                    id           bigint PRIMARY KEY,
                    xid          xid8,
                    lsn          pg_lsn,
                    committed_at timestamptz NOT NULL,
                    relation     text NOT NULL,
                    op           "char" NOT NULL,
                    old_image    jsonb,
                    new_image    jsonb
                ) WITH (autovacuum_enabled = false)
                """
            ).format(_table(name))
        )
        params = {"source": self._held.source, "first_id": first_id, "name": name}
        self._conn.execute(SQL["add_segment"], params)
        return first_id, name

    def _put(self, segment: str, changes: Sequence[Change]) -> None:
        table = _table(segment)
        if not changes:
            return
        if len(changes) <= FEW:
            values = [value for number, change in enumerate(changes, self._next_id) for value in (number, *change)]
            rows = sql.SQL(", ").join([ROW] * len(changes))
            held = sql.SQL(HELD).format(**{name: sql.Literal(value) for name, value in self._guard.items()})
            self._conn.execute(INSERT.format(table, rows, held), values)
            return
        with self._conn.cursor().copy(COPY.format(table)) as copy:
            for number, change in enumerate(changes, self._next_id):
                copy.write_row((number, *change))

    def _publish(
        self, chunk: Chunk, last_id: int, recent: Mapping[str, int], fingerprints: Mapping[str, str] | None
    ) -> None:
        params = {
            "last_id": last_id,
            "recent": Jsonb(dict(recent)),
            "position": chunk.position,
            "committed_at": chunk.committed_at,
            "fingerprints": Jsonb(dict(fingerprints)) if fingerprints is not None else None,
        }
        self._conn.execute(SQL["publish"], self._guard | params)

    def _drop(self, name: str, log_start: int) -> bool:
        """False: somebody reads it just now, or the lease is lost; the next time will do."""
        with suppress(RetryableError), translated(), self._conn.transaction():
            self._conn.execute("SET LOCAL lock_timeout = '500ms'")
            self._conn.execute(sql.SQL("LOCK TABLE {} IN ACCESS EXCLUSIVE MODE").format(_table(name)))
            params = self._guard | {"name": name, "log_start": log_start}
            if self._conn.execute(SQL["drop_segment"], params).fetchone() is None:
                return False
            self._conn.execute(sql.SQL("DROP TABLE {}").format(_table(name)))
            return True
        return False


def rewritten(relations: Iterable[str]) -> list[Change]:
    """Entries that say: these relations are no longer what they were."""
    now = datetime.now(UTC).isoformat()
    return [Change(None, None, now, relation, REWRITTEN, None, None) for relation in relations]


def drop_log(conn: Connection, source: str) -> None:
    """All segments of a source, when its capture is removed."""
    for segment in fetch_all(conn, SQL["segments"], {"source": source}):
        conn.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(_table(segment["name"])))


def _table(name: str) -> sql.Identifier:
    return sql.Identifier(SCHEMA, name)

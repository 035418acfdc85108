"""Capture from the WAL: a logical slot, streamed and decoded here.

What is acknowledged is always what is stored; whatever the server sends again is skipped by its position. Changes are
handed on at once while few come, in batches when many do (`tempo.py`), and none before a snapshot of the source
sees it: what waits for a synchronous standby is decoded before anybody can read its rows.
"""

import time
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import takewhile

from vitrina.capture.changes import CHUNK_BYTES, CHUNK_ROWS, Change, Chunk, Columns, ContinuityLost
from vitrina.capture.installation import repair_publication
from vitrina.capture.pgoutput import ROWS, Begin, Commit, Decoder
from vitrina.capture.positions import Snapshot, format_lsn, parse_lsn
from vitrina.capture.slots import begin_slot, make_room
from vitrina.capture.sources import check_place, fingerprints, place
from vitrina.capture.stream import Stream
from vitrina.capture.tempo import Tempo
from vitrina.meta.db import Connection, connect, fetch_all, fetch_one, queries
from vitrina.meta.repos.captures import Capture, Figures, Origin

SQL = queries("capture_wal")
ALIVE_SECONDS = 5.0  # how often the server hears from us, well within wal_sender_timeout


@dataclass(frozen=True)
class Ended:
    """A transaction that is whole in the buffer: its rows are those before `rows`."""

    xid: int
    end_lsn: int
    committed_at: datetime
    rows: int


@dataclass
class Buffer:
    """What has been decoded and not handed on."""

    rows: list[Change] = field(default_factory=list)
    ended: list[Ended] = field(default_factory=list)
    size: int = 0

    @property
    def is_full(self) -> bool:
        """Time to hand on what there is, whole or not."""
        return len(self.rows) >= CHUNK_ROWS or self.size >= CHUNK_BYTES

    def take(self, transactions: int) -> tuple[list[Change], Ended]:
        """The first whole transactions, out of the buffer: their rows, and the last one's end."""
        last = self.ended[transactions - 1]
        taken, self.rows = self.rows[: last.rows], self.rows[last.rows :]
        self.ended = [replace(later, rows=later.rows - last.rows) for later in self.ended[transactions:]]
        self.size = self.size if self.rows else 0
        return taken, last

    def take_all(self) -> list[Change]:
        """All rows, none of whose transactions has ended."""
        taken, self.rows, self.size = self.rows, [], 0
        return taken


class WalTap:
    """See `Tap`."""

    setup = "wal"

    def __init__(self, conninfo: str) -> None:
        self._conninfo = conninfo
        self._conn: Connection | None = None
        self._stream: Stream | None = None
        self._decoder = Decoder()

    def open(self, capture: Capture) -> None:
        """Check that nothing has been lost, and stream."""
        self.close()
        assert capture.position is not None
        self._capture, self._stored = capture, parse_lsn(capture.position)
        self._buffer, self._tempo, self._skipping = Buffer(), Tempo(), False
        self._begin: Begin | None = None
        self._row: tuple[int, str, str] = (0, "", "")  # what its rows have in common: xid, lsn, time
        self._flushed = self._alive = 0.0
        self._conn = connect(self._conninfo, "capture")
        check_place(self._conn, capture)
        self.look()
        self._check_slot()
        self._snapshot = self._look_again()
        types = frozenset(row["oid"] for row in fetch_all(self._conn, SQL["json_types"]))
        self._decoder = Decoder(types, self._decoder.wanted)
        make_room(self._conn, capture.read_slot, is_given=capture.given_slot is not None)
        self._stream = self._start(capture)

    def poll(self, seconds: float) -> Chunk | None:
        """Read and decode for a while; hand on a batch when one is due."""
        deadline = time.monotonic() + seconds
        while True:
            self._read()
            chunk = self._due()
            now = time.monotonic()
            if chunk or now >= deadline:
                return chunk
            if self._buffer.ended or self._buffer.is_full:
                # Let more come, or become visible, rather than wake for each message.
                time.sleep(min(deadline - now, max(self._tempo.pause - (now - self._flushed), 0.0)))
            else:
                self._streaming.wait(min(deadline - now, 1.0))

    def want(self, columns: Columns | None) -> bool:
        """Others are not even decoded."""
        self._decoder.want(columns)
        return True

    def acknowledge(self, position: str) -> None:
        """Only ever what is stored."""
        self._stored = parse_lsn(position)
        self._alive = time.monotonic()
        self._streaming.acknowledge(self._stored)

    def idle_position(self) -> str | None:
        """The server's end, if everything before it is stored."""
        if self._begin or self._buffer.rows or self._buffer.ended:
            return None
        return format_lsn(max(self._stored, self._streaming.server_end))

    def look(self) -> tuple[Figures, dict[str, str]]:
        """The publication, the slot's figures, the fingerprints."""
        capture, conn = self._capture, self._source
        name = {"publication": capture.publication}
        whole = fetch_one(conn, SQL["publication"], name)
        prints = fingerprints(conn, capture)
        if whole is None or not whole["whole"]:
            raise ContinuityLost(f"publication {capture.publication} was " + ("altered" if whole else "dropped"))
        published = {row["name"] for row in fetch_all(conn, SQL["published"], name)}
        missing = sorted(set(capture.tables) & prints.keys() - published)
        if missing:
            raise ContinuityLost(f"publication {capture.publication} no longer has all of {', '.join(missing)}")
        slot = fetch_one(conn, SQL["slot"], {"slot": capture.read_slot})
        if slot is None:
            raise ContinuityLost(f"replication slot {capture.read_slot} was dropped")
        return Figures(slot["lag_bytes"], slot["safe_wal_size"], slot["wal_status"]), prints

    def tidy(self, position: str) -> None:
        """Nothing to do: the server drops the WAL that is acknowledged by itself."""

    def reset(self, capture: Capture) -> Origin:
        """Publication and slot anew, where they are missing or of no use."""
        self.close()
        with connect(self._conninfo, "capture") as conn:
            repair_publication(conn, capture)
            position = begin_slot(conn, capture)
            here = place(conn)
            return Origin(position, here["system_identifier"], here["timeline"])

    def close(self) -> None:
        """End both sessions."""
        for session in (self._stream, self._conn):
            if session:
                session.close()
        self._stream = self._conn = None

    @property
    def _source(self) -> Connection:
        assert self._conn is not None
        return self._conn

    @property
    def _streaming(self) -> Stream:
        assert self._stream is not None
        return self._stream

    def _check_slot(self) -> None:
        name = self._capture.read_slot
        slot = fetch_one(self._source, SQL["slot"], {"slot": name})
        if slot is None or slot["wal_status"] == "lost" or slot["plugin"] != "pgoutput":
            raise ContinuityLost(f"replication slot {name} can no longer be read: its WAL was removed")
        if slot["confirmed"] and parse_lsn(slot["confirmed"]) > self._stored:
            raise ContinuityLost(f"replication slot {name} was read by somebody else, up to {slot['confirmed']}")

    def _start(self, capture: Capture) -> Stream:
        stream = Stream(self._conninfo)
        try:
            system, timeline, _ = stream.identify()
            if (system, timeline) != (capture.system_identifier, capture.timeline):
                raise ContinuityLost(f"the source is another server now: {system}, timeline {timeline}")
            stream.start(capture.read_slot, capture.publication, self._stored)
        except BaseException:
            stream.close()
            raise
        return stream

    def _read(self) -> None:
        """Decode what has arrived, unless the buffer is full."""
        if time.monotonic() - self._alive > ALIVE_SECONDS:
            self.acknowledge(format_lsn(self._stored))
        if self._buffer.is_full:
            return
        for message in self._streaming.messages():
            if message:
                self._take_in(message)
                if self._buffer.is_full:
                    return

    def _take_in(self, message: bytes) -> None:
        if message[0] in ROWS:
            if not self._skipping:
                self._buffer.rows.append(Change._make(self._row + self._decoder.row(message)))
                self._buffer.size += len(message)
            return
        event = self._decoder.decode(message)
        if isinstance(event, Begin):
            # A commit that starts before a stored end has ended before it.
            self._skipping = event.lsn < self._stored
            self._begin = event
            self._row = (self._snapshot.widen(event.xid), format_lsn(event.lsn), event.committed_at.isoformat())
        elif isinstance(event, Commit):
            self._end(event)
        elif not self._skipping:
            self._buffer.rows.extend(Change._make(self._row + row) for row in event)
            self._buffer.size += len(message)

    def _end(self, commit: Commit) -> None:
        begin, self._begin = self._begin, None
        if begin and not self._skipping:
            ended = Ended(self._row[0], commit.end_lsn, begin.committed_at, len(self._buffer.rows))
            self._buffer.ended.append(ended)

    def _due(self) -> Chunk | None:
        buffer = self._buffer
        if buffer.ended and (buffer.is_full or time.monotonic() - self._flushed >= self._tempo.pause):
            return self._visible()
        if buffer.is_full and not buffer.ended:  # the middle of a large transaction
            return Chunk(buffer.take_all())
        return None

    def _visible(self) -> Chunk | None:
        """The transactions, in commit order, up to the first that a snapshot taken now does not see."""
        self._flushed = time.monotonic()
        self._snapshot = self._look_again()
        seen = list(takewhile(lambda ended: self._snapshot.sees(ended.xid), self._buffer.ended))
        if not seen:
            self._tempo.not_seen()
            return None
        self._tempo.handed_on(len(seen))
        changes, last = self._buffer.take(len(seen))
        return Chunk(changes, format_lsn(last.end_lsn), last.committed_at)

    def _look_again(self) -> Snapshot:
        row = fetch_one(self._source, SQL["snapshot"])
        assert row is not None
        return Snapshot.parse(row["snapshot"])

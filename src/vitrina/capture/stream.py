"""A replication session: START_REPLICATION, messages in, positions back. psycopg has no API for it; libpq has."""

import select
import struct
import time
from collections.abc import Iterator

import psycopg
from psycopg import pq, sql

from vitrina.capture.changes import ContinuityLost
from vitrina.capture.positions import format_lsn
from vitrina.domain.errors import DatabaseLost, RetryableError, VitrinaError
from vitrina.meta.db import PINNED, connect, translated

MICROS_TO_2000 = 946_684_800_000_000
WAL_DATA = ord("w")
PAYLOAD = 25  # of a w message: after its type, two positions and a time
FINE = (pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK, pq.ExecStatus.COPY_BOTH)
GONE = ("42704", "55000")  # no such slot or publication; a slot that can no longer be read

_w_end = struct.Struct(">Q").unpack_from
_status = struct.Struct(">cQQQqB").pack


class Stream:
    """One walsender. Messages are read without blocking; what arrives while nobody reads stays with the server."""

    def __init__(self, conninfo: str) -> None:
        self._conn = connect(conninfo, "capture", replication="database")
        self._conn.add_notice_handler(self._notice)
        self._pg = self._conn.pgconn
        self._warning: str | None = None
        self.server_end = 0  # everything before it has been sent
        for name, value in PINNED.items():
            self._command(f"SET {name} = '{value}'")

    def identify(self) -> tuple[str, int, str]:
        """System identifier, timeline and position of the server."""
        result = self._command("IDENTIFY_SYSTEM")
        values = [(result.get_value(0, n) or b"").decode() for n in range(3)]
        return values[0], int(values[1]), values[2]

    def start(self, slot: str, publication: str, lsn: int) -> None:
        """Stream what comes after `lsn`; ContinuityLost if the slot is gone."""
        self._command(
            f"START_REPLICATION SLOT {slot} LOGICAL {format_lsn(lsn)}"
            f" (proto_version '1', publication_names {_quoted(publication)})"
        )

    def messages(self) -> Iterator[bytes]:
        """What has arrived: pgoutput messages, one by one; an empty one for a keepalive."""
        with translated():
            self._pg.consume_input()
        while True:
            size, data = self._pg.get_copy_data(1)
            if self._warning:
                raise ContinuityLost(f"the source said: {self._warning}")
            if size == 0:
                return
            if size < 0:
                raise self._ended()
            if data[0] == WAL_DATA:
                yield bytes(data[PAYLOAD:])
            else:
                self.server_end = max(self.server_end, _w_end(data, 1)[0])
                yield b""

    def wait(self, seconds: float) -> None:
        """Until something arrives or the time is up."""
        self._ready(select.POLLIN, seconds)

    def acknowledge(self, lsn: int) -> None:
        """Tell the server how far we are; it may forget what is before, and knows that we live."""
        now = time.time_ns() // 1000 - MICROS_TO_2000
        with translated():
            self._pg.put_copy_data(_status(b"r", lsn, lsn, lsn, now, 0))
            self._pg.flush()

    def close(self) -> None:
        """End the session; the slot stays."""
        self._conn.close()

    def _command(self, command: str) -> pq.abc.PGresult:
        with translated():
            self._pg.send_query(command.encode())
            while self._pg.flush():
                self._ready(select.POLLOUT, 1)
            result = self._result()
            if result is None or result.status not in FINE:
                raise _error(result, self._pg)
            while result.status != pq.ExecStatus.COPY_BOTH and self._result() is not None:
                pass
        return result

    def _result(self) -> pq.abc.PGresult | None:
        """Waiting here and not in libpq, which would stop every other thread of the process."""
        while self._pg.is_busy():
            self._ready(select.POLLIN, 1)
            self._pg.consume_input()
        return self._pg.get_result()

    def _ready(self, event: int, seconds: float) -> None:
        poll = select.poll()
        poll.register(self._pg.socket, event)
        poll.poll(max(0.0, seconds) * 1000)

    def _ended(self) -> VitrinaError:
        return _error(self._result(), self._pg)

    def _notice(self, diagnostic: psycopg.errors.Diagnostic) -> None:
        """A publication that is not there is only a warning, and its changes are skipped silently."""
        if diagnostic.sqlstate in GONE:
            self._warning = diagnostic.message_primary


def _quoted(publication: str) -> str:
    """A list of one name, as a literal."""
    return sql.Literal(sql.Identifier(publication).as_string(None)).as_string(None)


def _error(result: pq.abc.PGresult | None, pgconn: pq.abc.PGconn) -> VitrinaError:
    if result is None or result.status in (pq.ExecStatus.COMMAND_OK, pq.ExecStatus.COPY_IN):
        return DatabaseLost(
            "the source ended the replication stream: " + (pgconn.get_error_message().strip() or "it stops")
        )
    message = result.get_error_message().strip()
    state = (result.error_field(pq.DiagnosticField.SQLSTATE) or b"").decode()
    if state in GONE:
        return ContinuityLost(message)
    return RetryableError(message) if state else DatabaseLost(message)

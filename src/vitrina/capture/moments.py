"""A moment of a source, and whether its log has everything that was visible then."""

from dataclasses import dataclass
from typing import Self

from vitrina.capture.positions import Snapshot, parse_lsn
from vitrina.meta.db import Connection, fetch_one, queries
from vitrina.meta.repos.captures import Capture

SQL = queries("capture_source")


@dataclass(frozen=True)
class Moment:
    """No earlier than what was read before it was taken, on the same server."""

    snapshot: Snapshot
    lsn: int

    @classmethod
    def take(cls, conn: Connection) -> Self | None:
        """Now; None on a standby, which is no measure of what its primary has captured.

        A transaction is visible after its commit is in the WAL, flushed or not: where the WAL ends for who inserts.
        """
        row = fetch_one(conn, SQL["moment"])
        assert row is not None
        return cls(Snapshot.parse(row["snapshot"]), parse_lsn(row["lsn"])) if row["lsn"] else None

    def is_passed(self, capture: Capture) -> bool:
        """Whether the log, up to the last id that the capture shows, has all transactions that were visible."""
        if capture.position is None:
            return False
        if capture.kind == "wal":
            return parse_lsn(capture.position) >= self.lsn
        position = Snapshot.parse(capture.position)
        return position.xmax >= self.snapshot.xmax and not any(map(self.snapshot.sees, position.open))

"""Places in a source's history: LSNs, snapshots, and transaction ids that do not wrap."""

from dataclasses import dataclass
from typing import Self


def parse_lsn(text: str) -> int:
    """16/B374D848 as a number."""
    high, low = text.split("/")
    return int(high, 16) << 32 | int(low, 16)


def format_lsn(lsn: int) -> str:
    """A number as Postgres writes it."""
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"


@dataclass(frozen=True)
class Snapshot:
    """pg_snapshot: which transactions are visible."""

    xmin: int
    xmax: int
    open: frozenset[int]

    @classmethod
    def parse(cls, text: str) -> Self:
        """From xmin:xmax:xip,xip."""
        xmin, xmax, xip = text.split(":")
        return cls(int(xmin), int(xmax), frozenset(map(int, filter(None, xip.split(",")))))

    def sees(self, xid: int) -> bool:
        """As pg_visible_in_snapshot."""
        return xid < self.xmax and xid not in self.open

    def widen(self, xid: int) -> int:
        """A 32-bit transaction id with its epoch: the one nearest to this snapshot's end."""
        distance = (xid - self.xmax) & 0xFFFFFFFF
        return self.xmax + (distance - (1 << 32) if distance >= 1 << 31 else distance)

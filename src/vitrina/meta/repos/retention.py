"""Retention: what is old is forgotten, in small transactions, by one runner at a time."""

import time
from collections import Counter
from dataclasses import dataclass

from vitrina.meta.db import Connection, fetch_one, queries, transaction
from vitrina.meta.repos.marks import TURN, Mark

SQL = queries("retention")
KINDS = ("events", "alerts", "requests", "runs", "runners", "latency", "managed")
DAY = 86400.0
BATCH = 1_000
NEWEST_RUNS = 20  # of each pipeline, kept however old


@dataclass(frozen=True)
class Ages:
    """For how many days each sort of row is kept."""

    events: float = 14
    runs: float = 90
    audit: float = 365
    versions: float = 365
    latency: float = 7


@dataclass(frozen=True)
class RetentionRepo:
    """Every table of the meta-store that grows with time."""

    conn: Connection
    ages: Ages

    def forget(self, seconds: float = 2.0) -> Counter[str]:
        """What is too old, for so long at most; how many rows of each sort. A backlog goes in several turns."""
        forgotten: Counter[str] = Counter()
        deadline = time.monotonic() + seconds
        for kind in KINDS:
            while time.monotonic() < deadline:
                rows = self._forget_some(kind)
                forgotten += rows
                if max(rows.values(), default=0) < BATCH:
                    break
        return forgotten

    def _forget_some(self, kind: str) -> Counter[str]:
        """One batch of a kind; nothing if another runner is at it."""
        params = {f"{name.removesuffix('s')}_seconds": days * DAY for name, days in vars(self.ages).items()}
        with transaction(self.conn, {"lock_timeout": "1s"}):
            if not Mark(self.conn, "vitrina retention", TURN).is_my_turn():
                return Counter()
            found = fetch_one(self.conn, SQL[kind], params | {"most": BATCH, "newest": NEWEST_RUNS})
        return Counter(found)

"""The barrier: a transaction that wrote before its table was captured may commit after a comparison's snapshot, and
would be in neither. So each that is open when a mart begins to go live is waited for, and none that is newer."""

from typing import Any

from vitrina.meta.db import Connection, fetch_one, queries

SQL = queries("capture_source")
LOOKS = 2  # a session that prepares its transaction may be missed between the two halves of one look


def draw(conn_source: Connection) -> str:
    """An id above those of all transactions that are open at the source now. Needs a session in autocommit."""
    row = fetch_one(conn_source, SQL["barrier"])
    assert row is not None
    return str(row["xid"])


def holder_of(conn_source: Connection, barrier: str) -> dict[str, Any] | None:
    """Who has the oldest transaction below the barrier that could have written to this database; empty: somebody whom
    the role may not see. None: all have ended."""
    for _ in range(LOOKS):
        state: Any = fetch_one(conn_source, SQL["behind_barrier"], {"barrier": barrier})
        if state["passed"]:
            return None
        if state["holder"] or not state["sees_all"]:
            return dict(state["holder"] or {})
    return None

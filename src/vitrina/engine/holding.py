"""A mart of somebody else's while a statement over it is planned and run: since the run began no code was added to it,
and none is meanwhile.

Whoever adds statistics, an index or a partition needs a lock that only one can have: we have it. So has a VACUUM, which
would end itself for us; as long as the same transaction has it before and after, nobody else had it between.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from psycopg import errors, sql

from vitrina.domain.errors import RetryableError
from vitrina.domain.policy import split_table
from vitrina.engine.sealing import is_sealed
from vitrina.meta.db import Connection, fetch_one, queries, translated

SQL = queries("marts")
LOCK = "LOCK TABLE {} IN {} MODE"
ONLY_OURS, OURS_TOO = sql.SQL("SHARE UPDATE EXCLUSIVE"), sql.SQL("ROW EXCLUSIVE")


@contextmanager
def held(conn: Connection, target: str, trusted: Sequence[str]) -> Iterator[None]:
    """A RetryableError, before or after, if code was or may have been added."""
    holders = _lock(conn, target)
    _look(conn, target, trusted)
    yield
    if holders:
        conn.execute("SET LOCAL search_path = pg_catalog, pg_temp")  # whatever has run
        _look(conn, target, trusted)
        if _holders(conn, target) != holders:
            raise RetryableError(f"{target} may have been altered just now, as a VACUUM or the like ended; tried again")


def _lock(conn: Connection, target: str) -> list[str]:
    """Who has the lock that only one can have; empty: we. Behind a VACUUM of a part of it, we wait."""
    table = sql.Identifier(*split_table(target))
    with translated():
        try:
            with conn.transaction():
                conn.execute(sql.SQL(LOCK + " NOWAIT").format(table, ONLY_OURS))
                return []
        except errors.LockNotAvailable:
            conn.execute(sql.SQL(LOCK).format(table, OURS_TOO))
        holders = _holders(conn, target)
        if not holders:
            conn.execute(sql.SQL(LOCK).format(table, ONLY_OURS))
        return holders


def _look(conn: Connection, target: str, trusted: Sequence[str]) -> None:
    if is_sealed(conn, target, trusted):
        raise RetryableError(f"code was added to {target} during the run; it is checked anew")


def _holders(conn: Connection, target: str) -> list[str]:
    """By their transactions; empty unless every part of the table has one."""
    schema, table = split_table(target)
    row = fetch_one(conn, SQL["holders"], {"schema": schema, "table": table})
    return list(row["holders"]) if row and row["whole"] else []

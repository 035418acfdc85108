"""Replication slots: made, freed of whoever reads them, dropped."""

import time

from psycopg import sql

from vitrina.domain.errors import RetryableError
from vitrina.meta.db import Connection, fetch_all, fetch_one, queries, translated

SQL = queries("capture_wal")


def create_slot(conn: Connection, slot: str, seconds: float = 10) -> str:
    """A new slot, instead of one there may be: where it starts. Waits for open writers, but not for ever."""
    drop_slot(conn, slot)
    _set_timeout(conn, seconds)
    try:
        row = fetch_one(conn, SQL["create_slot"], {"slot": slot})
    except RetryableError as error:
        holder = fetch_one(conn, SQL["oldest_writer"])
        raise RetryableError(
            f"replication slot {slot} could not be created within {seconds:g} s: {error.message}",
            f"end {holder['holder']}" if holder and holder["holder"] else "try again",
        ) from error
    finally:
        _set_timeout(conn, 0)
    assert row is not None
    return str(row["position"])


def drop_slot(conn: Connection, slot: str) -> None:
    """Whoever reads it; nothing happens if there is none."""
    make_room(conn, slot)
    fetch_all(conn, SQL["drop_slot"], {"slot": slot})


def make_room(conn: Connection, slot: str) -> None:
    """End the session that still reads the slot: a zombie's, since the lease is ours."""
    deadline = time.monotonic() + 5
    while fetch_all(conn, SQL["make_room"], {"slot": slot}):
        if time.monotonic() > deadline:
            raise RetryableError(f"replication slot {slot} is read by another session that does not end")
        time.sleep(0.02)


def _set_timeout(conn: Connection, seconds: float) -> None:
    with translated():
        conn.execute(sql.SQL("SET statement_timeout = {}").format(sql.Literal(int(seconds * 1000))))

"""Replication slots: made, freed of whoever reads them, dropped."""

import time

from psycopg import errors, sql
from psycopg.rows import DictRow

from vitrina.domain.errors import ConfigError, RetryableError, VitrinaError
from vitrina.meta.db import Connection, fetch_all, fetch_one, queries, translated
from vitrina.meta.repos.captures import Capture

SQL = queries("capture_wal")
PATIENCE_SECONDS = 5.0  # with whoever reads a slot


def begin_slot(conn: Connection, capture: Capture) -> str:
    """Where a capture starts: at a new slot of ours, or where the one stands that somebody else has made."""
    return use_slot(conn, capture.given_slot) if capture.given_slot else create_slot(conn, capture.slot)


def use_slot(conn: Connection, slot: str) -> str:
    """Where a slot stands that is not ours; a ConfigError if it is of no use."""
    found = fetch_one(conn, SQL["given_slot"], {"slot": slot})
    wrong = _misfit(found)
    if wrong or found is None:
        raise ConfigError(f"replication slot {slot} {wrong}", _made_anew(slot, found))
    return str(found["confirmed"])


def find_other_reader(conn: Connection, slot: str, *, ours: bool) -> str | None:
    """Who else reads a slot; `ours`: sessions of captures are not meant."""
    row = fetch_one(conn, SQL["reader"], {"slot": slot})
    return None if row is None or (ours and row["ours"]) else str(row["who"])


def create_slot(conn: Connection, slot: str, seconds: float = 10, owner: Connection | None = None) -> str:
    """A new slot, instead of one there may be: where it starts. Waits for open writers, but not for ever."""
    drop_slot(conn, slot)
    _set_timeout(conn, seconds)
    try:
        row = fetch_one(conn, SQL["create_slot"], {"slot": slot})
    except RetryableError as error:
        holder = fetch_one(owner or conn, SQL["oldest_writer"])  # not everybody sees whom it waits for
        raise RetryableError(
            f"replication slot {slot} could not be created within {seconds:g} s: {error.message}",
            f"end {holder['holder']}" if holder and holder["holder"] else "try again",
        ) from error
    finally:
        _set_timeout(conn, 0)
    assert row is not None
    return str(row["position"])


def _misfit(slot: DictRow | None) -> str:
    if slot is None:
        return "does not exist"
    if slot["slot_type"] != "logical":
        return "is a physical one"
    if not slot["here"]:
        return "belongs to another database"
    if slot["plugin"] != "pgoutput" or slot["two_phase"] or slot["temporary"]:
        return "is not a lasting one of pgoutput without two_phase"
    return "was lost: its WAL is gone" if slot["wal_status"] == "lost" else ""


def _made_anew(slot: str, found: DictRow | None) -> str:
    """What is somebody else's is left to them; what is of no use to anybody is made anew."""
    name, create = slot, "SELECT pg_create_logical_replication_slot('{}', 'pgoutput')"
    if found is None:
        said = f"who may read the WAL makes it: {create}"
    elif found["here"]:
        said = f"whoever made it makes it anew: SELECT pg_drop_replication_slot('{slot}'); {create}"
    else:
        name, said = f"{slot}_2", f"who may read the WAL makes another, for --slot: {create}"
    return f"{said.format(name)}, in the source's database"


def drop_slot(conn: Connection, slot: str) -> None:
    """Whoever reads it, and however soon it comes back to it; nothing happens if there is none."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        make_room(conn, slot)
        try:
            fetch_all(conn, SQL["drop_slot"], {"slot": slot})
        except VitrinaError as error:
            if not isinstance(error.__cause__, errors.ObjectInUse) or time.monotonic() > deadline:
                raise
        else:
            return


def make_room(conn: Connection, slot: str, *, is_given: bool = False) -> None:
    """End the session that still reads the slot: a zombie's, since the lease is ours.

    Of a slot that somebody else made, another program may be the reader, which is left alone.
    """
    if is_given and (other := find_other_reader(conn, slot, ours=True)):
        remedy = "end that session, or give this capture a slot of its own: vitrina capture remove, then install"
        raise RetryableError(f"replication slot {slot} is read by {other}", remedy)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while fetch_all(conn, SQL["make_room"], {"slot": slot}):
        if time.monotonic() > deadline:
            raise RetryableError(f"replication slot {slot} is read by another session that does not end")
        time.sleep(0.02)


def _set_timeout(conn: Connection, seconds: float) -> None:
    with translated():
        conn.execute(sql.SQL("SET statement_timeout = {}").format(sql.Literal(int(seconds * 1000))))

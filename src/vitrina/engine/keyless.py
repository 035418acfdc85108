"""A mart that this run has made, without its key for a statement: built afterwards, from sorted rows, it costs a third.

All of it is one transaction, so nobody ever sees the mart without its key: who looks at it meanwhile waits. Whoever has
put something on the key since the mart was made, or is looking at it just now, has it stay.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from psycopg import errors, sql

from vitrina.engine.mart import Mart
from vitrina.meta.db import Connection, fetch_one, queries

SQL = queries("marts")
IN_THE_WAY = (errors.LockNotAvailable, errors.DependentObjectsStillExist)


@contextmanager
def without_key(conn: Connection, mart: Mart) -> Iterator[None]:
    """For a statement that fills it; a UniqueViolation or NotNullViolation comes when the key is built."""
    key = _dropped(conn, mart) if mart.is_new and mart.seal is None and mart.watched is None else None
    yield
    if key:
        columns = sql.SQL(", ").join(map(sql.Identifier, mart.key))
        text = sql.SQL("ALTER TABLE {} ADD CONSTRAINT {} PRIMARY KEY ({})")
        conn.execute(text.format(mart.identifier, key, columns))


def _dropped(conn: Connection, mart: Mart) -> sql.Identifier | None:
    """The name of the key that is gone now; None where it has to stay."""
    try:
        with conn.transaction():
            conn.execute(sql.SQL("LOCK TABLE {} IN ACCESS EXCLUSIVE MODE NOWAIT").format(mart.identifier))
            found = fetch_one(conn, SQL["own_key"], {"schema": mart.schema, "table": mart.table})
            if found is None:
                return None
            name = sql.Identifier(found["name"])
            conn.execute(sql.SQL("ALTER TABLE {} DROP CONSTRAINT {}").format(mart.identifier, name))
            return name
    except IN_THE_WAY:
        return None

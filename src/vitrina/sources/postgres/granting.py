"""What a reader is refused, with what has to be granted and by whom."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from psycopg import errors, pq, sql

from vitrina.domain.errors import ConfigError
from vitrina.domain.pipeline import WAREHOUSE
from vitrina.meta.db import Connection, fetch_all, queries
from vitrina.meta.refusals import quoted

SQL = queries("sources")
REFUSED = re.compile(r"permission denied for (schema|table|view|materialized view|foreign table) (.+)")


@contextmanager
def naming_grants(conn: Connection, source: str) -> Iterator[None]:
    """An error that names the thing gets its remedy."""
    try:
        yield
    except ConfigError as error:
        if isinstance(error.__cause__, errors.InsufficientPrivilege) and not error.remedy:
            error.remedy = _remedy(conn, error.message, source)
        raise


def _remedy(conn: Connection, said: str, source: str) -> str:
    """Where the server speaks another language, at least who has to let whom."""
    role = conn.info.user
    found = REFUSED.search(said)
    if not found:
        return f"let {role} read it at source {source}"
    right = "USAGE ON SCHEMA" if found[1] == "schema" else "SELECT ON"
    closed = quoted(found[2]) if found[1] == "schema" else _qualified(conn, found[2])
    grant = f"its owner at source {source} has to run: GRANT {right} {closed} TO {quoted(role)}"
    return f"{grant}; or, as its owner: vitrina roles" if source == WAREHOUSE else grant


def _qualified(conn: Connection, table: str) -> str:
    """The server names it alone; with its schema, where only one can be meant."""
    if conn.info.transaction_status != pq.TransactionStatus.IDLE:
        return quoted(table)
    found = fetch_all(conn, SQL["closed"], {"table": table})
    return sql.Identifier(found[0]["schema"], table).as_string(None) if len(found) == 1 else quoted(table)

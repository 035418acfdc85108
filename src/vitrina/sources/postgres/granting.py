"""What a reader is refused, with what has to be granted and by whom."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from psycopg import errors

from vitrina.domain.errors import ConfigError
from vitrina.domain.pipeline import WAREHOUSE
from vitrina.meta.db import Connection
from vitrina.meta.refusals import quoted

REFUSED = re.compile(r"permission denied for (schema|table|view|materialized view|foreign table) (.+)")


@contextmanager
def naming_grants(conn: Connection, source: str) -> Iterator[None]:
    """An error that names the thing gets its remedy."""
    try:
        yield
    except ConfigError as error:
        if isinstance(error.__cause__, errors.InsufficientPrivilege) and not error.remedy:
            error.remedy = _remedy(error.message, conn.info.user, source)
        raise


def _remedy(said: str, role: str, source: str) -> str:
    """Where the server speaks another language, at least who has to let whom."""
    found = REFUSED.search(said)
    if not found:
        return f"let {role} read it at source {source}"
    right = "USAGE ON SCHEMA" if found[1] == "schema" else "SELECT ON"
    grant = f"its owner at source {source} has to run: GRANT {right} {found[2]} TO {quoted(role)}"
    return f"{grant}; or, as its owner: vitrina roles" if source == WAREHOUSE else grant

"""A right that a role needs: how it is given, whether it is there, and what is not possible without it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from psycopg import sql

from vitrina.meta.db import Connection, queries

READER, RUNNER, API, CAPTURE = "vitrina_reader", "vitrina_runner", "vitrina_api", "vitrina_capture"
ALL = (READER, RUNNER, API, CAPTURE)  # who sign in
WRITER = "vitrina_writer"  # as whom code of somebody's own on a mart runs; nobody signs in as it
STANDS_FOR = (READER, RUNNER, WRITER)  # whoever installs may act as them

SQL = queries("roles")

Statement: TypeAlias = sql.SQL | sql.Composed


@dataclass(frozen=True)
class Right:
    """Given by one text, whole or not at all."""

    about: str
    statement: Statement
    there: sql.Composable | None  # an expression that says so; None: it is given each time
    without: str = "nothing of Vitrina can sign in by itself"
    who: str = "who may"
    essential: bool = False  # the roles are of no use without it
    creates: str = ""  # the role that it makes


@dataclass(frozen=True)
class Needs:
    """The schemas of the settings."""

    sources: Sequence[str]
    marts: Sequence[str]


def is_there(conn: Connection, right: Right) -> bool | None:
    """None: it cannot be seen."""
    if right.there is None:
        return None
    row = conn.execute(sql.SQL("SELECT coalesce({}, false) AS yes").format(right.there)).fetchone()
    return bool(row and row["yes"])


def exists(role: str) -> sql.Composed:
    """An expression that says whether there is that role."""
    return sql.SQL("EXISTS (SELECT FROM pg_roles WHERE rolname = {})").format(sql.Literal(role))


def has_role(who: sql.Composable, role: str, how: str) -> sql.Composed:
    """How both are found by name, a role that is missing has none."""
    return sql.SQL(
        "(SELECT r.rolsuper OR pg_has_role(r.oid, g.oid, {}) FROM pg_roles r, pg_roles g"
        " WHERE r.rolname = {} AND g.rolname = {})"
    ).format(sql.Literal(how), who, sql.Literal(role))

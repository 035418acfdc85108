"""The roles and exactly the rights they need, one by one. Idempotent; what cannot be given is named, the rest given."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from psycopg import errors, sql

from vitrina.meta.db import Connection, translated
from vitrina.meta.repos.marks import TURN, Mark
from vitrina.meta.rights import ALL, API, CAPTURE, READER, RUNNER, WRITER, Needs, Right, is_there
from vitrina.meta.schema_rights import rights
from vitrina.meta.server_rights import of_roles

__all__ = ["ALL", "API", "CAPTURE", "READER", "RUNNER", "WRITER"]
RACES = (errors.UniqueViolation, errors.DuplicateObject, errors.InternalError)  # another database's Vitrina is faster


@dataclass(frozen=True)
class Lack:
    """A right that could not be given: what is not possible without it, and what whoever may has to run."""

    right: Right
    statement: str
    why: str = ""

    @property
    def essential(self) -> bool:
        """Whether the roles are of no use without it."""
        return self.right.essential

    def __str__(self) -> str:
        return f"{self.right.about}: {self.right.without}\n{self.right.who} has to run: {self.statement}"


@dataclass(frozen=True)
class RoleReport:
    """What `ensure_roles` reached."""

    lacks: Sequence[Lack]
    notes: Sequence[str]

    @property
    def separated(self) -> bool:
        """Whether each process can sign in as a role of its own."""
        return not any(lack.essential for lack in self.lacks)

    @property
    def roots(self) -> list[Lack]:
        """Those that do not merely follow from a role that is missing; what is essential first."""
        missing = {lack.right.creates for lack in self.lacks} - {""}
        own = [lack for lack in self.lacks if lack.right.creates or not any(role in lack.statement for role in missing)]
        return sorted(own, key=lambda lack: not lack.essential)


def ensure_roles(conn: Connection, source_schemas: Sequence[str], mart_schemas: Sequence[str]) -> RoleReport:
    """Create the roles and grant what the settings name, as far as this user may; roles that exist are used."""
    needs = Needs(source_schemas, mart_schemas)
    with translated(), conn.transaction():
        Mark(conn, "vitrina roles", TURN).leave()  # one process at a time
        lacks = [lack for right in rights(conn, needs) if (lack := _give(conn, right))]
    return RoleReport(lacks, [*_absent(conn, needs)])


def find_lacking_roles(conn: Connection) -> list[Lack]:
    """Roles and what belongs to the server: looked at and not changed, as far as that can be seen."""
    with translated():
        found = [right for right in of_roles(conn) if is_there(conn, right) is False]
    return [Lack(right, right.statement.as_string(conn)) for right in found]


def may_change(conn: Connection, role: str) -> bool:
    """Whether this user may give the role another password."""
    row = conn.execute(
        """
        SELECT rolsuper OR rolcreaterole AND (current_setting('server_version_num')::integer < 160000
                                              OR pg_has_role(%(role)s, 'MEMBER WITH ADMIN OPTION')) AS may
        FROM pg_roles WHERE rolname = current_user AND to_regrole(%(role)s) IS NOT NULL
        """,
        {"role": role},
    ).fetchone()
    return bool(row and row["may"])


def set_password(conn: Connection, role: str, password: str) -> None:
    """Let a role sign in by password; hashed here, so that no log of the server can show it."""
    with translated():
        conn.execute(password_statement(conn, role, password))


def password_statement(conn: Connection, role: str, password: str) -> sql.Composed:
    """What sets a password, without it."""
    hashed = conn.pgconn.encrypt_password(password.encode(), role.encode(), b"scram-sha-256").decode()
    return sql.SQL("ALTER ROLE {} PASSWORD {}").format(sql.Identifier(role), sql.Literal(hashed))


def _give(conn: Connection, right: Right) -> Lack | None:
    """Whether it took is looked at afterwards: a GRANT by who may not grant can be a mere warning."""
    if is_there(conn, right):
        return None
    why = ""
    try:
        with conn.transaction():
            conn.execute(right.statement)
    except (errors.InsufficientPrivilege, errors.UndefinedObject) as error:
        why = error.diag.message_primary or ""
    except RACES:
        pass
    if is_there(conn, right) or (right.there is None and not why):
        return None
    return Lack(right, right.statement.as_string(conn), why)


def _absent(conn: Connection, needs: Needs) -> Iterator[str]:
    for schema in needs.sources:
        if not conn.execute("SELECT 1 FROM pg_namespace WHERE nspname = %s", [schema]).fetchone():
            yield f"the warehouse has no schema {schema} yet, which VITRINA_ALLOWED_SOURCE_SCHEMAS names"

"""What somebody else has to grant, as a script for psql: for whoever may, on the database of whoever may not."""

from collections.abc import Iterator, Mapping, Sequence
from typing import LiteralString

from psycopg import sql

from vitrina.meta.db import Connection
from vitrina.meta.rights import ALL, SQL, STANDS_FOR, Statement
from vitrina.meta.roles import password_statement
from vitrina.meta.server_rights import of_roles

HEAD = """\
-- What Vitrina needs of the server for database {database}, for whoever may give it: a superuser, or the administrator
-- that a service gives you. To be run there: psql --set ON_ERROR_STOP=1 --dbname {database} --file THIS_FILE
-- Roles that exist are used as they are. What may not be given is left out, and said; running it again changes nothing.
"""
CREATE: LiteralString = "DO $create$ BEGIN IF to_regrole({name}) IS NULL THEN {statement}; END IF; END $create$"
TRY: LiteralString = """\
DO $try$ BEGIN
    {statement};
EXCEPTION WHEN insufficient_privilege THEN
    RAISE NOTICE '%, since you may not: %', {without}, {text};
END $try$"""


def write_script(conn: Connection, schemas: Sequence[str], passwords: Mapping[str, str]) -> Iterator[str]:
    """Statement by statement; passwords hashed. Nothing is changed by it."""
    me, database = sql.Identifier(conn.info.user), sql.Identifier(conn.info.dbname)
    yield HEAD.format(database=database.as_string(conn))
    statements = [*_roles(conn), *_passwords(conn, passwords)]
    create = sql.SQL("GRANT CREATE ON DATABASE {} TO {}").format(database, me)
    statements.append(_tried(conn, create, "the meta-store cannot be made"))
    for schema in schemas:
        statements += _source(conn, schema)
    for statement in statements:
        yield f"{statement.as_string(conn)};"
    for role in (role for role in ALL if role not in passwords):
        yield f"-- unless {role} has a password: \\password {role}"


def _roles(conn: Connection) -> Iterator[Statement]:
    for right in of_roles(conn):
        if right.creates:
            yield sql.SQL(CREATE).format(name=sql.Literal(right.creates), statement=right.statement)
        else:
            yield _tried(conn, right.statement, right.without)


def _passwords(conn: Connection, passwords: Mapping[str, str]) -> Iterator[Statement]:
    for role, password in passwords.items():
        yield password_statement(conn, role, password)


def _source(conn: Connection, schema: str) -> Iterator[Statement]:
    """The tables that there are and will be, whoever makes them; nothing of a schema that does not exist."""
    name = sql.Identifier(schema)
    if not conn.execute(SQL["owner_of"], {"schema": schema}).fetchone():
        return
    for role in STANDS_FOR:
        usage = sql.SQL("GRANT USAGE ON SCHEMA {} TO {}").format(name, sql.Identifier(role))
        yield _tried(conn, usage, f"{role} cannot use schema {schema}")
    tables = sql.SQL("GRANT SELECT ON ALL TABLES IN SCHEMA {} TO vitrina_reader").format(name)
    yield _tried(conn, tables, f"tables of schema {schema} cannot be read")
    for row in conn.execute(SQL["owners"], {"schema": schema}).fetchall():
        text = sql.SQL("ALTER DEFAULT PRIVILEGES FOR ROLE {} IN SCHEMA {} GRANT SELECT ON TABLES TO vitrina_reader")
        made = text.format(sql.Identifier(row["owner"]), name)
        yield _tried(conn, made, f"tables that {row['owner']} makes in {schema} must be granted one by one")


def _tried(conn: Connection, statement: Statement, without: str) -> sql.Composed:
    text = sql.Literal(statement.as_string(conn))
    return sql.SQL(TRY).format(statement=statement, without=sql.Literal(without), text=text)

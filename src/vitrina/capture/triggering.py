"""The log and the triggers at a source: what it takes to have them as they should be."""

from collections.abc import Sequence

from psycopg import sql

from vitrina.capture.changes import Statement
from vitrina.domain.errors import ConfigError
from vitrina.meta.db import Connection, fetch_all, fetch_one, queries

SQL = queries("capture_trigger")
MARK = "Change capture of Vitrina ({}); taken away by: vitrina capture remove"
EVENTS = {
    "insert": "REFERENCING NEW TABLE AS new_rows",
    "update": "REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows",
    "delete": "REFERENCING OLD TABLE AS old_rows",
    "truncate": "",
}


def trigger_statements(conn: Connection, slot: str, tables: Sequence[str], role: str | None) -> list[Statement]:
    """None if all is right already. ALWAYS: also what a replica's or a restoring session writes is captured."""
    statements: list[Statement] = []
    mark = fetch_one(conn, SQL["mark"])
    if mark is None:
        statements += _log_statements(slot)
    elif slot not in mark["mark"]:
        raise ConfigError(
            "schema vitrina_capture belongs to another Vitrina", "remove that capture first, or use --kind wal"
        )
    if role and (mark is None or not _may_read(conn, role)):
        statements.append(_grants(role))
    for row in fetch_all(conn, SQL["unfit"], {"tables": list(tables)}):
        statements += _table_statements(row["member"])
    return statements


def removal_statements(conn: Connection, slot: str, tables: Sequence[str] | None = None) -> list[Statement]:
    """Triggers table by table, each with a short lock of its own; then all the rest, unless only `tables` go."""
    mark = fetch_one(conn, SQL["mark"])
    if mark is None or slot not in mark["mark"]:
        return []
    members = [
        row["name"] for row in fetch_all(conn, SQL["triggers"], {"tables": None if tables is None else list(tables)})
    ]
    drops = "".join(f"DROP TRIGGER IF EXISTS vitrina_{event} ON {{table}}; " for event in EVENTS)
    statements: list[Statement] = [sql.SQL(drops).format(table=sql.SQL(member)) for member in members]
    return [*statements, sql.SQL("DROP SCHEMA vitrina_capture CASCADE")] if tables is None else statements


def _log_statements(slot: str) -> list[Statement]:
    return [
        sql.SQL(SQL["create_schema"]),
        sql.SQL("COMMENT ON SCHEMA vitrina_capture IS {}").format(sql.Literal(MARK.format(slot))),
        sql.SQL(SQL["create_log"]),
        sql.SQL(SQL["create_function"]),
    ]


def _table_statements(member: str) -> list[Statement]:
    """One transaction a table: what was half there goes first. `member` is quoted already, by the server."""
    table = sql.SQL(member)
    parts: list[Statement] = []
    for event, tables in EVENTS.items():
        name = sql.Identifier(f"vitrina_{event}")
        text = sql.SQL(
            "DROP TRIGGER IF EXISTS {name} ON {table};\n"
            "CREATE TRIGGER {name} AFTER {event} ON {table} {rows}"
            " FOR EACH STATEMENT EXECUTE FUNCTION vitrina_capture.record();\n"
            "ALTER TABLE {table} ENABLE ALWAYS TRIGGER {name}"
        )
        parts.append(text.format(name=name, table=table, event=sql.SQL(event.upper()), rows=sql.SQL(tables)))
    return [sql.SQL(";\n").join(parts)]


def _grants(role: str) -> sql.Composed:
    return sql.SQL(
        "GRANT USAGE ON SCHEMA vitrina_capture TO {role};\n"
        "GRANT SELECT, TRUNCATE ON vitrina_capture.log_0, vitrina_capture.log_1 TO {role};\n"
        "GRANT SELECT, UPDATE ON vitrina_capture.half TO {role}"
    ).format(role=sql.Identifier(role))


def _may_read(conn: Connection, role: str) -> bool:
    return fetch_one(conn, SQL["may_read"], {"role": role}) is not None

"""The publication of a source's tables: what it takes to have it as it should be."""

from collections.abc import Sequence

from psycopg import sql

from vitrina.capture.changes import Statement
from vitrina.capture.examination import GENERATED_ARE_PUBLISHED, existing
from vitrina.meta.db import Connection, fetch_all, fetch_one, queries

SQL = queries("capture_wal")


def publication_statements(conn: Connection, publication: str, tables: Sequence[str]) -> list[Statement]:
    """None if it is right already; tables that no longer exist are left out."""
    name = sql.Identifier(publication)
    wanted = existing(conn, tables)
    listed = sql.SQL(", ").join(identifier(table) for table in wanted)
    options = "publish = 'insert, update, delete, truncate', publish_via_partition_root = true"
    if conn.info.server_version >= GENERATED_ARE_PUBLISHED:
        options += ", publish_generated_columns = stored"
    found = fetch_one(conn, SQL["publication"], {"publication": publication})
    if found is None:
        create = sql.SQL("CREATE PUBLICATION {} FOR TABLE {} WITH ({})")
        return [create.format(name, listed, sql.SQL(options))]
    statements: list[Statement] = []
    if not found["whole"]:
        statements.append(sql.SQL("ALTER PUBLICATION {} SET ({})").format(name, sql.SQL(options)))
    published = {row["name"] for row in fetch_all(conn, SQL["published"], {"publication": publication})}
    if published != set(wanted):
        statements.append(sql.SQL("ALTER PUBLICATION {} SET TABLE {}").format(name, listed))
    return statements


def identifier(table: str) -> sql.Identifier:
    """schema.table, quoted."""
    return sql.Identifier(*table.split(".", 1))

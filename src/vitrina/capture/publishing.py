"""The publication of a source's tables: what it takes to have it as it should be."""

from collections.abc import Sequence
from typing import LiteralString

from psycopg import sql

from vitrina.capture.changes import Statement
from vitrina.capture.examination import GENERATED_ARE_PUBLISHED, existing
from vitrina.meta.db import Connection, fetch_all, fetch_one, queries

SQL, SOURCE = queries("capture_wal"), queries("capture_source")


def publication_statements(conn: Connection, publication: str, tables: Sequence[str]) -> list[Statement]:
    """None if it is right already; tables that no longer exist are left out."""
    name = sql.Identifier(publication)
    wanted = existing(conn, tables)
    listed = sql.SQL(", ").join(identifier(table) for table in wanted)
    options: LiteralString = _options(conn)
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


def misfits(conn: Connection, publication: str, tables: Sequence[str]) -> list[tuple[str, str]]:
    """What is wrong with a publication that somebody else made, each with what its owner has to do."""
    name, known = sql.Identifier(publication).as_string(conn), {"publication": publication}
    found = fetch_one(conn, SQL["publication"], known)
    if found is None:
        listed = sql.SQL(", ").join(identifier(table) for table in tables).as_string(conn)
        made = f"CREATE PUBLICATION {name} FOR TABLE {listed} WITH ({_options(conn)})"
        return [(f"there is no publication {publication}", f"whoever owns the tables does: {made}")]
    wrong = []
    if not found["whole"]:
        remedy = f"its owner does: ALTER PUBLICATION {name} SET ({_options(conn)})"
        wrong.append((f"publication {publication} does not give all changes by the root of partitions", remedy))
    published = {row["name"] for row in fetch_all(conn, SQL["published"], known)}
    for table in (table for table in tables if table not in published):
        add = f"its owner does: ALTER PUBLICATION {name} ADD TABLE {identifier(table).as_string(conn)}"
        wrong.append((f"publication {publication} has not all rows and columns of {table}", add))
    return wrong + _uncomputed(conn, publication, tables)


def _uncomputed(conn: Connection, publication: str, tables: Sequence[str]) -> list[tuple[str, str]]:
    """Columns that are computed and stored are captured wherever they can be."""
    given = fetch_one(conn, SQL["generated"], {"publication": publication})
    stored = [row["name"] for row in fetch_all(conn, SOURCE["tables"], {"tables": list(tables)}) if row["stored"]]
    if conn.info.server_version < GENERATED_ARE_PUBLISHED or not stored or (given and given["given"]):
        return []
    name = sql.Identifier(publication).as_string(conn)
    remedy = f"its owner does: ALTER PUBLICATION {name} SET (publish_generated_columns = stored)"
    return [(f"publication {publication} leaves computed columns of {', '.join(stored)} out", remedy)]


def _options(conn: Connection) -> LiteralString:
    options: LiteralString = "publish = 'insert, update, delete, truncate', publish_via_partition_root = true"
    more = ", publish_generated_columns = stored"
    return options + (more if conn.info.server_version >= GENERATED_ARE_PUBLISHED else "")


def identifier(table: str) -> sql.Identifier:
    """schema.table, quoted."""
    return sql.Identifier(*table.split(".", 1))

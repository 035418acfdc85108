"""The publication of a source's tables: what it takes to have it as it should be."""

from collections.abc import Iterator, Sequence
from typing import LiteralString

from psycopg import sql
from psycopg.rows import DictRow

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
        made = f"CREATE PUBLICATION {name} FOR TABLE {_listed(conn, tables)} WITH ({_options(conn)})"
        return [(f"there is no publication {publication}", f"whoever owns the tables does: {made}")]
    remedy = f"its owner does: ALTER PUBLICATION {name} SET ({_options(conn)})"
    wrong = [(f"publication {publication} {said}", remedy) for said in _left_out(found)]
    published = {row["name"] for row in fetch_all(conn, SQL["published"], known)}
    some = {row["name"] for row in fetch_all(conn, SQL["restricted"], known)} - published
    if missing := [table for table in tables if table not in published | some]:
        add = f"its owner does: ALTER PUBLICATION {name} ADD TABLE {_listed(conn, missing)}"
        wrong.append((f"publication {publication} does not have {', '.join(missing)}", add))
    if partly := [table for table in tables if table in some]:
        whole = f"ALTER PUBLICATION {name} {{}} TABLE {_listed(conn, partly)}"
        said = f"publication {publication} gives only some rows or columns of {', '.join(partly)}"
        wrong.append((said, f"its owner does: {whole.format('DROP')}; {whole.format('ADD')}"))
    return wrong + _uncomputed(conn, publication, tables)


def _left_out(found: DictRow) -> Iterator[str]:
    if found["left_out"]:
        yield f"does not give {', '.join(found['left_out'])}"
    if not found["by_root"]:
        yield "gives the rows of partitions as theirs, not as their root's"


def _listed(conn: Connection, tables: Sequence[str]) -> str:
    return sql.SQL(", ").join(identifier(table) for table in tables).as_string(conn)


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

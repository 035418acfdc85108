"""The shadow of a mart elsewhere: a table in schema `etl_shadow` that has key, hash and version of each document."""

from collections.abc import Sequence

from psycopg import sql

from vitrina.engine.mart import Mart
from vitrina.engine.pieces import COMMA
from vitrina.engine.types import check_types
from vitrina.meta.db import Connection, fetch_all, translated
from vitrina.meta.repos.indexes import Edition
from vitrina.sinks.documents.statements import HASH, VERSION, shadow_columns
from vitrina.sql.describe import Column

SCHEMA = "etl_shadow"
BYTEWISE = '"C"'  # how text keys are ordered and told apart


def create_shadow(conn: Connection, edition: Edition, key: Sequence[Column]) -> None:
    """Anew and empty. Tombstones are few, and found by an index of their own."""
    check_types(conn, key)
    table = sql.Identifier(SCHEMA, edition.shadow)
    collations = _collations(conn, key)
    definitions = [_definition(column, collations[column.name]) for column in key]
    create = "CREATE TABLE {} ({}, {} bytea, {} bigint NOT NULL, PRIMARY KEY ({}))"
    names = COMMA.join(column.identifier for column in key)
    hash_, version = sql.Identifier(HASH), sql.Identifier(VERSION)
    with translated():
        drop_shadow(conn, edition)
        conn.execute(sql.SQL(create).format(table, COMMA.join(definitions), hash_, version, names))
        conn.execute(sql.SQL("CREATE INDEX ON {} ({}) WHERE {} IS NULL").format(table, version, hash_))


def drop_shadow(conn: Connection, edition: Edition) -> None:
    """If it is there."""
    with translated():
        conn.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(sql.Identifier(SCHEMA, edition.shadow)))


def shadow_mart(conn: Connection, edition: Edition, key: Sequence[Column]) -> Mart:
    """As what it is compared: a mart of two things, key and hash."""
    columns = shadow_columns(tuple(key))
    return Mart(
        SCHEMA,
        edition.shadow,
        tuple(c.name for c in key),
        columns,
        {c.name: c.type for c in columns},
        _collations(conn, key),
        stamped=False,
        pushable=not any(c.type.endswith("[]") for c in key),
        operators={c.name: c.operators for c in key},
    )


def _collations(conn: Connection, key: Sequence[Column]) -> dict[str, str | None]:
    query = "SELECT typcollation <> 0 AS yes FROM pg_type WHERE oid = to_regtype(%s)"
    collatable = {c.name: any(row["yes"] for row in fetch_all(conn, query, [c.type])) for c in key}
    return {name: BYTEWISE if yes else None for name, yes in collatable.items()}


def _definition(column: Column, collation: str | None) -> sql.Composed:
    """Without a length: one that grows in the query would be cut or rounded here, and rows taken for each other. Bits
    of any length are a type of their own."""
    kept = column.type if column.type.startswith("bit(") else column.unbounded_type
    suffix = sql.SQL(f" COLLATE {collation}" if collation else "")
    return sql.SQL("{} {}{}").format(column.identifier, sql.SQL(kept), suffix)

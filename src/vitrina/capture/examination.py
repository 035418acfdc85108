"""What is checked before anything is done to a source: capturing must never break the application that writes there."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from psycopg.rows import DictRow

from vitrina.domain.errors import ConfigError
from vitrina.meta.db import Connection, fetch_all, fetch_one, queries

SQL = queries("capture_source")
GENERATED_ARE_PUBLISHED = 180_000  # the first version that can
KINDS = {
    "v": "a view",
    "m": "a materialised view",
    "f": "a foreign table",
    "S": "a sequence",
    "c": "a type",
    "i": "an index",
}


def examine(conn: Connection, kind: str, tables: Sequence[str], *, new_slot: bool) -> list[str]:
    """Warnings; a ConfigError lists everything that stands in the way, each with its remedy."""
    rows = fetch_all(conn, SQL["tables"], {"tables": list(tables)})
    server: Any = fetch_one(conn, SQL["server"])
    problems = [*_server(server, kind, new_slot)]
    for _, members in groupby(rows, key=lambda row: row["name"]):
        problems += _table(list(members), kind)
    if problems:
        raise ConfigError(
            "; ".join(problem for problem, _ in problems), "; ".join(dict.fromkeys(r for _, r in problems))
        )
    return [*_warnings(conn, server, kind, rows)]


def existing(conn: Connection, tables: Sequence[str]) -> list[str]:
    """Those of the tables that exist."""
    rows = fetch_all(conn, SQL["tables"], {"tables": list(tables)})
    return list(dict.fromkeys(row["name"] for row in rows if row["member"]))


def _server(server: DictRow, kind: str, new_slot: bool) -> Iterator[tuple[str, str]]:
    if server["standby"]:
        yield "the source is a standby", "capture its primary"
    if server["encoding"] == "SQL_ASCII":
        yield "the source's encoding is SQL_ASCII, so its text cannot be read", "use pipelines of mode full"
    if kind != "wal":
        return
    if server["wal_level"] != "logical":
        remedy = "ALTER SYSTEM SET wal_level = 'logical' and restart Postgres, or install with --kind trigger"
        yield f"wal_level is {server['wal_level']}", remedy
    elif new_slot and server["slots_used"] >= server["slots"]:
        yield f"all {server['slots']} replication slots are taken", "raise max_replication_slots and restart Postgres"
    elif new_slot and server["senders_used"] >= server["senders"]:
        yield f"all {server['senders']} WAL senders are busy", "raise max_wal_senders and restart Postgres"


def _table(members: list[DictRow], kind: str) -> Iterator[tuple[str, str]]:
    root = members[0]
    name = root["name"]
    if root["member"] is None:
        yield f"there is no table {name}", "correct its name (schema.table)"
    elif root["relkind"] not in "rp":
        yield f"{name} is {KINDS.get(root['relkind'], 'no table')}", "capture the tables that it reads"
    elif root["relispartition"]:
        yield f"{name} is a partition", f"capture {root['root']}"
    elif root["has_children"]:
        yield f"{name} has tables that inherit from it", "use partitions, or a pipeline of mode full"
    else:
        for member in members:
            yield from _member(member, root, kind)


def _member(member: DictRow, root: DictRow, kind: str) -> Iterator[tuple[str, str]]:
    name = member["member"]
    if member["relkind"] == "f":
        yield f"partition {name} of {root['name']} is a foreign table", "use a pipeline of mode full"
        return
    if member["relpersistence"] != "p":
        yield f"{name} is unlogged or temporary, so a crash empties it silently", f"ALTER TABLE {name} SET LOGGED"
    if not member["owned"]:
        yield f"{name} belongs to another role", "install as its owner, or as a superuser"
    if kind == "wal":
        yield from _identity(member, root)


def _identity(member: DictRow, root: DictRow) -> Iterator[tuple[str, str]]:
    """UPDATE and DELETE fail on a published table whose rows cannot be told apart."""
    name, identity = member["member"], member["relreplident"]
    known = {"d": member["has_key"], "i": member["has_index"], "f": True}.get(identity, False)
    if not known:
        why = "has no primary key" if identity == "d" else "has no replica identity"
        remedy = f"ALTER TABLE {name} REPLICA IDENTITY FULL, or give it a primary key"
        yield f"{name} {why}: published like that, its UPDATE and DELETE would fail", remedy
    elif identity == "f" and member["virtual"]:
        columns = ", ".join(member["virtual"])
        remedy = f"ALTER TABLE {name} REPLICA IDENTITY DEFAULT (with a primary key), or make the column STORED"
        yield (
            f"{name} has REPLICA IDENTITY FULL and virtual columns ({columns}): its UPDATE and DELETE would fail",
            remedy,
        )
    if identity != root["relreplident"]:
        remedy = f"ALTER TABLE … REPLICA IDENTITY the same for {root['name']} and all its partitions"
        yield f"{name} and {root['member']} have different replica identities", remedy


def _warnings(conn: Connection, server: DictRow, kind: str, rows: list[DictRow]) -> Iterator[str]:
    if kind == "wal" and server["keep"] == "-1":
        yield (
            "max_slot_wal_keep_size is -1: if Vitrina stops for long, the WAL it has not read fills the disk; "
            "set it, e.g. ALTER SYSTEM SET max_slot_wal_keep_size = '10GB'; SELECT pg_reload_conf()"
        )
    for row in rows:
        unseen = row["virtual"] + (row["stored"] if conn.info.server_version < GENERATED_ARE_PUBLISHED else [])
        if kind == "wal" and row["is_root"] and unseen:
            yield f"{row['name']}: generated columns are not in the captured images: {', '.join(unseen)}"

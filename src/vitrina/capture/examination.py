"""What is checked before anything is done to a source: capturing must never break the application that writes there."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from psycopg import sql
from psycopg.rows import DictRow

from vitrina.domain.errors import ConfigError
from vitrina.domain.pipeline import WAREHOUSE
from vitrina.meta.db import Connection, fetch_all, fetch_one, queries
from vitrina.meta.repos.captures import NOTHING, Given
from vitrina.meta.services import Service, find_service

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


@dataclass(frozen=True)
class Intent:
    """What is about to be captured, and what is to be made for it at the source."""

    source: str
    kind: str
    tables: Sequence[str]
    new_slot: bool
    new_object: bool  # a publication, or the schema of the triggers
    given: Given = NOTHING


def examine(conn: Connection, intent: Intent, more: Sequence[tuple[str, str]] = ()) -> list[str]:
    """Warnings; a ConfigError lists everything that stands in the way, and `more`, each with its remedy."""
    rows = fetch_all(conn, SQL["tables"], {"tables": list(intent.tables)})
    server: Any = fetch_one(conn, SQL["server"])
    service = find_service(conn)
    problems = [*_server(server, intent, service), *more]
    for _, members in groupby(rows, key=lambda row: row["name"]):
        problems += _table(list(members), intent, server["role"])
    if problems:
        raise ConfigError(
            "; ".join(problem for problem, _ in problems), "; ".join(dict.fromkeys(r for _, r in problems))
        )
    return [*_warnings(conn, server, intent.kind, rows, service)]


def existing(conn: Connection, tables: Sequence[str]) -> list[str]:
    """Those of the tables that exist."""
    rows = fetch_all(conn, SQL["tables"], {"tables": list(tables)})
    return list(dict.fromkeys(row["name"] for row in rows if row["member"]))


def owner_setting(source: str) -> str:
    """Who makes what a capture needs at a source."""
    return "VITRINA_DATABASE_URL" if source == WAREHOUSE else f"VITRINA_CAPTURE_OWNERS__{source.upper()}"


def _server(server: DictRow, intent: Intent, service: Service) -> Iterator[tuple[str, str]]:
    new_slot, where = intent.new_slot, f" ({service.name})" if service.name else ""
    if server["standby"]:
        yield "the source is a standby", "capture its primary"
    if server["encoding"] == "SQL_ASCII":
        yield "the source's encoding is SQL_ASCII, so its text cannot be read", "use pipelines of mode full"
    if intent.new_object and not server["may_create"]:
        names = [sql.Identifier(server["database"]), sql.Identifier(server["role"])]
        grant = sql.SQL("GRANT CREATE ON DATABASE {} TO {}").format(*names).as_string(None)
        said = f"{server['role']} may not create anything in database {server['database']} of source {intent.source}"
        yield said, f"{grant}, as the database's owner{_by_hand(intent, 'that one')}"
    if intent.kind != "wal":
        return
    if server["wal_level"] != "logical":
        remedy = f"{service.logical}; or capture by trigger (--kind trigger)"
        yield f"wal_level is {server['wal_level']} at source {intent.source}{where}", remedy
    elif new_slot and server["slots_used"] >= server["slots"]:
        more = service.set("max_replication_slots", str(2 * server["slots"] or 10))
        yield f"all {server['slots']} replication slots are taken", f"{more}, and restart Postgres"
    elif new_slot and server["senders_used"] >= server["senders"]:
        more = service.set("max_wal_senders", str(2 * server["senders"] or 10))
        yield f"all {server['senders']} WAL senders are busy", f"{more}, and restart Postgres"


def _table(members: list[DictRow], intent: Intent, role: str) -> Iterator[tuple[str, str]]:
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
            yield from _member(member, root, intent, role)


def _member(member: DictRow, root: DictRow, intent: Intent, role: str) -> Iterator[tuple[str, str]]:
    name = member["member"]
    if member["relkind"] == "f":
        yield f"partition {name} of {root['name']} is a foreign table", "use a pipeline of mode full"
        return
    if member["relpersistence"] != "p":
        yield f"{name} is unlogged or temporary, so a crash empties it silently", f"ALTER TABLE {name} SET LOGGED"
    if not member["owned"] and not intent.given.publication:
        yield f"{name} belongs to {member['owner']}, and this is {role}", _as_owner(intent, member["owner"])
    if intent.kind == "wal":
        yield from _identity(member, root)


def _as_owner(intent: Intent, owner: str) -> str:
    return f"let {owner_setting(intent.source)} sign in as {owner}, or as a member of it{_by_hand(intent, owner)}"


def _by_hand(intent: Intent, owner: str) -> str:
    can = intent.kind == "wal" and not intent.given.publication
    return f"; or let {owner} make a publication, and install with --publication NAME" if can else ""


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


def _warnings(conn: Connection, server: DictRow, kind: str, rows: list[DictRow], service: Service) -> Iterator[str]:
    if kind == "wal" and server["keep"] == "-1":
        said = "max_slot_wal_keep_size is -1: if Vitrina stops for long, the WAL it has not read fills the disk"
        yield f"{said}; {service.limit_wal}"
    for row in rows:
        unseen = row["virtual"] + (row["stored"] if conn.info.server_version < GENERATED_ARE_PUBLISHED else [])
        if kind == "wal" and row["is_root"] and unseen:
            yield f"{row['name']}: generated columns are not in the captured images: {', '.join(unseen)}"

"""What the reader finds at a Postgres: in each mode's way, with the remedy in the words of that server."""

from collections.abc import Collection, Iterator, Sequence

from psycopg.rows import DictRow

from vitrina.domain.findings import Code, Finding
from vitrina.meta.db import Connection, fetch_all, queries
from vitrina.meta.refusals import quoted
from vitrina.meta.services import Service, find_service
from vitrina.sources.sight import MODES, Schema, Seen, Sight, obstacle

SQL = queries("sources")


def take_sight(conn: Connection, schemas: Collection[str], capturer: str | None, setting: str) -> Sight:
    """`capturer` is the role that captures there, `setting` the one that names it."""
    server = fetch_all(conn, SQL["server"])[0]
    found = [Schema(**row) for row in fetch_all(conn, SQL["schemas"], {"schemas": list(schemas)})]
    closed = [] if any(schema.is_readable for schema in found) else [_nothing_to_read(server, found)]
    service = find_service(conn)
    streaming = [*_streaming(conn, server, service, capturer or server["role"], setting)]
    ways = {
        "full": closed,
        "incremental": [*closed, *_incremental(server, service)],
        "live by wal": [*closed, *_capturing("live by wal", server), *streaming],
        "live by trigger": [*closed, *_capturing("live by trigger", server)],
    }
    return Sight(server["role"], found, {mode: ways[mode] for mode in MODES})


def list_tables(conn: Connection, schemas: Collection[str], limit: int) -> Seen:
    """By name."""
    rows = fetch_all(conn, SQL["tables"], {"schemas": list(schemas), "limit": limit})
    return Seen(rows[:limit], len(rows) > limit)


def _nothing_to_read(server: DictRow, found: Sequence[Schema]) -> Finding:
    names, role = [schema.name for schema in found], server["role"]
    told = {"schemas": ", ".join(names), "listed": ", ".join(map(quoted, names)), "grantee": quoted(role)}
    return obstacle("full", Code.NOTHING_READABLE, role=role, **told)


def _incremental(server: DictRow, service: Service) -> Iterator[Finding]:
    role = server["role"]
    if server["standby"]:
        yield obstacle("incremental", Code.IS_STANDBY)
    elif not server["tracks"]:
        yield obstacle("incremental", Code.ACTIVITIES_OFF)
    elif not server["sees_all"]:
        yield obstacle("incremental", Code.SESSIONS_HIDDEN, role=role, grantee=quoted(role), who=service.administrator)


def _capturing(mode: str, server: DictRow) -> Iterator[Finding]:
    if server["standby"]:
        yield obstacle(mode, Code.IS_STANDBY)
    if server["encoding"] == "SQL_ASCII":
        yield obstacle(mode, Code.ENCODING_UNKNOWN)


def _streaming(conn: Connection, server: DictRow, service: Service, role: str, setting: str) -> Iterator[Finding]:
    mode = "live by wal"
    if server["wal_level"] != "logical":
        yield obstacle(mode, Code.WAL_NOT_LOGICAL, level=server["wal_level"], way=service.logical)
    elif server["slots_used"] >= server["slots"]:
        way = service.set("max_replication_slots", str(server["slots"] + 5))
        yield obstacle(mode, Code.SLOTS_TAKEN, slots=server["slots"], way=way)
    known = fetch_all(conn, SQL["streams"], {"role": role, "lent": service.streams_by})
    if not (known and known[0]["may"]):
        yield obstacle(mode, Code.MAY_NOT_STREAM, role=role, setting=setting, way=service.let_stream(role))

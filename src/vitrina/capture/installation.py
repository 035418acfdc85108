"""Installing, extending, repairing and removing a capture. Idempotent: what is right already is left alone."""

import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass

from psycopg import sql

from vitrina.capture import publishing, triggering
from vitrina.capture.appending import drop_log
from vitrina.capture.changes import Statement
from vitrina.capture.examination import examine, existing
from vitrina.capture.slots import create_slot, drop_slot
from vitrina.capture.sources import fingerprints, place
from vitrina.domain.errors import ConfigError
from vitrina.meta.db import Connection, fetch_all, fetch_one, queries, translated
from vitrina.meta.repos.captures import Capture, CaptureRepo, Origin

WAL = queries("capture_wal")
TRIGGER = queries("capture_trigger")
SLOT = "SELECT pg_create_logical_replication_slot({}, 'pgoutput')"
LOCK_SECONDS = 5


@dataclass(frozen=True)
class Plan:
    """What will be run at the source, one transaction each, and what to know before."""

    kind: str
    tap: str | None
    slot: str
    tables: tuple[str, ...]
    statements: tuple[Statement, ...]
    warnings: tuple[str, ...]
    new_slot: bool
    broken: str | None  # why an existing capture has lost changes

    def as_text(self, conn: Connection) -> list[str]:
        """The statements as they will be run."""
        return [statement.as_string(conn) for statement in self.statements]


def plan_install(
    meta: Connection,
    conn: Connection,
    source: str,
    kind: str,
    tables: Sequence[str],
    role: str | None = None,
    tap: str | None = None,
) -> Plan:
    """What an installation would do; a ConfigError if it must not be done. `role`: who captures, if it is another."""
    capture = CaptureRepo(meta).find(source)
    if capture and capture.installed_at and (capture.kind, capture.tap) != (kind, tap):
        by = capture.tap or capture.kind
        raise ConfigError(f"source {source!r} is captured by {by} already", "vitrina capture remove it first")
    known = existing(conn, capture.tables) if capture else []
    wanted = tuple(dict.fromkeys([*known, *tables]))
    if not wanted:
        raise ConfigError("there is no table to capture", "name some with --tables schema.table,schema.table")
    slot = capture.slot if capture else new_name(source)
    broken = _loss(conn, capture) if capture and capture.installed_at else None
    unfinished = capture is None or capture.installed_at is None
    new_slot = kind == "wal" and (unfinished or broken is not None)
    warnings = examine(conn, kind, wanted, new_slot=new_slot)
    statements = _statements(conn, kind, slot, wanted, role)
    if new_slot:
        statements.append(sql.SQL(SLOT).format(sql.Literal(slot)))
    return Plan(kind, tap, slot, wanted, tuple(statements), tuple(warnings), new_slot, broken)


def install(
    meta: Connection,
    conn: Connection,
    source: str,
    kind: str,
    tables: Sequence[str],
    role: str | None = None,
    tap: str | None = None,
) -> Capture:
    """Capture these tables of a source too; `conn` is the source, as the tables' owner."""
    plan = plan_install(meta, conn, source, kind, tables, role, tap)
    return carry_out(meta, conn, source, plan)


def carry_out(meta: Connection, conn: Connection, source: str, plan: Plan) -> Capture:
    """Exactly what the plan says; killed in between, the next install goes on."""
    repo = CaptureRepo(meta)
    capture = repo.prepare(source, plan.kind, plan.tap, plan.slot)
    for statement in plan.statements[: -1 if plan.new_slot else None]:
        _run(conn, statement)
    origin = _origin(conn, plan)
    prints = fingerprints(conn, capture, plan.tables)
    if plan.broken and origin:
        repo.interrupt(source, plan.broken, origin, prints)
    repo.installed(source, plan.tables, prints, origin)
    found = repo.find(source)
    assert found is not None
    return found


def plan_remove(conn: Connection, capture: Capture, tables: Sequence[str] | None = None) -> list[Statement]:
    """What a removal would run at the source."""
    if capture.kind == "trigger":
        return triggering.removal_statements(conn, capture.slot, tables)
    rest = [table for table in capture.tables if table not in (tables or ())]
    if tables is not None:
        return list(publishing.publication_statements(conn, capture.publication, rest))
    statements: list[Statement] = []
    if _slot_exists(conn, capture.slot):
        statements.append(sql.SQL("SELECT pg_drop_replication_slot({})").format(sql.Literal(capture.slot)))
    if fetch_one(conn, WAL["publication"], {"publication": capture.publication}):
        statements.append(sql.SQL("DROP PUBLICATION {}").format(sql.Identifier(capture.publication)))
    return statements


def remove(meta: Connection, conn: Connection, capture: Capture, tables: Sequence[str] | None = None) -> None:
    """Leave nothing behind, at the source or here; or only stop capturing `tables`."""
    repo = CaptureRepo(meta)
    rest = [table for table in capture.tables if table not in (tables or capture.tables)]
    if rest:
        for statement in plan_remove(conn, capture, tables):
            _run(conn, statement)
        repo.installed(capture.source, rest, {}, None)
        return
    if capture.kind == "wal":
        drop_slot(conn, capture.slot)
    for statement in plan_remove(conn, capture):
        _run(conn, statement)
    with translated(), meta.transaction():
        drop_log(meta, capture.source)
        repo.forget(capture.source)


def uncovered(conn: Connection, capture: Capture, tables: Sequence[str]) -> dict[str, str]:
    """Of these tables, those whose changes are not captured right now, each with the reason."""
    reasons = {table: "it is not captured" for table in tables if table not in capture.tables}
    reasons |= dict.fromkeys(set(tables) - set(existing(conn, tables)), "it does not exist")
    if capture.kind == "wal":
        name = {"publication": capture.publication}
        whole = fetch_one(conn, WAL["publication"], name)
        rows = fetch_all(conn, WAL["published"], name) if whole and whole["whole"] else []
        published = {row["name"] for row in rows}
        found = {table: "it is not in the publication" for table in tables if table not in published}
        if not _slot_exists(conn, capture.slot):
            found = dict.fromkeys(tables, f"replication slot {capture.slot} is gone")
    else:
        rows = fetch_all(conn, TRIGGER["unfit"], {"tables": list(tables)})
        found = {row["name"]: f"triggers are off or missing on {row['member']}" for row in rows}
    return found | reasons


def repair_publication(conn: Connection, capture: Capture) -> None:
    """As far as this role may; a ConfigError says who can."""
    _repair(conn, capture, publishing.publication_statements(conn, capture.publication, capture.tables))


def repair_triggers(conn: Connection, capture: Capture) -> None:
    """As far as this role may; a ConfigError says who can."""
    _repair(conn, capture, triggering.trigger_statements(conn, capture.slot, capture.tables, None))


def new_name(source: str) -> str:
    """Slots belong to the server, not to a database: a name of our own, whoever else captures there."""
    return f"vitrina_{re.sub('[^a-z0-9]', '_', source.lower())[:24]}_{secrets.token_hex(4)}"


def _repair(conn: Connection, capture: Capture, statements: Sequence[Statement]) -> None:
    try:
        for statement in statements:
            _run(conn, statement)
    except ConfigError as error:
        remedy = f"vitrina capture install --source {capture.source}"
        raise ConfigError(f"the capture's role may not put it right: {error.message}", remedy) from error


def _statements(conn: Connection, kind: str, slot: str, tables: Sequence[str], role: str | None) -> list[Statement]:
    if kind == "wal":
        return list(publishing.publication_statements(conn, slot, tables))
    return triggering.trigger_statements(conn, slot, tables, role)


def _run(conn: Connection, statement: Statement) -> None:
    """In a transaction of its own, and never waiting long: others queue behind whoever waits for a lock."""
    with translated(), conn.transaction():
        conn.execute(sql.SQL("SET LOCAL lock_timeout = {}").format(sql.Literal(f"{LOCK_SECONDS}s")))
        conn.execute(statement)


def _origin(conn: Connection, plan: Plan) -> Origin:
    """From where the changes of what is installed now are captured."""
    position = create_slot(conn, plan.slot) if plan.new_slot else None
    here = place(conn)
    return Origin(position or here["snapshot"], here["system_identifier"], here["timeline"])


def _loss(conn: Connection, capture: Capture) -> str | None:
    if capture.kind == "wal" and not _slot_exists(conn, capture.slot):
        return f"replication slot {capture.slot} was dropped or lost"
    reasons = uncovered(conn, capture, existing(conn, capture.tables))
    return "; ".join(f"{table}: {reason}" for table, reason in reasons.items()) or None


def _slot_exists(conn: Connection, slot: str) -> bool:
    row = fetch_one(conn, WAL["slot"], {"slot": slot})
    return row is not None and row["wal_status"] != "lost"

"""Installing, extending, repairing and removing a capture. Idempotent: what is right already is left alone."""

import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass

from psycopg import sql

from vitrina.capture import publishing, triggering
from vitrina.capture.appending import drop_log
from vitrina.capture.changes import Statement
from vitrina.capture.examination import Intent, examine, existing
from vitrina.capture.slots import create_slot, drop_slot, find_other_reader, use_slot
from vitrina.capture.sources import fingerprints, place
from vitrina.domain.errors import ConfigError
from vitrina.meta.db import Connection, fetch_all, fetch_one, queries, translated
from vitrina.meta.repos.captures import NOTHING, Capture, CaptureRepo, Given, Origin

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
    given: Given = NOTHING
    unfinished: bool = True

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
    given: Given = NOTHING,
    name: str | None = None,
) -> Plan:
    """What an installation would do; a ConfigError if it must not be done. `role`: who captures, if it is another;
    `name`: of a new one, as it was told before."""
    capture = CaptureRepo(meta).find(source)
    given = _settle(capture, source, kind, tap, given)
    known = existing(conn, capture.tables) if capture else []
    wanted = tuple(dict.fromkeys([*known, *tables]))
    if not wanted:
        raise ConfigError("there is no table to capture", "name some with --tables schema.table,schema.table")
    slot = capture.slot if capture else name or new_name(source)
    broken = _loss(conn, capture) if capture and capture.installed_at else None
    unfinished = capture is None or capture.installed_at is None
    new_slot = kind == "wal" and (unfinished or broken is not None) and not given.slot
    intent = Intent(source, kind, wanted, new_slot, _makes_something(conn, kind, slot, given), given)
    taken = _taken(conn, given.slot) if given.slot and unfinished else []
    warnings = examine(conn, intent, [*misfits(conn, given, wanted), *taken])
    statements = _statements(conn, kind, slot, wanted, role) if given.publication is None else []
    if new_slot:
        statements.append(sql.SQL(SLOT).format(sql.Literal(slot)))
    return Plan(kind, tap, slot, wanted, tuple(statements), tuple(warnings), new_slot, broken, given, unfinished)


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


def carry_out(
    meta: Connection, conn: Connection, source: str, plan: Plan, streamer: Connection | None = None
) -> Capture:
    """Exactly what the plan says; killed in between, the next install goes on. `streamer`: who will read its slot."""
    repo = CaptureRepo(meta)
    capture = repo.prepare(source, plan.kind, plan.tap, plan.slot, plan.given)
    for statement in plan.statements[: -1 if plan.new_slot else None]:
        _run(conn, statement)
    origin = _origin(conn, plan, streamer or conn)
    prints = fingerprints(conn, capture, plan.tables)
    if plan.broken and origin:
        repo.interrupt(source, plan.broken, origin, prints)
    repo.installed(source, plan.tables, prints, origin)
    found = repo.find(source)
    assert found is not None
    return found


def plan_remove(conn: Connection, capture: Capture, tables: Sequence[str] | None = None) -> list[Statement]:
    """What a removal would run at the source; what somebody else made there is left as it is."""
    if strange := [table for table in tables or () if table not in capture.tables]:
        said = f"{', '.join(strange)}: not captured of source {capture.source!r}"
        raise ConfigError(said, f"name some of {', '.join(capture.tables)}")
    if capture.kind == "trigger":
        return triggering.removal_statements(conn, capture.slot, tables)
    rest = [table for table in capture.tables if table not in (tables or ())]
    if tables is not None:
        mine = capture.given_publication is None
        return list(publishing.publication_statements(conn, capture.publication, rest)) if mine else []
    statements: list[Statement] = []
    if capture.given_slot is None and _slot_exists(conn, capture.slot):
        statements.append(sql.SQL("SELECT pg_drop_replication_slot({})").format(sql.Literal(capture.slot)))
    ours = capture.given_publication is None
    if ours and fetch_one(conn, WAL["publication"], {"publication": capture.publication}):
        statements.append(sql.SQL("DROP PUBLICATION {}").format(sql.Identifier(capture.publication)))
    return statements


def remove(
    meta: Connection,
    conn: Connection,
    capture: Capture,
    tables: Sequence[str] | None = None,
    streamer: Connection | None = None,
) -> None:
    """Leave nothing behind of ours, at the source or here; or only stop capturing `tables`."""
    repo = CaptureRepo(meta)
    rest = [table for table in capture.tables if table not in (tables or capture.tables)]
    if rest:
        for statement in plan_remove(conn, capture, tables):
            _run(conn, statement)
        repo.installed(capture.source, rest, {}, None)
        return
    if capture.kind == "wal" and capture.given_slot is None:
        drop_slot(streamer or conn, capture.slot)
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
        if not _slot_exists(conn, capture.read_slot):
            found = dict.fromkeys(tables, f"replication slot {capture.read_slot} is gone")
    else:
        rows = fetch_all(conn, TRIGGER["unfit"], {"tables": list(tables)})
        found = {row["name"]: f"triggers are off or missing on {row['member']}" for row in rows}
    return found | reasons


def repair_publication(conn: Connection, capture: Capture) -> None:
    """As far as this role may; a ConfigError says who can. One that is not ours is put right by whose it is."""
    if capture.given_publication:
        wrong = misfits(conn, Given(capture.given_publication), existing(conn, capture.tables))
        if wrong:
            raise ConfigError("; ".join(said for said, _ in wrong), "; ".join(remedy for _, remedy in wrong))
        return
    _repair(conn, capture, publishing.publication_statements(conn, capture.publication, capture.tables))


def repair_triggers(conn: Connection, capture: Capture) -> None:
    """As far as this role may; a ConfigError says who can."""
    _repair(conn, capture, triggering.trigger_statements(conn, capture.slot, capture.tables, None))


def misfits(conn: Connection, given: Given, tables: Sequence[str]) -> list[tuple[str, str]]:
    """What is wrong with what somebody else has made, each with the remedy."""
    wrong = publishing.misfits(conn, given.publication, existing(conn, tables)) if given.publication else []
    if given.slot:
        try:
            use_slot(conn, given.slot)
        except ConfigError as error:
            wrong.append((error.message, error.remedy))
    return wrong


def _taken(conn: Connection, slot: str) -> list[tuple[str, str]]:
    """Two readers of a slot would each get what the other misses."""
    other = find_other_reader(conn, slot, ours=False)
    remedy = "let it end first, or install with another slot: whoever reads changes needs one of its own"
    return [(f"replication slot {slot} is read by {other}", remedy)] if other else []


def new_name(source: str) -> str:
    """Slots belong to the server, not to a database: a name of our own, whoever else captures there."""
    return f"vitrina_{re.sub('[^a-z0-9]', '_', source.lower())[:24]}_{secrets.token_hex(4)}"


def _settle(capture: Capture | None, source: str, kind: str, tap: str | None, given: Given) -> Given:
    """What is captured already stays as it is: by that kind, with what somebody else made for it."""
    if given != NOTHING and kind != "wal":
        remedy = "leave out --kind trigger, or --publication and --slot"
        raise ConfigError("publications and slots are of the WAL", remedy)
    if capture is None:
        return given
    if capture.installed_at and (capture.kind, capture.tap) != (kind, tap):
        by = capture.tap or capture.kind
        raise ConfigError(f"source {source!r} is captured by {by} already", "vitrina capture remove it first")
    if given not in (NOTHING, capture.given):
        by = f"publication {capture.publication} and slot {capture.read_slot}"
        raise ConfigError(f"source {source!r} is captured by {by} already", "vitrina capture remove it first")
    return capture.given


def _makes_something(conn: Connection, kind: str, slot: str, given: Given) -> bool:
    """A publication, or the schema of the triggers: whoever makes it must be allowed to."""
    if kind == "trigger":
        return fetch_one(conn, TRIGGER["mark"]) is None
    return given.publication is None and fetch_one(conn, WAL["publication"], {"publication": slot}) is None


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


def _origin(conn: Connection, plan: Plan, streamer: Connection) -> Origin:
    """From where the changes of what is installed now are captured."""
    position = create_slot(streamer, plan.slot, owner=conn) if plan.new_slot else None
    if plan.given.slot and (plan.unfinished or plan.broken):
        position = use_slot(conn, plan.given.slot)
    here = place(conn)
    return Origin(position or here["snapshot"], here["system_identifier"], here["timeline"])


def _loss(conn: Connection, capture: Capture) -> str | None:
    if capture.kind == "wal" and not _slot_exists(conn, capture.read_slot):
        return f"replication slot {capture.read_slot} was dropped or lost"
    reasons = uncovered(conn, capture, existing(conn, capture.tables))
    return "; ".join(f"{table}: {reason}" for table, reason in reasons.items()) or None


def _slot_exists(conn: Connection, slot: str) -> bool:
    row = fetch_one(conn, WAL["slot"], {"slot": slot})
    return row is not None and row["wal_status"] != "lost"

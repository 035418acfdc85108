"""Captures that are asked for in the console: said first, then done if it is still the same; with the rights that this
runner was given for that source, and no others."""

from collections.abc import Sequence
from hashlib import sha256
from typing import Any

from vitrina.capture import installation
from vitrina.capture.ends import Ends, open_ends
from vitrina.capture.status import live_tables
from vitrina.domain.errors import ConfigError
from vitrina.domain.request import CaptureParams
from vitrina.meta.db import Connection
from vitrina.meta.repos.captures import Capture, CaptureRepo, Given
from vitrina.sources.connections import Connections


def answer_capture(connections: Connections, meta: Connection, params: CaptureParams) -> dict[str, Any]:
    """What would be run, as whom, with what to know before; done, if the one who asks has seen just that."""
    owner, captures = connections.resolve_capture_owner(params.source), connections.resolve_capture(params.source)
    with open_ends(meta, owner, captures) as ends:
        found = CaptureRepo(meta).find(params.source)
        if params.action == "remove":
            return _remove(ends, _require(found, params.source), params)
        return _install(ends, found, params, connections.settings.allowed_source_schemas)


def _install(ends: Ends, found: Capture | None, params: CaptureParams, allowed: Sequence[str]) -> dict[str, Any]:
    kind = found.kind if found else params.kind
    wanted = params.tables or live_tables(ends.meta, params.source)
    _require_allowed(wanted, allowed)
    given, tap = Given(params.publication, params.slot), found.tap if found else None
    plan = installation.plan_install(
        ends.meta, ends.owner, params.source, kind, wanted, ends.role, tap, given, name=params.name
    )
    if kind == "wal":
        ends.require_stream(params.source)
    told = _told(ends, plan.as_text(ends.owner), params) | {
        "name": plan.slot, "tables": list(plan.tables), "warnings": list(plan.warnings),
        "slot_by": ends.role if plan.new_slot and ends.role != ends.owner.info.user else None,
    }  # fmt: skip
    if told["done"]:
        installation.carry_out(ends.meta, ends.owner, params.source, plan, ends.streamer)
    return told


def _remove(ends: Ends, found: Capture, params: CaptureParams) -> dict[str, Any]:
    statements = [each.as_string(ends.owner) for each in installation.plan_remove(ends.owner, found)]
    told = _told(ends, statements, params) | {"name": found.slot, "tables": list(found.tables), "warnings": []}
    if told["done"]:
        installation.remove(ends.meta, ends.owner, found, streamer=ends.streamer)
    return told


def _told(ends: Ends, statements: list[str], params: CaptureParams) -> dict[str, Any]:
    """`digest` stands for what would be done: whoever gives it back has seen just that."""
    digest = sha256("\n".join([params.action, params.source, *statements]).encode()).hexdigest()
    if params.confirmed not in (None, digest):
        raise ConfigError("what would be done is no longer what was shown", "look again, and then do it")
    return {"digest": digest, "statements": statements, "role": ends.owner.info.user, "done": bool(params.confirmed)}


def _require_allowed(tables: Sequence[str], schemas: Sequence[str]) -> None:
    """What no query may read need not be captured; whoever has a shell may capture it all the same."""
    closed = [table for table in tables if table.split(".")[0] not in schemas]
    if closed:
        remedy = f"name tables (schema.table) of {', '.join(schemas)}, or extend VITRINA_ALLOWED_SOURCE_SCHEMAS"
        raise ConfigError(f"queries may not read {', '.join(closed)}", remedy)


def _require(found: Capture | None, source: str) -> Capture:
    if found is None:
        raise ConfigError(f"source {source!r} is not captured", "install a capture first")
    return found

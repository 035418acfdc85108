"""A line of the doctor's, and those about captures, about who waits for whom, and about what a query may use up."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

from vitrina.capture.status import warnings
from vitrina.control.services.waiting import waiting
from vitrina.domain.errors import VitrinaError
from vitrina.domain.policy import RULES
from vitrina.meta.db import Connection, connect, fetch_one, queries
from vitrina.meta.refusals import quoted
from vitrina.meta.repos.captures import Capture, CaptureRepo
from vitrina.meta.repos.pipelines import FAR_BEHIND
from vitrina.meta.services import Service, find_service
from vitrina.settings import Settings
from vitrina.sources.connections import Connections

SOURCE = queries("capture_source")
SESSIONS = queries("limits")
NO_LIMIT = "-1"
UP = "vitrina up"
MUCH_WAL = 1_000_000_000  # bytes that a source keeps for a slot


@dataclass(frozen=True)
class Check:
    """One line."""

    level: Literal["ok", "warn", "fail"]
    about: str
    message: str
    remedy: str = ""


Checks: TypeAlias = Iterator[Check]


def allowed_targets(about: str, prefix: str, settings: Settings, example: str) -> Check:
    """Whether pipelines may write to any mart of this kind."""
    setting = RULES[prefix].setting
    allowed = ", ".join(getattr(settings, setting))
    if allowed:
        return Check("ok", about, f"allowed: {allowed}")
    remedy = f"name them in VITRINA_{setting.upper()}, e.g. {example}"
    return Check("warn", about, f"none is allowed: pipelines to {prefix} are refused", remedy)


def captures(meta: Connection, connections: Connections) -> Checks:
    """Each capture: whether somebody reads it, how far behind, what it costs the source, who follows."""
    for capture in CaptureRepo(meta).all():
        found = [*_standing(meta, capture), *_source(capture, connections)]
        said = f"by {capture.kind}, {len(capture.tables)} tables, read by {capture.runner}"
        yield from found or [Check("ok", f"capture {capture.source}", said)]


def temporary_files(conn: Connection, about: str, limit: str) -> Check:
    """Whether what a query may fill of the server's disk is bounded, by us or by what the role has of its own."""
    row = fetch_one(conn, SESSIONS["temporary_files"], {"limit": limit})
    assert row is not None
    about = f"temporary files, {about}"
    if limit == NO_LIMIT:
        return Check("ok", about, f"not bounded, as VITRINA_TEMP_FILE_LIMIT={NO_LIMIT} says")
    if row["may"] or row["bounded"]:
        return Check("ok", about, f"at most {limit if row['may'] and not row['bounded'] else row['own']} a process")
    said = f"not bounded by VITRINA_TEMP_FILE_LIMIT: {row['role']} may not set it, and has {row['own']} of its own"
    return Check("warn", about, said, _bound(find_service(conn), row["role"], limit))


def _bound(service: Service, role: str, limit: str) -> str:
    if not service.gives_parameters:
        for_all = service.set_at_once("temp_file_limit", limit)
        return f"{for_all}: for all sessions, since {service.name} gives it to no role"
    grant = f"GRANT SET ON PARAMETER temp_file_limit TO {quoted(role)}"
    return f"a superuser there has to run: {grant}, or ALTER ROLE {quoted(role)} SET temp_file_limit = '{limit}'"


def waits(meta: Connection) -> Checks:
    """What pipelines wait for."""
    for found in waiting(meta).values():
        said = f"waits since {found.since:%Y-%m-%d %H:%M:%S} UTC for {found.said}"
        yield Check("warn", f"pipeline {found.name}", said, found.remedy)


def _standing(meta: Connection, capture: Capture) -> Checks:
    about = f"capture {capture.source}"
    for warning in warnings(capture):
        yield Check("fail" if capture.wal_status == "lost" else "warn", about, warning.message, warning.remedy)
    if (capture.lag_bytes or 0) > MUCH_WAL:
        said = f"the source keeps {capture.lag_bytes or 0:,} bytes of WAL for slot {capture.read_slot}"
        yield Check("warn", about, said, "let a runner catch up, or stop capturing: vitrina capture remove")
    for row in CaptureRepo(meta).followers(capture.source):
        if row["enabled"] and (row["backlog"] or 0) > FAR_BEHIND:
            said = f"{row['name']} ({row['status']}) is {row['backlog']:,} changes behind, which are kept for it"
            yield Check("warn", about, said, f"vitrina run {row['name']}, or vitrina disable {row['name']}")


def _source(capture: Capture, connections: Connections) -> Checks:
    """What the source itself says: a slot without a limit fills its disk while nobody reads."""
    if capture.kind != "wal":
        return
    about = f"capture {capture.source}"
    try:
        with connect(connections.resolve_capture(capture.source), "doctor") as conn:
            server, service = fetch_one(conn, SOURCE["server"]), find_service(conn)
    except VitrinaError as error:
        yield Check("fail", about, f"the role that captures cannot sign in: {error.message}", error.remedy)
        return
    if server and server["keep"] == "-1":
        said = "max_slot_wal_keep_size is -1: while no runner captures, the WAL it has not read fills the source's disk"
        yield Check("warn", about, said, service.limit_wal)

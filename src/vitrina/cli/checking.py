"""A line of the doctor's, and those about captures: what feeds live marts, and what may harm the source."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

from vitrina.adapters.captures.status import report
from vitrina.adapters.connections import Connections
from vitrina.domain.errors import VitrinaError
from vitrina.meta.db import Connection, connect, fetch_one, queries
from vitrina.meta.repos.captures import Capture, CaptureRepo
from vitrina.meta.repos.pipelines import FAR_BEHIND

SOURCE = queries("capture_source")
MUCH_WAL = 1_000_000_000  # bytes that a source keeps for a slot


@dataclass(frozen=True)
class Check:
    """One line."""

    level: Literal["ok", "warn", "fail"]
    about: str
    message: str
    remedy: str = ""


Checks: TypeAlias = Iterator[Check]


def captures(meta: Connection, connections: Connections) -> Checks:
    """Each capture: whether somebody reads it, how far behind, what it costs the source, who follows."""
    for capture in CaptureRepo(meta).all():
        found = [*_standing(meta, capture), *_source(capture, connections)]
        said = f"by {capture.kind}, {len(capture.tables)} tables, read by {capture.runner}"
        yield from found or [Check("ok", f"capture {capture.source}", said)]


def _standing(meta: Connection, capture: Capture) -> Checks:
    about, found = f"capture {capture.source}", report(meta, capture)
    for warning in found["warnings"]:
        message, _, remedy = warning.partition("; ")
        yield Check("fail" if capture.wal_status == "lost" else "warn", about, message, remedy)
    if (capture.lag_bytes or 0) > MUCH_WAL:
        said = f"the source keeps {capture.lag_bytes or 0:,} bytes of WAL for slot {capture.slot}"
        yield Check("warn", about, said, "let a runner catch up, or stop capturing: vitrina capture remove")
    for row in found["pipelines"]:
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
            server = fetch_one(conn, SOURCE["server"])
    except VitrinaError as error:
        yield Check("fail", about, f"the role that captures cannot sign in: {error.message}", error.remedy)
        return
    if server and server["keep"] == "-1":
        said = "max_slot_wal_keep_size is -1: while no runner captures, the WAL it has not read fills the source's disk"
        yield Check("warn", about, said, "ALTER SYSTEM SET max_slot_wal_keep_size = '10GB'; SELECT pg_reload_conf()")

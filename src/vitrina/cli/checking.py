"""A line of the doctor's, and those about captures, about who waits for whom, and about what a query may use up."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from vitrina.capture.status import warnings
from vitrina.client.errors import ClientError
from vitrina.control.services.waiting import waiting
from vitrina.domain.diagnoses import Diagnosis
from vitrina.domain.errors import VitrinaError
from vitrina.domain.findings import Code
from vitrina.domain.policy import RULES
from vitrina.domain.reasons import as_kept
from vitrina.domain.wording import Data, Json, Worded, fill
from vitrina.meta.db import Connection, connect, fetch_one, queries
from vitrina.meta.refusals import quoted
from vitrina.meta.repos.captures import Capture, CaptureRepo
from vitrina.meta.repos.pipelines import FAR_BEHIND
from vitrina.meta.services import Service, find_service
from vitrina.settings import Settings
from vitrina.sources.connections import Connections

Level: TypeAlias = Literal["ok", "warn", "fail"]
SOURCE = queries("capture_source")
SESSIONS = queries("limits")
NO_LIMIT = "-1"
MUCH_WAL = 1_000_000_000  # bytes that a source keeps for a slot


@dataclass(frozen=True)
class Check:
    """One line: its code and data are for programs."""

    level: Level
    about: str
    code: Worded
    data: Data = field(default_factory=dict, hash=False)

    @property
    def message(self) -> str:
        """What was found."""
        return fill(self.code.text, self.data)

    @property
    def remedy(self) -> str:
        """What to do about it; empty if there is nothing to be done."""
        return fill(self.code.remedy, self.data)

    def as_json(self) -> dict[str, Json]:
        """For programs."""
        said: dict[str, Json] = {"message": self.message, "remedy": self.remedy}
        data = {name: as_kept(value) for name, value in self.data.items()}
        return {"level": self.level, "about": self.about, "code": self.code.value, "data": data, **said}


Checks: TypeAlias = Iterator[Check]


def refused(about: str, error: VitrinaError | ClientError, otherwise: str = "") -> Check:
    """An error of ours, with its remedy or another."""
    return Check("fail", about, Code.REFUSED, {"error": error.message, "remedy": error.remedy or otherwise})


def allowed_targets(about: str, prefix: str, settings: Settings, example: str) -> Check:
    """Whether pipelines may write to any mart of this kind."""
    setting = RULES[prefix].setting
    if allowed := list(getattr(settings, setting)):
        return Check("ok", about, Diagnosis.TARGETS, {"allowed": allowed})
    data = {"prefix": prefix, "setting": f"VITRINA_{setting.upper()}", "example": example}
    return Check("warn", about, Diagnosis.NO_TARGETS, data)


def captures(meta: Connection, connections: Connections) -> Checks:
    """Each capture: whether somebody reads it, how far behind, what it costs the source, who follows."""
    for capture in CaptureRepo(meta).all():
        found = [*_standing(meta, capture), *_source(capture, connections)]
        data: Data = {"kind": capture.kind, "tables": len(capture.tables), "runner": capture.runner}
        yield from found or [Check("ok", f"capture {capture.source}", Diagnosis.CAPTURE_READ, data)]


def temporary_files(conn: Connection, about: str, limit: str) -> Check:
    """Whether what a query may fill of the server's disk is bounded, by us or by what the role has of its own."""
    row = fetch_one(conn, SESSIONS["temporary_files"], {"limit": limit})
    assert row is not None
    about = f"temporary files, {about}"
    if limit == NO_LIMIT:
        return Check("ok", about, Diagnosis.FILES_UNBOUNDED, {"limit": limit})
    if row["may"] or row["bounded"]:
        held = limit if row["may"] and not row["bounded"] else row["own"]
        return Check("ok", about, Diagnosis.FILES_BOUNDED, {"limit": held})
    data = {"role": row["role"], "limit": row["own"], "way": _bound(find_service(conn), row["role"], limit)}
    return Check("warn", about, Diagnosis.FILES_OWN_LIMIT, data)


def _bound(service: Service, role: str, limit: str) -> str:
    if not service.gives_parameters:
        for_all = service.set_at_once("temp_file_limit", limit)
        return f"{for_all}: for all sessions, since {service.name} gives it to no role"
    grant = f"GRANT SET ON PARAMETER temp_file_limit TO {quoted(role)}"
    return f"a superuser there has to run: {grant}, or ALTER ROLE {quoted(role)} SET temp_file_limit = '{limit}'"


def waits(meta: Connection) -> Checks:
    """What pipelines wait for."""
    for found in waiting(meta).values():
        data = {"since": f"{found.since:%Y-%m-%d %H:%M:%S}", "what": found.said, "remedy": found.remedy}
        yield Check("warn", f"pipeline {found.name}", Diagnosis.WAITS, data)


def _standing(meta: Connection, capture: Capture) -> Checks:
    about = f"capture {capture.source}"
    for warning in warnings(capture):
        yield Check("fail" if capture.wal_status == "lost" else "warn", about, warning.code, warning.data)
    if (capture.lag_bytes or 0) > MUCH_WAL:
        data: Data = {"bytes": capture.lag_bytes, "slot": capture.read_slot}
        yield Check("warn", about, Diagnosis.CAPTURE_KEEPS_WAL, data)
    for row in CaptureRepo(meta).followers(capture.source):
        if row["enabled"] and (row["backlog"] or 0) > FAR_BEHIND:
            behind = {"pipeline": row["name"], "status": row["status"], "changes": row["backlog"]}
            yield Check("warn", about, Diagnosis.FOLLOWER_BEHIND, behind)


def _source(capture: Capture, connections: Connections) -> Checks:
    """What the source itself says: a slot without a limit fills its disk while nobody reads."""
    if capture.kind != "wal":
        return
    about = f"capture {capture.source}"
    try:
        with connect(connections.resolve_capture(capture.source), "doctor") as conn:
            server, service = fetch_one(conn, SOURCE["server"]), find_service(conn)
    except VitrinaError as error:
        yield Check("fail", about, Diagnosis.CAPTURE_CLOSED, {"error": error.message, "remedy": error.remedy})
        return
    if server and server["keep"] == "-1":
        yield Check("warn", about, Diagnosis.WAL_UNBOUNDED, {"way": service.limit_wal})

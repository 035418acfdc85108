"""What the API answers, as frozen records. `raw` is the JSON itself, with whatever a newer API adds."""

from dataclasses import dataclass, field, fields
from datetime import datetime
from functools import cache
from typing import Any, TypeVar, cast, get_args, get_type_hints
from uuid import UUID

from .errors import Json

R = TypeVar("R", bound="Record")
READERS: dict[Any, Any] = {datetime: datetime.fromisoformat, UUID: UUID}


@dataclass(frozen=True)
class Record:
    """One JSON object."""

    raw: Json = field(repr=False, compare=False)


@dataclass(frozen=True)
class Finding(Record):
    """Something validation has to say."""

    level: str
    where: str
    message: str
    remedy: str
    code: str | None = None  # what it is, for programs; docs/reference.md lists them
    data: Json = field(default_factory=dict)
    target: str | None = None  # of several targets: whose it is; None: it is true of all


@dataclass(frozen=True)
class Run(Record):
    """One run, with as many attempts as it took: `attempt` is the last; `raw` of a single one has `attempts`."""

    id: int
    pipeline_id: UUID
    name: str
    status: str
    attempt: int
    due_at: datetime | None
    options: Json
    config_version: int
    runner: str
    started_at: datetime
    finished_at: datetime | None
    rows_read: int
    rows_written: int
    rows_deleted: int
    rows_unchanged: int
    batches: int
    error: str | None
    remedy: str | None = None  # what to do about the error
    waiting_since: datetime | None = None  # it is open, and nobody has it: it goes on in another attempt
    broken_checks: list[Json] = field(default_factory=list)  # those that were not kept: name, effect, outcome, said …

    @property
    def counts(self) -> dict[str, int]:
        """What it did, in numbers."""
        return {name: getattr(self, f"rows_{name}") for name in ("read", "written", "deleted", "unchanged")}


@dataclass(frozen=True)
class Live(Record):
    """How fresh a live mart is."""

    state: str
    why: str | None
    behind: int | None
    lag_ms: float | None
    committed_at: datetime | None
    applied_at: datetime | None
    as_of: datetime | None
    capture: list[str]
    rate: float | None = None
    seconds_left: float | None = None
    compares_at: datetime | None = None
    audit: Json | None = None
    why_code: str | None = None
    findings: list[Finding] = field(default_factory=list)  # what is wrong with the capture of its source, with codes


@dataclass(frozen=True)
class Pipeline(Record):
    """A stored pipeline: its configuration, and where it stands."""

    id: UUID
    name: str
    status: str
    version: int
    target: str | None
    due_at: datetime | None
    config: Json
    findings: list[Finding]
    live: Live | None
    waits: Json | None  # what it waits for without a slot: kind, since, whom, said, remedy, next_at and more
    members: list[Json] = field(default_factory=list)  # of several targets, each: id, name, target, status


@dataclass(frozen=True)
class Status(Record):
    """Where a pipeline stands."""

    id: UUID
    name: str
    status: str
    enabled: bool
    version: int
    due_at: datetime | None
    last_run: Run | None
    live: Live | None
    incidents: list[Json]  # what is wrong now, and was told by an alert: kind, since
    waits: Json | None  # what it waits for without a slot: kind, since, whom, said, remedy, next_at and more
    checks: list[Json] = field(
        default_factory=list
    )  # what it asks of its mart, and how that stands: name, said and more
    members: list[Json] = field(default_factory=list)  # of several targets, each: id, name, target, status


@dataclass(frozen=True)
class State(Record):
    """A pipeline's checkpoint."""

    pipeline_id: UUID
    checkpoint: Json | None
    last_processed_value: str | None
    last_processed_id: str | None
    epoch: int
    seq: int
    config_hash: str | None
    updated_at: datetime
    horizon: Json | None
    live: Live | None


@dataclass(frozen=True)
class Requested(Record):
    """What became of asking for a run or a pause: enough to wait for it, also from another process."""

    id: UUID
    name: str
    status: str
    changed: bool
    after_run: int
    members: "list[Requested]" = field(default_factory=list)  # of several targets: what became of it for each


@dataclass(frozen=True)
class Request(Record):
    """A question to a runner, and its answer."""

    id: UUID
    pipeline_id: UUID | None
    kind: str
    status: str
    asked_by: str
    params: Json
    result: Json | None
    error: str | None
    created_at: datetime
    finished_at: datetime | None
    remedy: str | None = None


@dataclass(frozen=True)
class Report(Record):
    """How mart and query compare; `raw` has the samples and the control field."""

    equal: bool
    missing: int
    extra: int
    different: int
    query_rows: int
    mart_rows: int
    seconds: float


@dataclass(frozen=True)
class Column(Record):
    """A column of a preview."""

    name: str
    type: str


@dataclass(frozen=True)
class Preview(Record):
    """The first rows, after the last step; `raw` has those after each."""

    columns: list[Column]
    rows: list[Json]
    more: bool
    seconds: float


@dataclass(frozen=True)
class Runner(Record):
    """A runner process."""

    id: UUID
    name: str
    version: str
    slots: int
    busy: int
    started_at: datetime
    seen_at: datetime
    alive: bool
    neighbours: dict[str, dict[str, str]] = field(default_factory=dict)
    """Sources by name, and sinks by prefix (`es:`), that do not answer it: `since` and `error`."""


@dataclass(frozen=True)
class Source(Record):
    """A source, without asking it; the address has no secrets."""

    name: str
    kind: str
    address: str
    setting: str
    pipelines: int
    captured_by: str | None


@dataclass(frozen=True)
class SourceAnswer(Source):
    """A source as it answered just now; `raw` has its schemas, the ways to keep marts of it, and its tables."""

    answers: bool
    milliseconds: float
    error: str | None
    remedy: str | None
    version: str | None
    role: str | None


@dataclass(frozen=True)
class Destination(Record):
    """Whom runners tell alerts; `raw` has its filters."""

    name: str
    format: str
    place: str
    known: bool
    last_status: str | None
    last_error: str | None
    last_at: datetime | None
    waiting: int


@dataclass(frozen=True)
class Delivery(Record):
    """An alert told to a destination, or a test; `raw` has more."""

    id: int
    destination: str
    event: str
    pipeline: str | None
    created_at: datetime
    status: str
    attempts: int
    last_error: str | None
    answer: str | None


@dataclass(frozen=True)
class Version(Record):
    """The configuration at some time."""

    version: int
    config: Json
    changed_at: datetime
    changed_by: str


def read(kind: type[R], row: Json) -> R:
    """A record from JSON; what it does not know is left in `raw`, what an older API lacks is None."""
    return kind(raw=row, **{name: _value(hint, row.get(name)) for name, hint in _hints(cast(Any, kind)).items()})


@cache
def _hints(kind: Any) -> dict[str, Any]:
    hints = get_type_hints(kind)
    return {each.name: hints[each.name] for each in fields(kind) if each.name != "raw"}


def _value(hint: Any, value: Any) -> Any:
    if value is None:
        return None
    if isinstance(value, list):
        return [_value(get_args(hint)[0], item) for item in value]
    for kind in (hint, *get_args(hint)):
        if kind in READERS:
            return READERS[kind](value)
        if isinstance(kind, type) and issubclass(kind, Record):
            return read(kind, value)
    return value

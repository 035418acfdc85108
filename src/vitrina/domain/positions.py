"""Positions: how far a mart is, one type per mode; the one place that reads a checkpoint and makes one.

A position is a value. A mode replaces its own and gives it with each step; the fenced transaction stores it. What an
older program stored is understood: a key that nobody knows is passed over, and where one is missing the default means
that less is known. SQL takes a live position apart in one view, `etl_followers`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Self, TypeAlias

from pydantic import BeforeValidator, PlainSerializer, TypeAdapter, ValidationError

from vitrina.domain.errors import ConfigError
from vitrina.domain.reasons import REASONS, beside, beside_revived
from vitrina.domain.wording import Because, Json

PROGRESS: tuple[str, ...] = ("done", "of")
COMPARING = "comparing"  # why everything is compared, in words; by its code beside it
Stored: TypeAlias = Mapping[str, object]
"""A checkpoint, as the meta-store has it: a JSON object."""


def _time(stored: object) -> object:
    """As Python and Postgres write it."""
    return datetime.fromisoformat(stored) if isinstance(stored, str) else stored


Time: TypeAlias = Annotated[datetime, BeforeValidator(_time), PlainSerializer(datetime.isoformat, return_type=str)]


class Gap(StrEnum):
    """Why the log does not lead on from a follower's position: the reasons that the view `etl_followers` gives."""

    NOT_CAPTURED = "not_captured"
    NOT_LIVE = "not_live"
    COMPARING = "comparing"
    OTHER_SOURCE = "other_source"
    INSTALLED_ANEW = "installed_anew"
    CONTINUITY_LOST = "continuity_lost"
    OUT_OF_LOG = "out_of_log"

    def said(self, detail: str | None = None) -> str:
        """For people, a reason of the same code; `detail` is what the capture or the position says of it."""
        return (detail or "") if self is Gap.COMPARING else REASONS[self].of(detail=detail)


@dataclass(frozen=True)
class Place:
    """A source at some moment: which database of which server, where in its history, and what its clock says; beside
    it the clock of the meta-store, and how often that one was set back. None: not known."""

    database: int | None = None
    system: str | None = None
    timeline: int | None = None
    lsn: str | None = None
    clock: Time | None = None
    here: Time | None = None
    set_back: int | None = None


@dataclass(frozen=True)
class Candidate:
    """The greatest value of a cursor that is no time, when it was seen: final once all who wrote then have ended."""

    bound: str | None
    seen_at: Time


@dataclass(frozen=True)
class Seen:
    """The newest change of a follower's tables, and since when there was none after it."""

    id: int
    at: Time


@dataclass(frozen=True)
class Storage:
    """Where a mart is stored, and whether it has rows."""

    file: str = ""  # nothing is known
    filled: bool = False


@dataclass(frozen=True)
class Position:
    """What all have in common: their stored form."""

    @classmethod
    def parse(cls, stored: Stored) -> Self:
        """From a checkpoint of the same mode."""
        try:
            found = ADAPTERS[cls].validate_python(stored)
        except ValidationError as error:
            raise ConfigError("the checkpoint cannot be read", "drop it: vitrina run NAME --restart") from error
        assert isinstance(found, cls)
        why: Any = beside_revived(stored, COMPARING).get(COMPARING)
        return replace(found, **{COMPARING: why}) if isinstance(why, Because) else found

    def dump(self) -> dict[str, object]:
        """As a checkpoint."""
        stored: dict[str, Json] = ADAPTERS[type(self)].dump_python(self, mode="json")
        if why := getattr(self, COMPARING, None):
            stored = dict(beside(stored | {COMPARING: why}, COMPARING))
        return {name: value for name, value in stored.items() if value is not None}

    def later(self, seconds: float) -> Self:
        """The same, once it has arrived somewhere else, so much later."""
        del seconds
        return self


@dataclass(frozen=True)
class FullPosition(Position):
    """Of a run amid its work, for people: the mart itself says what is left."""

    phase: str = "running"
    done: int | None = None
    of: int | None = None


@dataclass(frozen=True)
class IncrementalPosition(Position):
    """The cursor reached, and the bound of the window. A value is the cursor's as text, an id its tie-breaker's."""

    value: str | None = None  # None: nothing was read yet
    id: str | None = None
    bound: str | None = None
    candidate: Candidate | None = None
    place: Place | None = None
    comparing: str | None = None  # why everything is compared before the cursor goes on

    @property
    def cursor(self) -> tuple[str, str] | None:
        """Value and tie-breaker; None: from the beginning."""
        return None if self.value is None or self.id is None else (self.value, self.id)


@dataclass(frozen=True)
class LivePosition(Position):
    """The last change of the log that the mart has, what it was derived under, and how it goes."""

    source: str = ""
    slot: str = ""
    generation: int = 0
    id: int = 0
    tables: tuple[str, ...] = ()
    columns: Mapping[str, Sequence[str]] | None = None  # of changed rows, that it needs; None: it has not said
    meaning: str = ""
    depends: str | None = None  # the digest of what else it depends on
    comparing: str | None = None  # why everything is compared before changes are followed
    compare_after: Time | None = None
    compare_seconds: float | None = None
    seen: Seen | None = None
    not_before: Time | None = None
    rate: float | None = None  # changes a second
    mart: Storage | None = None
    lag_ms: float | None = None
    committed_at: Time | None = None
    applied_at: Time | None = None
    unseen_from: Time | None = None  # the oldest change that is there, and that a search may not see yet
    unseen_until: Time | None = None  # when it does; None: once somebody has it shown
    done: int | None = None  # of a large slice
    of: int | None = None

    @property
    def is_known(self) -> bool:
        """Whether it has come so far as to note where the log stood."""
        return bool(self.source)

    @classmethod
    def parse(cls, stored: Stored) -> Self:
        """How far a large slice was is for people; who goes on begins it again."""
        live = stored.get("live")
        return super().parse(live if isinstance(live, Mapping) else {})

    def dump(self) -> dict[str, object]:
        """Under a name of its own: so other programs have told live positions apart ever since."""
        stored = super().dump()
        return {name: stored.pop(name) for name in PROGRESS if name in stored} | {"live": stored}

    def is_unseen(self, now: datetime) -> bool:
        """Whether a search may lack something that has come."""
        return self.unseen_from is not None and (self.unseen_until is None or now < self.unseen_until)

    def later(self, seconds: float) -> Self:
        """What is said of its lag includes the way."""
        return self if self.lag_ms is None else replace(self, lag_ms=round(self.lag_ms + seconds * 1000, 1))


TYPES: Mapping[str, type[Position]] = {
    "full": FullPosition,
    "incremental": IncrementalPosition,
    "live": LivePosition,
}
ADAPTERS: Mapping[type[Position], TypeAdapter[Position]] = {kind: TypeAdapter(kind) for kind in TYPES.values()}


def parse_position(mode: str, stored: Stored | None) -> Position | None:
    """Where the last run left off; None: nowhere."""
    if not stored or (mode == "live" and not stored.get("live")):
        return None
    return TYPES[mode].parse(stored)

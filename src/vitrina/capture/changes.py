"""What a capture gives: changes, in chunks that end where transactions do; and what each kind must be able to do."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple, Protocol, TypeAlias

from psycopg import sql

from vitrina.domain.errors import RetryableError
from vitrina.meta.repos.captures import Capture, Figures, Origin

Statement: TypeAlias = sql.SQL | sql.Composed
Columns: TypeAlias = Mapping[str, Sequence[str]]
"""By relation."""

TRUNCATED, REWRITTEN = "T", "R"
CHUNK_ROWS = 20_000
CHUNK_BYTES = 8_000_000


class ContinuityLost(RetryableError):
    """Changes may be missing from here on: the source has to be read from another place, and marts compared in full."""


class Change(NamedTuple):
    """One changed row, or a whole relation (T, R). Images are JSON text; the fields are in the order of the log."""

    xid: int | None
    lsn: str | None
    committed_at: str
    relation: str
    op: str
    old_image: str | None
    new_image: str | None


@dataclass(frozen=True)
class Chunk:
    """Changes in commit order. Without a position it ends inside a transaction, and followers must not see it yet."""

    changes: Sequence[Change]
    position: str | None = None
    committed_at: datetime | str | None = None

    @property
    def rewrites(self) -> bool:
        """Whether a relation was truncated or changed: then its fingerprint has changed too."""
        return any(change.op in (TRUNCATED, REWRITTEN) for change in self.changes)


class Tap(Protocol):
    """One kind of capture at work on one source."""

    def open(self, capture: Capture) -> None:
        """Go on from the capture's position; ContinuityLost if that is impossible."""

    def poll(self, seconds: float) -> Chunk | None:
        """The next changes, of transactions that a snapshot of the source sees; None if `seconds` brought none."""

    def want(self, columns: Columns | None) -> bool:
        """Of what is read from now on, only these columns of each relation are needed; None: all. Whether it leaves
        the others out: a tap need not."""

    def acknowledge(self, position: str) -> None:
        """Everything up to here is stored; the source may forget it."""

    def idle_position(self) -> str | None:
        """Up to where nothing is left to store; None while something is."""

    def look(self) -> tuple[Figures, dict[str, str]]:
        """How the source keeps up, and its relations' fingerprints; ContinuityLost if something of ours is gone."""

    def tidy(self, position: str) -> None:
        """Throw away at the source what is stored up to `position`."""

    def reset(self, capture: Capture) -> Origin:
        """Put right what is gone and say from where changes can be captured again."""

    def close(self) -> None:
        """End the sessions."""

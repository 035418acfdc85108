"""Captures: who reads which source, how far, and what may be missing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime
from typing import Any, Self
from uuid import UUID

from psycopg.rows import DictRow
from psycopg.types.json import Jsonb

from vitrina.domain.errors import LeaseLost
from vitrina.meta.db import Connection, fetch_all, fetch_one, queries, translated
from vitrina.meta.repos.leases import storable
from vitrina.meta.repos.marks import CAPTURE, Mark

SQL = queries("captures")


@dataclass(frozen=True)
class Origin:
    """A place in a source's history, and the server for which alone it means anything."""

    position: str
    system_identifier: str
    timeline: int


@dataclass(frozen=True)
class Given:
    """What somebody else has made for a capture, by name."""

    publication: str | None = None
    slot: str | None = None


@dataclass(frozen=True)
class Capture:
    """A row of `etl_captures`."""

    source: str
    kind: str  # how the source is set up
    tap: str | None  # the package's own that reads it, by name; None: ours
    tables: tuple[str, ...]
    slot: str  # the log's own name; of what we make at the source too
    given_publication: str | None  # made by somebody else: used, and left as it is
    given_slot: str | None
    installed_at: datetime | None
    position: str | None
    system_identifier: str | None
    timeline: int | None
    fingerprints: dict[str, str]
    last_id: int
    log_start: int
    committed_at: datetime | None
    generation: int
    generation_reason: str
    generation_at: datetime
    owner: UUID | None
    runner: str | None
    expires_at: datetime | None
    epoch: int
    caught_up_at: datetime | None
    lag_bytes: int | None
    safe_wal_size: int | None
    wal_status: str | None
    failures: int
    retry_at: datetime | None
    last_error: str | None
    images: dict[str, list[str]] | None  # the columns that the log keeps, by relation; None: all
    now: datetime  # by the meta-store's clock, when it was read

    @classmethod
    def from_row(cls, row: DictRow) -> Self:
        """From `list`, `claim` or `start_over`."""
        return cls(**({f.name: row[f.name] for f in fields(cls)} | {"tables": tuple(row["tables"])}))

    @property
    def publication(self) -> str:
        """Ours is named as the slot is."""
        return self.given_publication or self.slot

    @property
    def read_slot(self) -> str:
        """The one that is read."""
        return self.given_slot or self.slot

    @property
    def given(self) -> "Given":
        """What of it somebody else has made."""
        return Given(self.given_publication, self.given_slot)

    def at(self, origin: Origin) -> "Capture":
        """The same, elsewhere in history."""
        return replace(self, **vars(origin))


NOTHING = Given()


@dataclass(frozen=True)
class Figures:
    """What a look at the source told: how far behind, and how much longer its WAL is kept."""

    lag_bytes: int | None = None
    safe_wal_size: int | None = None
    wal_status: str | None = None


@dataclass(frozen=True)
class CaptureRepo:
    """Table `etl_captures`; what a holder writes is guarded by owner and epoch."""

    conn: Connection
    seconds: float = 30

    def all(self) -> list[Capture]:
        """By source."""
        return [Capture.from_row(row) for row in fetch_all(self.conn, SQL["list"], {"source": None})]

    def find(self, source: str) -> Capture | None:
        """The capture of a source, also one that is being installed."""
        row = fetch_one(self.conn, SQL["list"], {"source": source})
        return Capture.from_row(row) if row else None

    def newest(self, source: str, relations: Sequence[str]) -> int:
        """The id of the last change of any of these relations; 0: there was none."""
        row = fetch_one(self.conn, SQL["newest"], {"source": source, "relations": list(relations)})
        return int(row["id"] or 0) if row else 0

    def prepare(self, source: str, kind: str, tap: str | None, slot: str, given: Given = NOTHING) -> Capture:
        """Note what is about to be installed, unless something is there already."""
        params = {"source": source, "kind": kind, "tap": tap, "slot": slot}
        names = {"given_publication": given.publication, "given_slot": given.slot}
        with translated(), self.conn.transaction():
            self.conn.execute(SQL["prepare"], params | names)
        found = self.find(source)
        assert found is not None
        return found

    def installed(self, source: str, tables: Sequence[str], prints: Mapping[str, str], origin: Origin | None) -> None:
        """Everything is in place at the source; `origin`, for a new one: where it starts."""
        place = vars(origin) if origin else dict.fromkeys(Origin.__dataclass_fields__)
        params = {"source": source, "tables": list(tables), "fingerprints": Jsonb(dict(prints))} | place
        fetch_one(self.conn, SQL["installed"], params)

    def interrupt(self, source: str, reason: str, origin: Origin, prints: Mapping[str, str]) -> None:
        """An installation was repaired: changes may be missing, all followers compare in full."""
        params = {"source": source, "reason": storable(reason), "fingerprints": Jsonb(dict(prints))} | vars(origin)
        fetch_one(self.conn, SQL["interrupt"], params)

    def forget(self, source: str) -> None:
        """Removed; whoever captures loses the lease."""
        fetch_one(self.conn, SQL["forget"], {"source": source})

    def free(self) -> list[str]:
        """Sources that nobody captures, though they could be."""
        return [row["source"] for row in fetch_all(self.conn, SQL["free"])]

    def claim(self, source: str, owner: UUID, runner: str) -> Capture | None:
        """Take a capture that is free or whose holder is silent, through this session; None if another was first."""
        if fetch_one(self.conn, SQL["expel"], {"source": source}):
            Mark(self.conn, source, CAPTURE).expel()
        params = {"source": source, "owner": owner, "runner": runner, "seconds": self.seconds}
        row = fetch_one(self.conn, SQL["claim"], params)
        return Capture.from_row(row) if row else None

    def renew(
        self,
        held: Capture,
        figures: Figures,
        *,
        position: str | None,
        caught_up: bool,
        fingerprints: Mapping[str, str] | None = None,
    ) -> None:
        """The heartbeat; a LeaseLost when another has it."""
        prints = Jsonb(dict(fingerprints)) if fingerprints is not None else None
        params = vars(figures) | {"position": position, "caught_up": caught_up, "fingerprints": prints}
        self._guarded("renew", held, params)

    def start_over(self, held: Capture, reason: str, origin: Origin, fingerprints: Mapping[str, str]) -> Capture:
        """Continuity is lost: another generation, from `origin`."""
        params = {"reason": storable(reason), "fingerprints": Jsonb(dict(fingerprints))} | vars(origin)
        return Capture.from_row(self._guarded("start_over", held, params))

    def release(self, held: Capture) -> None:
        """Let another go on."""
        fetch_one(self.conn, SQL["release"], self.guard(held))

    def fail(self, held: Capture, error: str) -> None:
        """Keep the error, and leave the source alone for a while."""
        fetch_one(self.conn, SQL["fail"], self.guard(held) | {"error": storable(error)})

    def needs(self, source: str) -> list[dict[str, list[str]] | None]:
        """What each live pipeline of a source needs of changed rows; None: it has not said."""
        return [row["columns"] for row in fetch_all(self.conn, SQL["needs"], {"source": source})]

    def keep_images(self, held: Capture, columns: Mapping[str, Sequence[str]] | None) -> None:
        """Say what is kept of changed rows."""
        images = None if columns is None else Jsonb({name: list(kept) for name, kept in columns.items()})
        self._guarded("keep_images", held, {"images": images})

    def followers(self, source: str) -> list[DictRow]:
        """Live pipelines of a source, and how far each is behind; backlog None: it will compare in full."""
        return fetch_all(self.conn, SQL["followers"], {"source": source})

    def guard(self, held: Capture) -> dict[str, Any]:
        """What every statement of a holder is guarded by."""
        return {"source": held.source, "owner": held.owner, "epoch": held.epoch, "seconds": self.seconds}

    def _guarded(self, name: str, held: Capture, params: Mapping[str, Any]) -> DictRow:
        row = fetch_one(self.conn, SQL[name], self.guard(held) | dict(params))
        if row is None:
            raise LeaseLost(f"the capture of {held.source!r} is another runner's now")
        return row

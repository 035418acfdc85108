"""A source, opened as the reader: what every kind can do, and what only some can.

A kind is a folder beside this module with a class over `Source`, and a line in `registry.py`. What a kind cannot do it
leaves as it is here: then whoever asks for it is refused, and told what to do instead. Whoever can do without asks
`abilities` first. What all can do is enough for mode `full`: rows are staged, and compared in the warehouse.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal, NamedTuple, NoReturn, Self
from urllib.parse import urlsplit, urlunsplit

import psycopg
from psycopg import sql

from vitrina.domain.errors import ConfigError
from vitrina.domain.findings import Finding
from vitrina.domain.positions import Place
from vitrina.domain.reasons import Reason
from vitrina.domain.refusals import Refusal
from vitrina.domain.source_refusals import SourceRefusal
from vitrina.domain.wording import Because
from vitrina.meta.db import Connection
from vitrina.meta.repos.clock import Clock
from vitrina.settings import Settings
from vitrina.sources.engine import Engine, Errand
from vitrina.sources.sight import MODES, Seen, Sight, lacking
from vitrina.sql.describe import Column
from vitrina.sql.guard import check_select
from vitrina.sql.lineage import tables_of
from vitrina.transforms import Row
from vitrina.transforms.frames import Batch


@dataclass(frozen=True)
class Abilities:
    """What a source can do besides telling its columns and giving all its rows."""

    is_local: bool = False  # it is the warehouse itself, where one statement can read the query and write the mart
    speaks_sql: bool = False  # Postgres' own: it takes statements that are composed around the SELECT
    has_catalogue: bool = False  # of Postgres: tells what a query reads, calls and depends on
    has_horizon: bool = False  # tells up to where the rows of a cursor are final, and whether it has gone back
    is_capturable: bool = False  # its changes can be followed
    writes_files: bool = False  # it has an engine that reads and writes marts of files where they are
    gives_windows: bool = False  # it gives the rows from a cursor on, and whatever it holds is final
    gives_blocks: bool = False  # its rows come as COPY takes them, in binary, without anybody looking at one


Ability = Literal["speaks_sql", "has_catalogue", "has_horizon", "is_capturable", "writes_files"]
MEANINGS: dict[Ability, Reason] = {
    "speaks_sql": Reason.SPEAKS_SQL,
    "has_catalogue": Reason.HAS_CATALOGUE,
    "has_horizon": Reason.HAS_HORIZON,
    "is_capturable": Reason.IS_CAPTURABLE,
    "writes_files": Reason.WRITES_FILES,
}
NEEDS: Mapping[str, Sequence[Ability]] = {
    "incremental": ("speaks_sql", "has_horizon"),
    "live": ("speaks_sql", "has_catalogue", "is_capturable"),
}


class Catalogue(NamedTuple):
    """A session of Postgres as the reader, and the settings that the query runs with there."""

    conn: Connection
    settings: Mapping[str, str]


@dataclass(frozen=True)
class Estimate:
    """How much a SELECT gives, by a guess."""

    rows: float
    width: float  # bytes of a row


@dataclass(frozen=True)
class Horizon:
    """Up to where rows are final, and who keeps it from moving on."""

    at: datetime | None  # None: nothing new is final
    now: datetime
    holder: dict[str, Any] | None


@dataclass(frozen=True)
class Address:
    """Where a source is, and how it is to be read there."""

    name: str
    url: str
    is_local: bool
    reading: Mapping[str, str]  # settings of a transaction that reads, where there are any
    settings: Settings


def hide_secrets(url: str) -> str:
    """An address as people may see it: where, and nothing of how one signs in but the name."""
    parts = urlsplit(url)
    user = f"{parts.username}@" if parts.username else ""
    port = f":{parts.port}" if parts.port else ""
    return urlunsplit((parts.scheme, f"{user}{parts.hostname or ''}{port}", parts.path, "", ""))


def nothing() -> None:
    """There is nothing to load."""


@dataclass(frozen=True)
class Kind:
    """A kind of source: by which schemes its addresses begin, what it can do at most, and how one is opened."""

    schemes: tuple[str, ...]
    abilities: Abilities
    open: Callable[[Address], "Source"]
    check: Callable[[str, Collection[str]], str] = check_select  # a SELECT by grammar, given the allowed schemas
    shown: Callable[[str], str] = hide_secrets  # an address without its secrets
    tables: Callable[[str], list[str]] = (
        tables_of  # that a SELECT names, as schema.table: of Postgres, which may be marts
    )
    load: Callable[[], object] = nothing  # import what opening one needs, so that no run waits for it


@dataclass(frozen=True)
class Source(ABC):
    """One source, open. Columns have types of Postgres, and values are as it writes them: the mart is there."""

    name: str
    abilities: Abilities

    @property
    @abstractmethod
    def is_lost(self) -> bool:
        """Whether the way to it is broken."""

    @abstractmethod
    def close(self) -> None:
        """Let go of it."""

    @abstractmethod
    def cancel(self) -> None:
        """End what it is doing now; from another thread."""

    @abstractmethod
    def version(self) -> str:
        """What answers there."""

    @abstractmethod
    def judge(self, select: str, *, schemas: Collection[str], functions: Collection[str] = ()) -> list[Finding]:
        """What is wrong with a SELECT, and what is worth saying about it; it is not executed."""

    def vet(self, select: str, *, schemas: Collection[str], functions: Collection[str] = ()) -> list[Finding]:
        """What is worth saying about a SELECT that may run; a ConfigError lists all that is wrong with another."""
        findings = self.judge(select, schemas=schemas, functions=functions)
        if wrong := [finding.because for finding in findings if finding.level == "error"]:
            raise ConfigError.of(Refusal.QUERY_NOT_ALLOWED, problems=wrong, way="")
        return findings

    @abstractmethod
    def describe(self, select: str) -> list[Column]:
        """The columns of a SELECT."""

    @abstractmethod
    def estimate(self, select: str) -> Estimate | None:
        """How much a SELECT gives, if that can be told at little cost."""

    @abstractmethod
    def rows(self, select: str, size: int) -> Iterator[Batch]:
        """All that a SELECT gives, about `size` rows at a time, every value as text."""

    def first_rows(self, select: str, limit: int) -> Iterator[Batch]:
        """At least so many of them, if there are, for somebody who wants no more."""
        return self.rows(select, limit)

    def window(self, select: str, cursor: str, value: str | None) -> str:
        """The SELECT, of rows whose cursor is at or after a value, or is NULL; of a kind that gives windows."""
        raise AssertionError(f"{self.name} gives no windows of {cursor}")

    def blocks(self, select: str) -> Iterator[bytes]:
        """The same in the binary form of COPY, in the types that `describe` tells; of a kind that gives blocks."""
        raise AssertionError(f"{self.name} gives no blocks")

    def own_settings(self) -> dict[str, str]:
        """What a statement that reads the SELECT where the mart is has to run with, to give the same."""
        return {}

    def require(self, mode: str) -> None:
        """A ConfigError if a mode asks for more than it can."""
        for lacked in self._lacks(mode):
            raise ConfigError.of(SourceRefusal.MODE_NEEDS, source=self.name, reason=lacked, mode=mode)

    def _lacks(self, mode: str) -> list[Because]:
        """What a mode needs and it cannot do; windows are another way to read by a cursor."""
        needs = () if mode == "incremental" and self.abilities.gives_windows else NEEDS.get(mode, ())
        return [MEANINGS[ability].of() for ability in needs if not getattr(self.abilities, ability)]

    def refuse(self, ability: Ability) -> NoReturn:
        """For what it cannot do."""
        raise lack(self.name, ability)

    def sight(self, schemas: Collection[str], capturer: str | None, setting: str) -> Sight:
        """What its reader finds there; of a kind that tells nothing of itself, what it lacks."""
        del schemas, capturer, setting
        names = {mode: mode.partition(" ")[0] for mode in MODES}
        return Sight(obstacles={mode: [lacking(mode, each) for each in self._lacks(n)] for mode, n in names.items()})

    def tables(self, schemas: Collection[str], limit: int) -> Seen:
        """The tables of these schemas with their columns, as far as it tells."""
        del schemas, limit
        return Seen()

    # ── speaks_sql ───────────────────────────────────────────────────────────────────────────────────────────

    def within(self, seconds: float) -> Self:
        """The same source, with less patience; one that knows none is as patient as ever."""
        del seconds
        return self

    def plan(self, query: sql.Composable, args: Sequence[str | None] = ()) -> dict[str, Any]:
        """The planner's plan of a query."""
        self.refuse("speaks_sql")

    def cost(self, query: sql.Composable, args: Sequence[str | None] = ()) -> tuple[float, float]:
        """What the planner thinks a query costs, and how many rows it gives."""
        self.refuse("speaks_sql")

    def copy_out(self, query: sql.Composable, copy_format: str) -> AbstractContextManager[psycopg.Copy]:
        """The result of a query as COPY blocks."""
        self.refuse("speaks_sql")

    def text_batches(self, query: sql.Composable, size: int) -> Iterator[Batch]:
        """A query's rows, `size` at a time."""
        self.refuse("speaks_sql")

    def fetch(self, query: sql.Composable, args: Sequence[str | None] = ()) -> list[Row]:
        """A small result, whole."""
        self.refuse("speaks_sql")

    # ── writes_files ─────────────────────────────────────────────────────────────────────────────────────────

    def engine(self, errand: Errand) -> Engine:
        """To compare and converge where source and mart are; of one run."""
        self.refuse("writes_files")

    # ── has_catalogue ────────────────────────────────────────────────────────────────────────────────────────

    @property
    def catalogue(self) -> Catalogue:
        """For questions about what a query means, and about the transactions of its server."""
        self.refuse("has_catalogue")

    def reads(self, select: str) -> list[str]:
        """The relations that a SELECT reads, as schema.name, what is behind views included."""
        self.refuse("has_catalogue")

    # ── has_horizon ──────────────────────────────────────────────────────────────────────────────────────────

    def horizon(self, margin: timedelta) -> Horizon:
        """The moment before which every transaction has ended, less the margin; outside any transaction."""
        self.refuse("has_horizon")

    def naive(self, at: datetime) -> str:
        """A moment as the source's clock shows it without a time zone."""
        self.refuse("has_horizon")

    def now(self) -> datetime:
        """By its own clock."""
        self.refuse("has_horizon")

    def place(self, clock: Clock) -> Place:
        """Where it is in its history, beside the meta-store's clock."""
        self.refuse("has_horizon")

    def why_behind(self, before: Place, now: Place) -> str:
        """Why rows may come that are older than they could have been at a place before; empty when none can."""
        self.refuse("has_horizon")


def lack(source: str, ability: Ability) -> ConfigError:
    """For who asks a source for what its kind cannot do."""
    return ConfigError.of(SourceRefusal.SOURCE_CANNOT, source=source, reason=MEANINGS[ability].of())

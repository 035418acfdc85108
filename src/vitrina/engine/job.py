"""What a mode needs to work, and what each of its steps gives back."""

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Any, Protocol, TypeAlias, TypeVar, cast
from uuid import UUID

import psycopg
from psycopg import sql
from psycopg.rows import dict_row

from vitrina.domain.events import Event, Measured
from vitrina.domain.pipeline import BATCH_SIZE, Plan
from vitrina.domain.positions import Position
from vitrina.domain.run import NOTHING, Counts, RunOptions
from vitrina.domain.wording import Data
from vitrina.engine.changed import Changes
from vitrina.engine.checks import Checks
from vitrina.engine.mart import Mart, Wanted
from vitrina.engine.stage import Stage
from vitrina.engine.writer import Writer
from vitrina.meta.db import Connection
from vitrina.settings import Settings
from vitrina.sources.source import Source
from vitrina.sql.describe import Column
from vitrina.transforms import Row
from vitrina.transforms.chain import Transformer
from vitrina.transforms.running import Transforming


@dataclass(frozen=True)
class StepResult:
    """What a step did, to be committed together with it: counters, the position reached, and a line for the log."""

    event: Event
    counts: Counts = NOTHING
    position: Position | None = None
    fields: Data = field(default_factory=dict)
    is_batch: bool = False
    quiet: bool = False  # one of many: counted, and not written into the run's log

    @property
    def share(self) -> float:
        """How much of what was found is done, as far as the step tells."""
        measured = cast(Measured, self.fields)
        return measured["done"] / measured["of"] if measured.get("of") else 0.0


Step: TypeAlias = Callable[[Connection], StepResult]
"""Runs inside one transaction, which the ledger fences and commits."""


T = TypeVar("T")
Found: TypeAlias = tuple[StepResult, T]


def finding(find: Callable[[Connection], Found[T]]) -> Generator[Step, None, T]:
    """One step that finds out what those after it go on with: `work = yield from finding(prepare)`."""
    found: list[T] = []

    def step(conn: Connection) -> StepResult:
        result, value = find(conn)
        found.append(value)
        return result

    yield step
    return found[0]


def each(steps: Generator[Step, None, T], held: Callable[[Step, Connection], StepResult]) -> Generator[Step, None, T]:
    """The same steps, each within another; what they come to is theirs."""
    while True:
        try:
            step = next(steps)
        except StopIteration as end:
            value: T = end.value
            return value
        yield partial(held, step)


class Awaiting(Exception):
    """Raised between two steps: nothing can be done before somebody outside is. The run gives its slot back; it is due
    again once that one is done."""


class StepDown(Exception):
    """Raised by a mode that stays: what is to be done now is a run's, and why."""


def rest(conn: Connection) -> StepResult:
    """No step: whoever follows has nothing to do until something happens. Only a mode that stays gives it, and nobody
    takes it."""
    raise AssertionError(f"there is nothing to do, and {conn} was asked to")


class Stay(Protocol):
    """What a mode that stays tells of itself between its steps to whoever drives it, and is told by them."""

    tables: Sequence[str]  # whose changes concern it
    at: int  # the last change that it has looked at
    wake_at: float  # when it wants to go on, whatever happens; monotonic
    waits: bool  # until then, whatever happens

    def forward(self, position: Position | None) -> Position | None:
        """The same, after the last change of which it was told that nothing up to it is its concern."""
        ...


class Mode(Protocol):
    """A way of finding keys, as the steps that find and converge them."""

    def steps(self) -> Generator[Step, None, None]:
        """In order; each is one fenced transaction."""
        ...

    def wind_up(self) -> Iterator[Step]:
        """What is left to do when a run is interrupted between two steps."""
        return iter(())

    @property
    def is_burst(self) -> bool:
        """Whether the run did nothing but follow changes: one of many, that the history sums up."""
        return False


@dataclass(frozen=True)
class Limits:
    """The settings that a mode works within."""

    max_delete_share: float
    max_delete_rows: int
    horizon_margin: timedelta
    trusted_owners: Sequence[str] = ()

    def why_refused(self, gone: int, mart: int, read: int) -> str:
        """Why so many deletes stop a run that nobody has allowed them; empty when they do not."""
        if read == 0 and gone > 0:
            return "the query gives no rows at all"
        return f"more than {self.max_delete_share:.0%}" if self.are_many(gone, mart) else ""

    def are_many(self, gone: int, mart: int) -> bool:
        """By number and by share: few rows of a small mart, or a small share of a large one, are everyday life."""
        return gone > self.max_delete_rows and gone > self.max_delete_share * mart


Pour: TypeAlias = Callable[[Any, Connection], tuple[int, int]]
"""Everything that the query gives, into a table; how many rows were read and written."""


class Sharing(Protocol):
    """A reading of the query that other targets of it have part in."""

    def fill(self, stage: Stage, job: "Job", pour: "Pour", conn: Connection) -> tuple[int, bool]:
        """The rows that the query gives, into a target's own stage; how many, and whether it was read for that."""
        ...

    def leave(self, conn: Connection) -> None:
        """Once nothing more can be wrong with them: others may wait for it until the step is done."""
        ...


class Beyond(Protocol):
    """A mart that is not in this database: what is really there, against what was sent and has arrived."""

    def is_emptied(self, conn: Connection) -> bool:
        """Whether nothing is there though something was sent."""
        ...

    def weed(self, conn: Connection) -> int:
        """Delete what nobody sent; how much."""
        ...

    def doubt(self, conn: Connection, condition: sql.Composable) -> None:
        """What is not there as it was sent differs from now on, of the rows `m` that a condition is true for."""
        ...


@dataclass
class Pace:
    """How many rows make a batch: `reload-config` may change it between two."""

    batch_size: int


@dataclass(frozen=True)
class Job:
    """One claimed run: the plan, its source, and where the last run left off."""

    pipeline_id: UUID
    plan: Plan
    writer: Writer
    reader: Source
    select: str  # what is read: the plan's SELECT, or that SELECT with documents built from its rows
    columns: tuple[Column, ...]  # of that
    transformer: Transformer | None
    pace: Pace
    options: RunOptions
    limits: Limits
    position: Position | None
    written_before: dict[str, str]
    settings: Settings
    check: Callable[[], None] = lambda: None  # raises when the run should stop; for loops inside a step
    tell: Callable[..., None] = lambda *_, **__: None  # a line for the run's log, at once
    say: Callable[..., None] = lambda *_, **__: None  # the same, where nothing is amiss
    name: str = ""  # for people elsewhere: the pipeline and the run
    stay: Stay | None = None  # of a mode that stays, and rests where a run would end
    was_asked_for: bool = False  # by somebody, rather than due by itself
    checks: Checks | None = None  # what is asked of the rows; None: nothing, or nothing is written
    changes: Changes | None = None  # what is told of the rows that it changes; None: nothing
    sharing: Sharing | None = None  # of several targets that are due together
    beyond: Beyond | None = None  # for a look at the mart itself, where statements do not reach it

    @property
    def batch_size(self) -> int:
        """As it is by now."""
        return self.pace.batch_size

    @property
    def output(self) -> tuple[Column, ...]:
        """The columns that reach the mart."""
        return self.transformer.columns if self.transformer else self.columns

    @property
    def transforming(self) -> Transforming | None:
        """The transforms, at work."""
        return Transforming(self.transformer, self.settings, self.check) if self.transformer else None

    @property
    def described(self) -> tuple[Column, ...]:
        """The columns of the user's own SELECT."""
        return self.columns if self.transformer else self.written

    @property
    def written(self) -> tuple[Column, ...]:
        """The columns, or fields, of the mart."""
        return self.writer.fields or self.output

    @property
    def wanted(self) -> Wanted:
        """What the mart has to be like. A cursor that an existing mart does not have is read and not written."""
        plan, trusted, scratch = self.plan, self.limits.trusted_owners, self.pipeline_id.hex
        return Wanted(
            plan.target, self.written, plan.key, plan.on_drift, plan.cursor or (), self.written_before, trusted, scratch
        )

    def slices(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """From start to end, a batch at a time, each as big as a batch is by then."""
        while start < end:
            upper = min(start + self.rows_at_once, end)
            yield start, upper
            start = upper

    @property
    def has_usual_batches(self) -> bool:
        """Whether nobody has said how many rows a batch has."""
        return self.batch_size == BATCH_SIZE

    @property
    def rows_at_once(self) -> int:
        """How many rows a transaction takes: a batch, or less where rows are large and have to be held in memory."""
        wanted = self.writer.abilities.usual_batch if self.has_usual_batches else self.batch_size
        return min(wanted, self.writer.most_rows)

    @property
    def stays_inside(self) -> bool:
        """Whether data never has to leave Postgres: a local source and no transforms."""
        return self.reader.abilities.is_local and self.transformer is None


def execute(
    conn: Connection, statement: sql.Composable, params: list[Any] | None = None, *, binary: bool | None = None
) -> psycopg.RawCursor[Row]:
    """Run a composed statement with `$1` parameters, so that a `%` in a name is just a character."""
    return psycopg.RawCursor(conn, row_factory=dict_row).execute(statement.as_bytes(conn), params, binary=binary)


def fetch(conn: Connection, statement: sql.Composable, params: list[Any] | None = None) -> Row:
    """The one row of a composed statement."""
    row = execute(conn, statement, params).fetchone()
    assert row is not None
    return row


def ask(conn: Connection, mart: Mart, statement: sql.Composable, params: list[Any] | None = None) -> list[Row]:
    """The rows of a statement that names a mart: as the writer, if the mart brings code of somebody's own along."""
    if mart.seal:
        return mart.seal.ask(conn, statement, params)
    with mart.held(conn):
        return execute(conn, statement, params).fetchall()


def write(conn: Connection, mart: Mart, statement: sql.Composable, params: list[Any] | None = None) -> int:
    """The same of one that gives no rows; how many it wrote."""
    if mart.seal:
        return mart.seal.write(conn, statement, params)
    with mart.held(conn):
        return execute(conn, statement, params).rowcount

"""Watching a run: what it says becomes progress, and its end becomes the exit code."""

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol, cast

from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from vitrina.cli.output import Format, console, note, parse_time, say, span
from vitrina.cli.waits import waiting
from vitrina.client import POLL_SECONDS, Client, NotFound, Requested, Run, Status, check_deadline
from vitrina.domain.events import Event, Measured

Json = dict[str, Any]
ENDED = ("IDLE", "FOLLOWING", "PAUSED", "FAILED")
QUIET_SECONDS = 3  # before we look whether there is a runner at all
LINE_SECONDS = 1.0  # between two lines about batches, elsewhere than on a terminal


@dataclass
class Tally:
    """What a run has said so far, added up. Times are the run's own, so a replay tells the same."""

    phase: str = "waiting for a runner"
    moved: int = 0
    read: int = 0
    batches: int = 0
    done: int = 0
    of: int | None = None
    first: datetime | None = None
    last: datetime | None = None
    before_progress: datetime | None = None

    def add(self, event: Json) -> None:
        """One more event."""
        fields, at = cast(Measured, event["fields"]), parse_time(event["at"])
        self.phase = event.get("message") or event["event"]
        if event["event"] == Event.WAITS:
            self.phase = "waits for {neighbour}, next try in {in_seconds:g} s".format_map(event["fields"])
        self.first = self.first or at
        self.read += fields.get("rows_read", 0)
        self.moved += fields.get("rows_written", 0) + fields.get("rows_deleted", 0)
        if "of" in fields:
            self.before_progress = self.before_progress or self.last or at
            self.done, self.of, self.batches = fields["done"], fields["of"], self.batches + 1
        elif event["event"] == Event.UPSERTED:
            self.batches += 1
        self.last = at

    @property
    def seconds(self) -> float:
        """From its first word to its last."""
        return (self.last - self.first).total_seconds() if self.first and self.last else 0.0

    @property
    def eta(self) -> float | None:
        """Seconds to go, once the end is known."""
        if not self.of or not self.done or not self.last or not self.before_progress:
            return None
        return (self.last - self.before_progress).total_seconds() / self.done * (self.of - self.done)

    def line(self) -> str:
        """For people."""
        rows = self.moved or self.read
        parts = [self.phase]
        if rows:
            parts.append(f"{rows:,} rows")
        if rows and self.seconds > 0:
            parts.append(f"{rows / self.seconds:,.0f} rows/s")
        if self.batches:
            parts.append(f"batch {self.batches:,}")
        if self.of and self.done < self.of:
            parts.append(f"{self.done / self.of:.0%}")
        if self.eta:
            parts.append(f"ETA {span(self.eta)}")
        return ", ".join(parts)


class Screen(Protocol):
    """Where progress is shown."""

    def show(self, tally: Tally) -> None:
        """It has moved on."""


@dataclass
class Lines:
    """Elsewhere than on a terminal: a line per phase, and one a second at most within it."""

    name: str
    shown: str = ""
    at: float = 0.0

    def show(self, tally: Tally) -> None:
        """If it is news."""
        now = time.monotonic()
        if tally.phase != self.shown or now - self.at >= LINE_SECONDS:
            say(f"{self.name}: {tally.line()}")
            self.shown, self.at = tally.phase, now


@dataclass
class Bar:
    """On a terminal: one bar."""

    progress: Progress
    task: TaskID

    def show(self, tally: Tally) -> None:
        """Move it."""
        self.progress.update(self.task, completed=tally.done, total=tally.of, said=tally.line())


class Nothing:
    """For --output json."""

    def show(self, tally: Tally) -> None:
        """Say nothing."""


@contextmanager
def screen(name: str, output: Format) -> Iterator[Screen]:
    """The one that suits where we write to."""
    out = console()
    if output is Format.json:
        yield Nothing()
    elif not out.is_terminal:
        yield Lines(name)
    else:
        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[said]}", markup=False),
            TimeElapsedColumn(),
        )
        with Progress(*columns, console=out, transient=True) as progress:
            yield Bar(progress, progress.add_task(name, total=None, said=Tally().phase))


@dataclass
class Watch:
    """Follows a request to the end of the run that it leads to, over every attempt."""

    client: Client
    requested: Requested
    screen: Screen
    deadline: float | None = None
    tally: Tally = field(default_factory=Tally)

    def until_end(self) -> Run:
        """The run that ended it: the first success, or the last attempt."""
        patience, shown = Patience(self.client, self.requested.name), self.requested.after_run
        while True:
            found = self.client.outcome(self.requested)
            if found.run and found.run.id > shown:
                shown = found.run.id
                self._follow(found.run)
            elif found.run and found.ended:
                return found.run
            else:
                check_deadline(self.deadline)
                patience.wait()

    def until_paused(self) -> Status:
        """Where it stands once it rests."""
        while True:
            status = self.client.status(str(self.requested.id))
            if status.status in ENDED:
                return status
            check_deadline(self.deadline)
            time.sleep(POLL_SECONDS)

    def _follow(self, run: Run) -> None:
        """Show what it says; nothing if it is gone, as those of a live pipeline are that are kept with their hour."""
        self.tally = Tally()  # each attempt counts from zero
        with suppress(NotFound):
            for event in self.client.follow(run.id, self.deadline):
                if event.name != "end":
                    self.tally.add(event.data)
                    self.screen.show(self.tally)


@dataclass
class Patience:
    """Waits in small steps, and says once why: nobody is there, or a run that nobody begins waits itself."""

    client: Client
    name: str = ""  # of the pipeline that is to run
    since: float = field(default_factory=time.monotonic)
    said: bool = False

    def wait(self) -> None:
        """A little longer."""
        if not self.said and time.monotonic() - self.since > QUIET_SECONDS:
            self.since, why = time.monotonic(), self._why()
            self.said = why is not None
            if why:
                note(why)
        time.sleep(POLL_SECONDS)

    def _why(self) -> str | None:
        if not any(runner.alive for runner in self.client.runners()):
            return "no runner is alive, and only a runner can do this: start one with: vitrina up (or vitrina runner)"
        waits = self.client.status(self.name).waits if self.name else None
        return f"{self.name} {waiting(waits)}" if waits else None

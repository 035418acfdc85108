"""A capture at work: poll the source, append to the log, tell the source; look around now and then; start over when
continuity is lost. One thread, one source, one lease."""

import time
from dataclasses import dataclass, field, replace
from threading import Event

from vitrina.capture.appending import LogWriter, rewritten
from vitrina.capture.changes import REWRITTEN, Chunk, ContinuityLost, Tap
from vitrina.capture.images import Images
from vitrina.domain.errors import ConfigError, RetryableError
from vitrina.failpoints import reach
from vitrina.log import log
from vitrina.meta.db import Connection
from vitrina.meta.repos.captures import Capture, CaptureRepo, Figures

POLL_SECONDS = 0.25


@dataclass(frozen=True)
class Pace:
    """How often what is done, in seconds."""

    renew: float = 1.0
    look: float = 5.0
    narrow: float = 10.0  # until columns are left out that nobody needs
    quiet: float = 30.0  # between two generations: all live marts of the source are compared in full after each


@dataclass
class Engine:
    """Holds the lease until told to stop, or until an error or another holder ends it."""

    conn: Connection
    held: Capture
    tap: Tap
    lease_seconds: float
    max_rows: int
    pace: Pace = field(default_factory=Pace)
    figures: Figures = field(default_factory=Figures)

    def __post_init__(self) -> None:
        self.repo = CaptureRepo(self.conn, self.lease_seconds)
        self.images = Images(self.repo, self.held, self.tap, self.pace.narrow)
        self.writer = LogWriter(self.conn, self.held, self.lease_seconds, self.max_rows)
        self._prints = self.held.fingerprints
        self._position = self._acknowledged = self.held.position or ""
        self._renewed = self._looked = self._began = time.monotonic()
        self._whole = True  # everything that was appended is published
        self._quiet = False  # the last poll brought nothing

    def run(self, stopping: Event) -> None:
        """Capture. An error ends it; lost continuity does not."""
        self.writer.start()
        self.images.start()
        lost = self._open()
        while not stopping.is_set():
            lost = self._start_over(lost) if lost else self._step()
        self._renew()

    def _open(self) -> ContinuityLost | None:
        try:
            self.tap.open(self.held)
            self._look()
        except ContinuityLost as lost:
            return lost
        log.info("capturing", source=self.held.source, kind=self.held.kind, position=self._position)
        return None

    def _step(self) -> ContinuityLost | None:
        """Some changes, if there are any; the lease; a look around."""
        try:
            chunk = self.tap.poll(POLL_SECONDS)
            self._quiet = chunk is None
            if chunk:
                self._store(chunk)
            if time.monotonic() - self._renewed >= min(self.pace.renew, self.lease_seconds / 3):
                self._renew()
                self.images.look(at_rest=self._whole and self.tap.idle_position() is not None)
            if self._whole and time.monotonic() - self._looked >= self.pace.look:
                self._look()
        except ContinuityLost as lost:
            return lost
        return None

    def _store(self, chunk: Chunk) -> None:
        """What the disk has is acknowledged, never the other way round: with the next renewal."""
        self._whole = False
        if chunk.position is None:
            self.writer.append(chunk)
            return
        prints = None
        if chunk.rewrites:  # a truncated table is stored elsewhere now: one append says both
            self.figures, prints = self.tap.look()
            said = {change.relation for change in chunk.changes if change.op == REWRITTEN}
            chunk = replace(chunk, changes=[*chunk.changes, *rewritten(self._altered(prints) - said)])
        self.writer.append(chunk, prints)
        self._whole, self._position, self._prints = True, chunk.position or "", prints or self._prints

    def _look(self) -> None:
        """Is everything of ours still there, and are the relations what they were?"""
        self.figures, prints = self.tap.look()
        altered = self._altered(prints)
        if altered:
            log.warning("relations were rewritten or altered", source=self.held.source, relations=sorted(altered))
            self.writer.append(Chunk(rewritten(altered), self._position), prints)
        self._prints = prints
        self._renew()
        self.tap.tidy(self._position)
        self.writer.tidy()
        self._looked = time.monotonic()

    def _renew(self) -> None:
        """The heartbeat; without changes, the position moves on here. It waits for the disk, which has then all that
        was stored before."""
        idle = self.tap.idle_position() if self._whole else None
        is_news = self._position != self._acknowledged  # until it is told, a tap may think itself further back
        self.repo.renew(
            self.held,
            self.figures,
            position=None if is_news else idle,
            caught_up=self._quiet and idle is not None,
            fingerprints=self._prints,
        )
        self._renewed = time.monotonic()
        self._position = self._position if is_news or idle is None else idle
        if self._position != self._acknowledged:
            self._acknowledged = self._position
            self.tap.acknowledge(self._position)
            reach("after ack")

    def _start_over(self, lost: ContinuityLost) -> ContinuityLost | None:
        """Another generation, from where the source can be read again; not again and again in a row."""
        held = self.held
        since = (held.now - held.generation_at).total_seconds() + time.monotonic() - self._began
        if held.generation > 1 and since < self.pace.quiet:
            raise RetryableError(f"continuity was lost again, {since:.0f} s after the last time: {lost}")
        log.warning("continuity is lost, starting over", source=held.source, reason=str(lost))
        try:
            origin = self.tap.reset(held)
        except ConfigError as error:
            raise ConfigError(f"{lost}; {error.message}", error.remedy) from error
        try:
            self.tap.open(held.at(origin))
            self.figures, prints = self.tap.look()
        except ContinuityLost as again:
            return again
        self.held = self.repo.start_over(held, str(lost), origin, prints)
        self.writer.start()
        self._prints, self._began, self._whole = prints, time.monotonic(), True
        self._position = self._acknowledged = origin.position
        return None

    def _altered(self, prints: dict[str, str]) -> set[str]:
        """Relations that are no longer what they were; one that is new here was nothing before."""
        return {name for name, before in self._prints.items() if prints.get(name) != before}

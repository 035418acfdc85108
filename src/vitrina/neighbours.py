"""How the neighbours of this process answer, source by source and sink by sink; who does not answer is left alone.

A breaker is open from the first lost connection to the next answer. Pipelines of a neighbour whose breaker is open are
not claimed; somebody outside the slots tries, one connection at a time. One whom nobody has heard lately gets one slot
until it has answered, and none ever gets the last slot of a runner. Each process keeps this for itself: what one host
cannot reach, another may. See docs/adr/0004-a-breaker-per-neighbour.md.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from threading import Lock

from vitrina.domain.errors import DatabaseLost, RetryableError, VitrinaError
from vitrina.domain.pipeline import WAREHOUSE
from vitrina.log import log

HEARD_SECONDS = 20.0  # an answer is good for so long
MOMENT = timedelta(seconds=0.5)  # who answers again that soon has not been away: whoever lost them tries again later
CLAIM_SECONDS = 1.0  # that one slot waits for another's claim


@dataclass(frozen=True)
class Outage:
    """Since when somebody has not answered, what the last attempt said, and when the next is made."""

    since: datetime
    error: str
    next_at: datetime | None = None

    def as_json(self) -> dict[str, str | None]:
        """For people."""
        next_at = self.next_at.isoformat() if self.next_at else None
        return {"since": self.since.isoformat(), "error": self.error, "next_at": next_at}


@dataclass
class Neighbours:
    """By name: a source's own, or the prefix of a sink (`es:`). The warehouse is none: without it nothing works."""

    outages: dict[str, Outage] = field(default_factory=dict)
    heard: dict[str, float] = field(default_factory=dict)
    held: Counter[str] = field(default_factory=Counter)  # slots that work with it
    unanswered: Counter[str] = field(default_factory=Counter)  # of these, those that it has not answered yet
    on_answer: list[Callable[[], None]] = field(default_factory=list)  # somebody may be claimed again
    on_outage: list[Callable[[str], None]] = field(default_factory=list)
    on_end: list[Callable[[str], None]] = field(default_factory=list)  # of an outage that was more than a moment
    _lock: Lock = field(default_factory=Lock)
    _claiming: Lock = field(default_factory=Lock)

    def __reduce__(self) -> tuple[type["Neighbours"], tuple[()]]:
        """Another process begins anew."""
        return Neighbours, ()

    def avoided(self, slots: int) -> list[str]:
        """Whose pipelines should not be claimed now."""
        now, share = time.monotonic(), max(1, slots - 1)
        with self._lock:
            names = self.outages.keys() | self.held.keys()
            return sorted(name for name in names if self._is_avoided(name, now, share))

    def _is_avoided(self, name: str, now: float, share: int) -> bool:
        is_quiet = now - self.heard.get(name, -HEARD_SECONDS) >= HEARD_SECONDS
        return name in self.outages or self.held[name] >= share or (is_quiet and self.unanswered[name] > 0)

    @contextmanager
    def telling(
        self, on_answer: Callable[[], None], on_outage: Callable[[str], None], on_end: Callable[[str], None]
    ) -> Iterator[None]:
        """For the time being, these are told."""
        told = [(self.on_answer, on_answer), (self.on_outage, on_outage), (self.on_end, on_end)]
        for listeners, listener in told:
            listeners.append(listener)  # type: ignore[attr-defined]
        try:
            yield
        finally:
            for listeners, listener in told:
                listeners.remove(listener)  # type: ignore[attr-defined]

    @contextmanager
    def claiming(self) -> Iterator[None]:
        """One slot at a time looks who is avoided and claims; one that is kept waiting in there stops no other."""
        has_turn = self._claiming.acquire(timeout=CLAIM_SECONDS)
        try:
            yield
        finally:
            if has_turn:
                self._claiming.release()

    def take(self, names: Sequence[str]) -> "Hold":
        """A slot begins to work with them."""
        with self._lock:
            self.held.update(names)
            self.unanswered.update(names)
        return Hold(self, list(names))

    @contextmanager
    def asking(self, name: str) -> Iterator[None]:
        """Whatever the outcome, it is remembered: an error of another kind was an answer too."""
        try:
            yield
        except (DatabaseLost, RetryableError) as error:
            self.lose(name, error.message)
            error.neighbour = name
            raise
        except VitrinaError:
            self.hear(name)
            raise
        self.hear(name)

    def hear(self, name: str) -> None:
        """It has answered."""
        if name == WAREHOUSE:
            return
        with self._lock:
            self.heard[name] = time.monotonic()
            ended = self.outages.pop(name, None)
            is_awaited = ended is not None or self.unanswered.pop(name, 0) > 0
        if ended:
            log.info("answers again", neighbour=name, since=ended.since.isoformat())
            if datetime.now(UTC) - ended.since >= MOMENT:
                for tell_end in self.on_end:
                    tell_end(name)
        for tell in self.on_answer if is_awaited else ():
            tell()

    def lose(self, name: str, error: str) -> None:
        """It has not answered, or no longer does."""
        if name == WAREHOUSE:
            return
        with self._lock:
            before = self.outages.get(name)
            self.outages[name] = replace(before, error=error) if before else Outage(datetime.now(UTC), error)
            self.heard.pop(name, None)
        if before is None:
            log.warning("does not answer; its pipelines wait", neighbour=name, error=error)
            for tell in self.on_outage:
                tell(name)

    def ask_in(self, name: str, seconds: float) -> None:
        """Whoever asks it again does so then."""
        with self._lock:
            outage = self.outages.get(name)
            if outage:
                self.outages[name] = replace(outage, next_at=datetime.now(UTC) + timedelta(seconds=seconds))

    def down_since(self, name: str) -> datetime | None:
        """When it was first not heard; None: as far as anybody knows, it answers."""
        outage = self.outages.get(name)
        return outage.since if outage else None

    def require(self, name: str) -> None:
        """At once, what an attempt would say in the end: whoever waits for it keeps others waiting."""
        outage = self.outages.get(name)
        if outage:
            said = f"source {name!r} has not answered since {outage.since:%Y-%m-%d %H:%M:%S} UTC: {outage.error}"
            raise RetryableError(said, "ask again when it does")

    def release(self, names: Sequence[str]) -> None:
        """A slot is done with them."""
        with self._lock:
            self.held.subtract(names)
            for name in names:
                if self.held[name] <= 0:
                    self.held.pop(name)
                    self.unanswered.pop(name, None)
                elif self.unanswered[name] > self.held[name]:
                    self.unanswered[name] = self.held[name]

    def as_json(self) -> dict[str, dict[str, str | None]]:
        """Who does not answer, for people."""
        with self._lock:
            return {name: outage.as_json() for name, outage in self.outages.items()}


@dataclass(frozen=True)
class Hold:
    """What a slot works with."""

    neighbours: Neighbours
    names: list[str]

    def release(self) -> None:
        """It is done, and another may have its share."""
        self.neighbours.release(self.names)

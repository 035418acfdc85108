"""The engine of a capture, over a tap that only counts: what is told to the source, and when."""

from dataclasses import dataclass, field
from threading import Event

from tests.integration.test_change_log import chunk, claimed, store
from tests.support import Lab
from vitrina.capture.changes import Chunk, Columns
from vitrina.capture.engine import Engine, Pace
from vitrina.meta.repos.captures import Capture, CaptureRepo, Figures, Origin

__all__ = ["store"]  # a fixture


@dataclass
class Hindsight:
    """A tap that knows no more of how far it is than what it was told."""

    stopping: Event
    chunks: list[Chunk]
    told: list[tuple[str, int]] = field(default_factory=list)
    position: str = "0/10"
    polls: int = 0

    def open(self, capture: Capture) -> None: ...

    def poll(self, seconds: float) -> Chunk | None:
        self.polls += 1
        if self.chunks:
            return self.chunks.pop(0)
        self.stopping.set()
        return None

    def want(self, columns: Columns | None) -> bool:
        return False

    def acknowledge(self, position: str) -> None:
        self.told.append((position, self.polls))
        self.position = position

    def idle_position(self) -> str | None:
        return self.position

    def look(self) -> tuple[Figures, dict[str, str]]:
        return Figures(), {}

    def tidy(self, position: str) -> None: ...

    def reset(self, capture: Capture) -> Origin:
        raise NotImplementedError

    def close(self) -> None: ...


def capture(lab: Lab, pace: Pace) -> Hindsight:
    """Two chunks, and then nothing any more."""
    stopping = Event()
    tap = Hindsight(stopping, [chunk(1, position="0/20"), chunk(2, position="0/30")])
    with claimed(lab) as (held, log_writer):
        Engine(log_writer._conn, held, tap, 30, 1_000_000, pace).run(stopping)
    return tap


def test_the_source_is_told_when_a_commit_has_waited_for_the_disk(store: Lab) -> None:
    assert capture(store, Pace(renew=30)).told == [("0/30", 3)]  # at its end; no append has told anything


def test_a_tap_that_thinks_itself_further_back_moves_no_position_back(store: Lab) -> None:
    capture(store, Pace(renew=0))
    found = CaptureRepo(store.db).find("warehouse")
    assert found is not None
    assert (found.position, found.last_id) == ("0/30", 2)

"""What may interrupt a run between batches: a pause, the end of this runner, the loss of the lease.

A pause may be asked for at once: then the statements that the run has under way are cancelled.
"""

from dataclasses import dataclass, field
from threading import Event

from vitrina.domain.errors import LeaseLost
from vitrina.domain.lifecycle import Status
from vitrina.runner.cutting import Cut


class Interrupted(Exception):
    """Stop here; the checkpoint is consistent."""


class PauseRequested(Interrupted):
    """Somebody asked for a pause."""


class RunnerStopping(Interrupted):
    """This runner is about to end."""


@dataclass
class RunControl:
    """Signals to one run: told by the heartbeat and by the fence, looked at between batches."""

    stopping: Event
    lost: Event = field(default_factory=Event)
    cut: Cut = field(default_factory=Cut)
    asked: Event = field(default_factory=Event)  # for a pause
    recovered: Event = field(default_factory=Event)  # past what ended the attempt before

    def hear(self, status: Status) -> None:
        """What the pipeline's status is by now."""
        if status == Status.PAUSE_REQUESTED:
            self.asked.set()
        else:
            self.asked.clear()

    def hurry(self) -> None:
        """Pause, and not only after the batch."""
        self.asked.set()
        self.cut.begin()

    def check(self) -> None:
        """Raise if the run should not go on."""
        if self.lost.is_set():
            raise LeaseLost("the lease has expired and was not renewed in time")
        if self.asked.is_set():
            raise PauseRequested
        if self.stopping.is_set():
            raise RunnerStopping

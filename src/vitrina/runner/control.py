"""What may interrupt a run between batches: a pause, the end of this runner, the loss of the lease."""

from dataclasses import dataclass, field
from threading import Event

from vitrina.domain.errors import LeaseLost
from vitrina.domain.lifecycle import Status


class Interrupted(Exception):
    """Stop here; the checkpoint is consistent."""


class PauseRequested(Interrupted):
    """Somebody asked for a pause."""


class RunnerStopping(Interrupted):
    """This runner is about to end."""


@dataclass
class RunControl:
    """Signals to one run; set by the heartbeat and by the fence, looked at between batches."""

    stopping: Event
    status: Status = Status.RUNNING
    lost: Event = field(default_factory=Event)
    has_recovered: bool = False  # this attempt got past what ended the one before, so that it counts as a first one

    def check(self) -> None:
        """Raise if the run should not go on."""
        if self.lost.is_set():
            raise LeaseLost("the lease has expired and was not renewed in time")
        if self.status == Status.PAUSE_REQUESTED:
            raise PauseRequested
        if self.stopping.is_set():
            raise RunnerStopping

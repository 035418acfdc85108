"""What became of a request to run: judged from the pipeline's status and the runs after the request."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest

from .errors import RunDropped, RunFailed, RunPaused
from .records import Requested, Run, Status

RESTING = ("IDLE", "FOLLOWING", "PAUSED", "FAILED")


@dataclass(frozen=True)
class Outcome:
    """The run that serves a request by now, None before a runner takes it; and whether nothing more will come."""

    run: Run | None
    ended: bool

    def result(self) -> Run:
        """The run, once it has ended in success; RunFailed or RunPaused otherwise."""
        assert self.run is not None
        if self.run.status == "FAILED":
            raise RunFailed(f"{self.run.name} FAILED: {self.run.error}", self.run.remedy or "", self.run)
        if self.run.status == "PAUSED":
            raise RunPaused(f"{self.run.name} was PAUSED", f"go on with: vitrina run {self.run.name}", self.run)
        return self.run


def worst(outcomes: Sequence[Outcome]) -> Outcome:
    """Of several targets: all have to end, and to succeed."""
    return min(outcomes, key=lambda it: (it.ended, it.run is not None and it.run.status == "SUCCESS"))


def judge(requested: Requested, status: Status, runs: Sequence[Run]) -> Outcome:
    """From a look at the status, and then at the runs after the request, oldest first.

    A run that failed is over; older servers have a row for each of its attempts. A paused run goes on in the next: a
    runner that ends hands its work back, and who resumes a pipeline resumes our run. Whatever else comes is not ours.
    """
    resting = status.status in RESTING or (status.status == "RUN_REQUESTED" and not status.enabled)
    for run, following in zip_longest(runs, runs[1:]):
        if run.status in ("SUCCESS", "RUNNING"):
            return Outcome(run, run.status == "SUCCESS")
        if run.status == "FAILED" and (following is None or following.attempt == 1):
            return Outcome(run, True)
        if following is None:
            return Outcome(run, resting)
    return _nothing_yet(requested, status, resting)


def _nothing_yet(requested: Requested, status: Status, resting: bool) -> Outcome:
    if status.status in ("IDLE", "FOLLOWING") and not requested.changed and status.last_run:
        return Outcome(status.last_run, True)  # a live pipeline's run that we joined is kept with those of its hour
    if resting or not status.enabled:
        standing = status.status if status.enabled else "disabled"
        raise RunDropped(f"{status.name} is {standing}: somebody changed that before it ran", "run it again")
    return Outcome(None, False)

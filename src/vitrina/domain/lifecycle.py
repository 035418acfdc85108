"""The lifecycle of a pipeline: seven statuses and one table of named transitions.

ARCHITECTURE.md draws them.

A live pipeline without a schedule is made live by a run and FOLLOWING after it: a standing assignment with a lease and
an epoch, but without a run. Whoever moves it away from there ends the assignment at once (trigger `following_ended`).

The database refuses every pair of statuses that is not in this table (trigger on `etl_pipelines`);
tests hold table, trigger and drawing to each other.
"""

from enum import StrEnum


class Status(StrEnum):
    """Where a pipeline stands."""

    IDLE = "IDLE"
    RUN_REQUESTED = "RUN_REQUESTED"
    RUNNING = "RUNNING"
    PAUSE_REQUESTED = "PAUSE_REQUESTED"
    PAUSED = "PAUSED"
    FAILED = "FAILED"
    FOLLOWING = "FOLLOWING"


UNDER_WAY = (Status.RUNNING, Status.PAUSE_REQUESTED)
EDITABLE_UNDER_WAY = {
    "batch_size",
    "schedule_interval",
    "freshness_limit",
    "on_failure",
    "enabled",
    "description",
    "labels",
}


class RunStatus(StrEnum):
    """How a run, or an attempt of one, stands or ended."""

    RUNNING = "RUNNING"
    SUCCESS = "SUCCESS"
    FAILED = "FAILED"
    PAUSED = "PAUSED"


TRANSITIONS: dict[str, dict[Status, Status]] = {
    # asked for by people and programs
    "request_run": {
        Status.IDLE: Status.RUN_REQUESTED,
        Status.FAILED: Status.RUN_REQUESTED,
        Status.PAUSED: Status.RUN_REQUESTED,
        Status.PAUSE_REQUESTED: Status.RUNNING,  # the pause is called off
        Status.FOLLOWING: Status.RUN_REQUESTED,
    },
    "request_pause": {
        Status.RUNNING: Status.PAUSE_REQUESTED,
        Status.IDLE: Status.PAUSED,  # nobody holds it: it rests at once
        Status.RUN_REQUESTED: Status.PAUSED,
        Status.FOLLOWING: Status.PAUSED,  # at once too: nothing of a slice under way is kept
    },
    # done by the tables, when the configuration is changed
    "change": {Status.FOLLOWING: Status.RUN_REQUESTED},  # of what the mart is
    "dismiss": {Status.FOLLOWING: Status.IDLE},  # disabled, or live on a schedule from now on
    # done by runners
    "claim": {Status.RUN_REQUESTED: Status.RUNNING, Status.IDLE: Status.RUNNING},
    "reclaim": {Status.RUNNING: Status.RUNNING},
    "succeed": {Status.RUNNING: Status.IDLE, Status.PAUSE_REQUESTED: Status.PAUSED},
    "go_live": {Status.RUNNING: Status.FOLLOWING, Status.PAUSE_REQUESTED: Status.PAUSED},  # a success of a live one
    "step_down": {Status.FOLLOWING: Status.IDLE},  # due at once: what is to be done now is a run's
    "pause": {Status.PAUSE_REQUESTED: Status.PAUSED, Status.RUNNING: Status.RUN_REQUESTED},  # called off: goes on
    "fail": {Status.RUNNING: Status.FAILED, Status.PAUSE_REQUESTED: Status.FAILED},
    "hand_back": {Status.RUNNING: Status.RUN_REQUESTED, Status.PAUSE_REQUESTED: Status.PAUSED},
    "wait": {Status.RUNNING: Status.RUN_REQUESTED, Status.PAUSE_REQUESTED: Status.PAUSED},  # for somebody outside
    # the holder is gone and nobody takes over: too many crashes, disabled, or a pause was asked for
    "bury": {
        Status.RUNNING: Status.FAILED,
        Status.PAUSE_REQUESTED: Status.PAUSED,
        Status.FOLLOWING: Status.FAILED,
    },
}


def legal_moves() -> set[tuple[Status, Status]]:
    """Every pair of statuses that some transition may write."""
    return {(old, new) for moves in TRANSITIONS.values() for old, new in moves.items() if old != new}

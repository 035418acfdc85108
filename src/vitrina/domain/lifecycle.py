"""The lifecycle of a pipeline: six statuses and one table of named transitions.

    IDLE ──run──▶ RUN_REQUESTED ──claim──▶ RUNNING ──succeed──▶ IDLE
      └──────────── claim, when due ─────────▶ │ ├──fail──▶ FAILED ──run──▶ RUN_REQUESTED
                                               │ └──pause──▶ PAUSE_REQUESTED ──(between batches)──▶ PAUSED

The database refuses every pair of statuses that is not in this table (trigger on `etl_pipelines`);
a test holds the two to each other.
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


UNDER_WAY = (Status.RUNNING, Status.PAUSE_REQUESTED)
EDITABLE_UNDER_WAY = {"batch_size", "schedule_interval", "freshness_limit", "enabled", "description"}


class RunStatus(StrEnum):
    """How one attempt stands, or ended."""

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
    },
    "request_pause": {
        Status.RUNNING: Status.PAUSE_REQUESTED,
        Status.IDLE: Status.PAUSED,  # nobody holds it: it rests at once
        Status.RUN_REQUESTED: Status.PAUSED,
    },
    # done by runners
    "claim": {Status.RUN_REQUESTED: Status.RUNNING, Status.IDLE: Status.RUNNING},
    "reclaim": {Status.RUNNING: Status.RUNNING},
    "succeed": {Status.RUNNING: Status.IDLE, Status.PAUSE_REQUESTED: Status.PAUSED},
    "pause": {Status.PAUSE_REQUESTED: Status.PAUSED, Status.RUNNING: Status.RUN_REQUESTED},  # called off: goes on
    "fail": {Status.RUNNING: Status.FAILED, Status.PAUSE_REQUESTED: Status.FAILED},
    "hand_back": {Status.RUNNING: Status.RUN_REQUESTED, Status.PAUSE_REQUESTED: Status.PAUSED},
    "wait": {Status.RUNNING: Status.RUN_REQUESTED, Status.PAUSE_REQUESTED: Status.PAUSED},  # for somebody outside
    # the holder is gone and nobody takes over: too many crashes, disabled, or a pause was asked for
    "bury": {
        Status.RUNNING: Status.FAILED,
        Status.PAUSE_REQUESTED: Status.PAUSED,
    },
}


def legal_moves() -> set[tuple[Status, Status]]:
    """Every pair of statuses that some transition may write."""
    return {(old, new) for moves in TRANSITIONS.values() for old, new in moves.items() if old != new}

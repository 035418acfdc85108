"""Health first: is the mart equal to its query, is it fresh, does the pipeline work? Told from what is stored."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, TypeAlias

from psycopg.rows import DictRow

from vitrina.domain.lifecycle import RunStatus

Level: TypeAlias = Literal["good", "bad", "busy", "rest", "unknown"]
MENDS = ("repair", "rebuild", "restart")  # what a run of an incremental pipeline has to be to have compared everything


@dataclass(frozen=True)
class Answer:
    """One of the questions answered: how it is, as a code for the page's words, since or until when."""

    level: Level
    code: str
    at: datetime | None = None
    number: int | None = None


@dataclass(frozen=True)
class Health:
    """All three."""

    equal: Answer
    fresh: Answer
    works: Answer

    @classmethod
    def of(cls, row: DictRow, config: Mapping[str, Any], report: DictRow | None, runs: Sequence[DictRow]) -> "Health":
        """Of a pipeline as the overview has it, with its last comparison and its last runs, newest first."""
        return cls(_equal(row, report, runs), _fresh(row, config), _works(row, config))


def _equal(row: DictRow, report: DictRow | None, runs: Sequence[DictRow]) -> Answer:
    result = (report or {}).get("result")
    if row["wrong_since"]:
        return Answer("bad", "was wrong", row["wrong_since"])
    if row["fresh_at"] is None:
        return Answer("unknown", "not filled")
    made = _made(row["mode"], runs)
    if report and result and (made is None or made < report["finished_at"]):
        if result["equal"]:
            return Answer("good", "compared", report["finished_at"])
        differing = result["missing"] + result["extra"] + result["different"]
        return Answer("bad", "differs", report["finished_at"], differing)
    if made is not None:
        return Answer("good", "made", made)
    return Answer("unknown", "never compared")


def _made(mode: str, runs: Sequence[DictRow]) -> datetime | None:
    """When a run last made the mart equal as a whole; incremental ones do not see deletes."""
    for run in runs:
        whole = mode != "incremental" or any(run["options"].get(name) for name in MENDS)
        if run["status"] == RunStatus.SUCCESS and whole:
            at: datetime = run["started_at"]
            return at
    return None


def _fresh(row: DictRow, config: Mapping[str, Any]) -> Answer:
    live = row["live"]
    at = (live.as_of if live else None) or row["fresh_at"]
    if row["stale_since"]:
        return Answer("bad", "stale", at)
    if at is None:
        return Answer("unknown", "not filled")
    return Answer("good", "fresh", at) if config.get("freshness_limit") else Answer("unknown", "no limit", at)


def _works(row: DictRow, config: Mapping[str, Any]) -> Answer:
    status = row["status"]
    if row["waits_for"]:
        return Answer("bad", "waits", row["next_at"])
    if row["next_at"]:
        return Answer("bad", "tries again", row["next_at"], row["tries"])
    if row["stuck_since"]:
        return Answer("bad", "stands still", row["stuck_since"])
    if status == "FAILED":
        return Answer("bad", "failed", row["finished_at"])
    if not row["enabled"]:
        return Answer("rest", "disabled")
    if status in ("RUNNING", "PAUSE_REQUESTED", "RUN_REQUESTED"):
        return Answer("busy", "held" if row["held_since"] else "runs" if status != "RUN_REQUESTED" else "due")
    if status == "PAUSED":
        return Answer("rest", "paused")
    if status == "FOLLOWING":
        return Answer("good", "follows")
    return _rests(row, config)


def _rests(row: DictRow, config: Mapping[str, Any]) -> Answer:
    """What comes next."""
    level: Level = "good" if row["run_status"] == RunStatus.SUCCESS else "unknown"
    if row["due_at"]:
        return Answer(level, "next", row["due_at"])
    if config.get("schedule_interval"):
        return Answer(level, "soon")
    return Answer(level, "after upstream" if config.get("after") else "on request")

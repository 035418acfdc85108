"""How far a run is and how fast, measured from what its batches said. Nothing is guessed before it is measured."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from psycopg.rows import DictRow

from vitrina.domain.events import Measured, Said

WINDOW = 20  # batches


@dataclass(frozen=True)
class Progress:
    """Of a run that is under way. None: not known, or not yet."""

    phase: str
    done: int | None
    of: int | None
    rate: float | None  # rows a second, over the last batches
    eta_seconds: float | None

    @property
    def share(self) -> float | None:
        """From 0 to 1."""
        return min(self.done / self.of, 1.0) if self.of and self.done is not None else None


def measure(events: Sequence[Said]) -> Progress:
    """From a run's last events, in order."""
    last = events[-1] if events else None
    counted = [event for event in events if _rows(event["fields"])][-WINDOW:]
    steps = _steps(events)[-WINDOW:]
    done, of = (steps[-1]["fields"]["done"], steps[-1]["fields"]["of"]) if steps else (None, None)
    pace = _pace(steps, [event["fields"]["done"] for event in steps])
    eta = (of - done) / pace if pace and done is not None and of is not None else None
    return Progress(last["event"] if last else "", done, of, _rate(counted), eta)


def rate_of(run: DictRow, now: datetime) -> float | None:
    """Rows a second over a whole run; None if it handled none."""
    rows = max(run["rows_read"] or 0, (run["rows_written"] or 0) + (run["rows_deleted"] or 0))
    seconds = ((run["finished_at"] or now) - run["started_at"]).total_seconds()
    return rows / max(seconds, 0.001) if rows else None


def _steps(events: Sequence[Said]) -> list[Said]:
    """The batches of the present phase: those that count towards the same end."""
    known = [event for event in events if event["fields"].get("of") and "done" in event["fields"]]
    return [e for e in known if (e["event"], e["fields"]["of"]) == (known[-1]["event"], known[-1]["fields"]["of"])]


def _rate(counted: list[Said]) -> float | None:
    """What the batches after the first handled, over the time between the first and the last."""
    total, sums = 0, []
    for event in counted:
        total += _rows(event["fields"])
        sums.append(total)
    return _pace(counted, sums)


def _pace(events: list[Said], values: list[int]) -> float | None:
    if len(events) < 2:
        return None
    seconds: float = (events[-1]["at"] - events[0]["at"]).total_seconds()
    gained = values[-1] - values[0]
    return gained / seconds if seconds > 0 and gained > 0 else None


def _rows(fields: Measured) -> int:
    return max(fields.get("rows_read", 0), fields.get("rows_written", 0) + fields.get("rows_deleted", 0))

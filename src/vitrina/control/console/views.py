"""How things look: statuses as words and shapes, times, durations, values."""

import json
import math
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from markupsafe import Markup, escape
from psycopg.rows import DictRow

from vitrina.control.console.access import BASE
from vitrina.control.console.i18n import Words
from vitrina.control.services import progress
from vitrina.control.services.freshness import cursor_time

WORDS = {
    "IDLE": "idle",
    "RUN_REQUESTED": "requested",
    "RUNNING": "running",
    "PAUSE_REQUESTED": "pausing",
    "PAUSED": "paused",
    "FAILED": "failed",
    "SUCCESS": "succeeded",
    "REQUESTED": "requested",
    "DONE": "done",
}
SHAPES = {
    "IDLE": "ring",
    "RUN_REQUESTED": "clock",
    "REQUESTED": "clock",
    "RUNNING": "play",
    "PAUSE_REQUESTED": "pause",
    "PAUSED": "pause",
    "FAILED": "cross",
    "SUCCESS": "tick",
    "DONE": "tick",
}
HEIGHTS = 8
JS_WORDS = (
    "just now",
    "{n} selected",
    "duration, s",
    "rows read",
    "rows changed",
)


def word(status: str) -> str:
    """A status in plain English."""
    return WORDS.get(status, status.lower().replace("_", " "))


def shape(status: str) -> str:
    """The symbol of a status: it is told by word, colour and shape."""
    return SHAPES.get(status, "ring")


def moment(at: datetime | None) -> Markup | str:
    """A time; the page writes it as its reader likes it."""
    if at is None:
        return "–"
    utc = at.astimezone(UTC)
    machine, people = utc.isoformat(timespec="milliseconds"), f"{utc:%Y-%m-%d %H:%M:%S} UTC"
    return Markup(f'<time datetime="{machine}">{people}</time>')


def seconds_of(run: DictRow) -> float | None:
    """How long a run took; None while it runs."""
    if run["started_at"] is None or run["finished_at"] is None:
        return None
    return float((run["finished_at"] - run["started_at"]).total_seconds())


def rate_of(run: DictRow) -> float | None:
    """Rows a second over a whole run, as far as it is."""
    return progress.rate_of(run, datetime.now(UTC)) if run["started_at"] else None


def lag_of(row: DictRow) -> datetime | None:
    """Where a cursor stands, if it is a time."""
    return cursor_time(row["last_processed_value"])


def bars(runs: list[DictRow], words: Words) -> Markup:
    """Runs as small bars that link to them. Written here and not in a template: a page has hundreds."""
    took = [seconds_of(run) for run in runs]
    longest = max((seconds or 0.0 for seconds in took), default=0.0)
    shown = []
    for run, seconds in zip(runs, took, strict=True):
        said = words(word(run["status"])) + (f", {words.duration(seconds)}" if seconds is not None else "")
        name = escape(words("Run {n}", n=run["id"]) + f": {said}")
        look = f"bar is-{run['status']} h{height(seconds, longest)}"
        shown.append(
            f'<a class="{look}" href="{BASE}/runs/{run["id"]}" tabindex="-1" title="{name}">'
            f'<span class="unseen">{name}</span></a>'
        )
    return Markup("".join(shown))


def height(seconds: float | None, longest: float) -> int:
    """A bar's height, 1 to 8, by how long the run took among its neighbours; roots, so that short ones are seen."""
    if seconds is None or longest <= 0:
        return HEIGHTS
    return max(1, min(HEIGHTS, round(math.sqrt(seconds / longest) * HEIGHTS)))


def shown_value(value: Any) -> str:
    """A value of any type, as text."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def shown_fields(fields: Mapping[str, object]) -> str:
    """What an event says besides its name."""
    return " ".join(f"{name}={shown_value(value)}" for name, value in fields.items())


def js_words(words: Words) -> Markup:
    """The words that scripts say, as JSON inside a page."""
    text = json.dumps({text: words(text) for text in JS_WORDS}, ensure_ascii=False)
    return Markup(text.replace("<", "\\u003c"))

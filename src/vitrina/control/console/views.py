"""How things look: statuses as words and shapes, times, durations, values."""

import json
import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from markupsafe import Markup, escape
from psycopg.rows import DictRow

from vitrina.control.console.access import BASE
from vitrina.control.console.i18n import Words
from vitrina.control.services import progress
from vitrina.control.services.freshness import cursor_time
from vitrina.control.services.latency import Recent
from vitrina.domain.positions import COMPARING
from vitrina.domain.reasons import beside_revived, revived
from vitrina.domain.wording import Because

WORDS = {
    "IDLE": "idle",
    "FOLLOWING": "following",
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
    "FOLLOWING": "play",
    "RUN_REQUESTED": "clock",
    "REQUESTED": "clock",
    "RUNNING": "play",
    "PAUSE_REQUESTED": "pause",
    "PAUSED": "pause",
    "FAILED": "cross",
    "SUCCESS": "tick",
    "DONE": "tick",
}
# What people did, by the code that the audit keeps; the name of the pipeline comes after it.
VERBS = {
    "create": "added",
    "edit": "edited",
    "delete": "removed",
    "enable": "switched on",
    "disable": "switched off",
    "run": "asked to run",
    "pause": "asked to pause",
    "reload-config": "had the run take the configuration of",
    "reconcile": "asked to compare",
    "preview": "asked for first rows of",
    "capture-install": "had a capture installed",
    "capture-remove": "had a capture removed",
    "test-alert": "tested a destination of alerts",
    "sign-in": "signed in",
    "sign-in refused": "was not let in",
    "token refused": "came with a token that opens nothing",
    "create-token": "created a token",
    "change-token": "changed a token",
    "revoke-token": "revoked a token",
    "delete-token": "deleted a token",
}
# What steps say besides their names, checkpoints, and what was asked for with a run: names of ours, shown as such.
NAMED = (
    *("rows_read", "rows_written", "rows_deleted", "rows_unchanged", "batches", "batch_size", "attempt", "of", "done"),
    *("config_version", "read", "missing", "different", "unchanged", "gone", "cursor", "after", "up_to", "held_by"),
    *("ddl", "target", "why", "rows", "error", "keys", "slices", "changes", "deleted", "holder", "seconds", "took"),
    *("restart", "allow_deletes", "rebuild", "repair", "phase", "place", "bound", "position"),
)
OURS = ("read", "why")  # whose values are words of ours
HEIGHTS = 8
SPARK = 72  # pixels for an hour
JS_WORDS = (
    "just now",
    "{n} selected",
    "duration",
    "time",
    "ms",
    "s",
    "min",
    "h",
    "rows read",
    "rows changed",
    "median",
    "99 of 100",
    "changes left",
)


APART = ("value", "id", "live", "because")  # of a checkpoint: shown by themselves, or for programs alone


def reason(why: str, words: Words) -> str:
    """Why, in this language where it is a reason of ours."""
    return why.said_in(words) if isinstance(why, Because) else why


def checkpoint(stored: Mapping[str, Any] | None, words: Words) -> dict[str, Any]:
    """What else there is in one, for people."""
    found = beside_revived(stored or {}, COMPARING)
    return {name: reason(value, words) for name, value in found.items() if name not in APART}


def word(status: str) -> str:
    """A status in plain English."""
    return WORDS.get(status, status.lower().replace("_", " "))


def verb(action: str) -> str:
    """What somebody did."""
    return VERBS.get(action, action)


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


def breaking(text: str | None) -> Markup:
    """A name that may be long: a line ends after a dot or an underscore rather than amid a word."""
    return Markup(re.sub(r"([._:/])(?=\w)", r"\1<wbr>", str(escape(text or "–"))))


def cut(text: str, most: int) -> str:
    """A name that fits, cut between two of its words: who hears the whole of it finds the part that is seen in it."""
    if len(text) <= most:
        return text
    head = text[: most - 1]
    return re.split(r"(?<=[._:/])[^._:/]*$", head)[0] + "…"


def seconds_of(run: DictRow) -> float | None:
    """How long a run took; None while it runs."""
    if run["started_at"] is None or run["finished_at"] is None:
        return None
    seconds: float = (run["finished_at"] - run["started_at"]).total_seconds()
    return max(0.0, seconds)  # where one statement notes both, the end may be read first


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


def sparkline(late: Recent, words: Words) -> Markup:
    """How late changes came within the last hour, minute by minute, the newest at the right."""
    most = max(late.medians.values()) or 1.0
    points = [(SPARK - ago * SPARK / 60, 16 - 14 * ms / most) for ago, ms in late.medians.items()]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    median, nearly_all = (words.number(round(late.quantile_ms(share) or 0)) for share in (0.5, 0.99))
    said = escape(words("Within the last hour: median {n} ms, 99 of 100 within {most} ms", n=median, most=nearly_all))
    x, y = points[-1]
    return Markup(
        f'<svg class="spark" viewBox="0 0 {SPARK + 2} 18" role="img" aria-label="{said}"><title>{said}</title>'
        f'<polyline points="{line}"/><circle cx="{x:.1f}" cy="{y:.1f}" r="1.6"/></svg>'
    )


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


def shown_fields(fields: Mapping[str, object], words: Words | None = None) -> str:
    """What an event says besides its name: as it is kept, or in somebody's language and units."""
    if words is None:
        return " ".join(f"{name}={shown_value(value)}" for name, value in fields.items())
    return " ".join(_said(name, value, words) for name, value in fields.items() if value != [])


def how_read(report: Mapping[str, Any], words: Words) -> str:
    """Of a comparison: where the query was read, and why not in place."""
    why = revived(report.get("because"))
    return f"{words('staged')}: {why.said_in(words)}" if isinstance(why, Because) else words(report["read"])


def _said(name: str, value: object, words: Words) -> str:
    if name == "ms" and isinstance(value, int | float):
        return words.duration(value / 1000)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return f"{words(name)}={words.number(value)}"
    return f"{words(name)}={words(str(value)) if name in OURS else shown_value(value)}"


def js_words(words: Words) -> Markup:
    """The words that scripts say, as JSON inside a page."""
    text = json.dumps({text: words(text) for text in JS_WORDS}, ensure_ascii=False)
    return Markup(text.replace("<", "\\u003c"))

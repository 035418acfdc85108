"""What a pipeline waits for, in words."""

from datetime import UTC, datetime
from typing import Any

from vitrina.cli.output import parse_time, span, when

Json = dict[str, Any]


def due(row: Json) -> str:
    """When it is run next; while it waits for somebody, when that one is asked again, as far as anybody knows."""
    if not row["waits"]:
        return when(row["due_at"])
    said = when(row["waits"].get("next_at"))
    return said if said.startswith("in ") else ""


def wait_fields(waits: Json | None) -> Json:
    """For a page about one pipeline; nothing if it waits for nobody."""
    if not waits:
        return {}
    parts = [f"waits since {when(waits['since'])}", next_try(waits)]
    name = "tried again after" if waits["kind"] == "failure" else "waits for"
    return {name: f"{waits['said']} ({', '.join(filter(None, parts))})", "remedy": waits["remedy"] or None}


def waiting(waits: Json) -> str:
    """For whoever waits for it."""
    what = "is tried again after" if waits["kind"] == "failure" else "waits for"
    return ", ".join(filter(None, [f"{what} {waits['said']}", next_try(waits)]))


def next_try(waits: Json) -> str:
    """When it is tried next; empty if nobody can tell."""
    if not waits.get("next_at"):
        return ""
    seconds = (parse_time(waits["next_at"]) - datetime.now(UTC)).total_seconds()
    return f"next try in {span(seconds)}" if seconds >= 1 else "next try as soon as it answers"

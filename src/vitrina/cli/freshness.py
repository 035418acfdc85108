"""How fresh a live mart is, in words."""

from typing import Any

from vitrina.cli.output import parse_time, span, when

HALT = "capture stopped"
SECONDS = 10_000  # from so many milliseconds on


def fresh(live: dict[str, Any] | None) -> str:
    """For a list: one phrase."""
    if not live:
        return ""
    behind = f"{live['behind']:,} changes behind" if live["behind"] else latency(live)
    trouble = "trouble with the capture" if live["capture"] and live["state"] != HALT else ""
    return ", ".join(filter(None, [live["state"], behind, pace(live), trouble]))


def live_fields(live: dict[str, Any] | None) -> dict[str, Any]:
    """For a page about one pipeline; nothing if it is not live."""
    if not live:
        return {}
    late = latency(live)
    return {
        "live": live["state"] + (f", with all that was committed until {when(live['as_of'])}" if live["as_of"] else ""),
        "why": live.get("why"),
        "behind": None
        if live["behind"] is None
        else ", ".join(filter(None, [f"{live['behind']:,} changes", pace(live)])),
        "latency": f"{late} from commit to mart, {when(live['applied_at'])}" if late else None,
        "audited": audited(live.get("audit")),
        "capture": capture(live),
    }


def capture(live: dict[str, Any]) -> str | None:
    """How its source's is, unless that has just been said."""
    said = [worry for worry in live["capture"] if not (live["state"] == HALT and worry == live.get("why"))]
    return "; ".join(said) or (None if live["state"] in ("not captured", HALT) else "well")


def pace(live: dict[str, Any]) -> str:
    """How fast it catches up, and how long that takes; or when it compares. Empty if it has everything."""
    if live.get("compares_at"):
        return f"compares {when(live['compares_at'])} at the latest"
    if not live.get("seconds_left"):
        return ""
    return f"{live['rate']:,.0f}/s, about {span(live['seconds_left'])}"


def audited(audit: dict[str, Any] | None) -> str | None:
    """How much was read again since when, and what was wrong."""
    if not audit:
        return None
    since = parse_time(audit["since"]).astimezone()
    return f"{audit['share']:.0%} since {since:%Y-%m-%d %H:%M}, {audit['wrong']:,} wrong"


def latency(live: dict[str, Any]) -> str:
    """How long the last change took from its commit to the mart; empty before the first."""
    took = live["lag_ms"]
    if took is None:
        return ""
    return f"{took:,.0f} ms" if took < SECONDS else span(took / 1000)

"""How fresh a live mart is, in words."""

from typing import Any

from vitrina.cli.output import span, when

SECONDS = 10_000  # from so many milliseconds on


def fresh(live: dict[str, Any] | None) -> str:
    """For a list: one phrase."""
    if not live:
        return ""
    behind = f"{live['behind']:,} changes behind" if live["behind"] else latency(live)
    trouble = "trouble with the capture" if live["capture"] else ""
    return ", ".join(filter(None, [live["state"], behind, trouble]))


def live_fields(live: dict[str, Any] | None) -> dict[str, Any]:
    """For a page about one pipeline; nothing if it is not live."""
    if not live:
        return {}
    late = latency(live)
    return {
        "live": live["state"] + (f", with all that was committed until {when(live['as_of'])}" if live["as_of"] else ""),
        "behind": None if live["behind"] is None else f"{live['behind']:,} changes",
        "latency": f"{late} from commit to mart, {when(live['applied_at'])}" if late else None,
        "capture": "; ".join(live["capture"]) or "well",
    }


def latency(live: dict[str, Any]) -> str:
    """How long the last change took from its commit to the mart; empty before the first."""
    took = live["lag_ms"]
    if took is None:
        return ""
    return f"{took:,.0f} ms" if took < SECONDS else span(took / 1000)

"""What a comparison found, in numbers: the part of its report that is the same for every kind of mart."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from vitrina.domain.reasons import coded
from vitrina.domain.wording import Because
from vitrina.engine.job import Job
from vitrina.inquiries.inquiry import Inquiry
from vitrina.transforms import Row

KINDS = ("missing", "extra", "different")


def differs(summary: Row) -> int:
    """How many rows differed at the first look."""
    return sum(summary[kind] for kind in KINDS)


def outcome(
    inquiry: Inquiry, job: Job, summary: Row, details: Sequence[Row], control: str, why_staged: Because | None
) -> dict[str, Any]:
    """Of both sides summed up, and of what still differed at the second look."""
    found = {kind: next((row["total"] for row in details if row["kind"] == kind), 0) for kind in KINDS}
    sides = {side: {"min": summary[f"{side}_min"], "max": summary[f"{side}_max"]} for side in ("query", "mart")}
    return {
        "equal": not any(found.values()),
        "running": inquiry.running,
        "query_rows": summary["query_rows"],
        "mart_rows": summary["mart_rows"],
        "control": {"field": control, **sides},
        **found,
        "deletes_refused": job.limits.why_refused(found["extra"], summary["mart_rows"], summary["query_rows"]),
        "settled": max(differs(summary) - sum(found.values()), 0),
        "read": f"staged: {why_staged}" if why_staged else "in place",
        "because": coded(why_staged) if why_staged else None,
        "taken_at": _iso(summary["taken_at"]),
    }


def _iso(moment: datetime | str) -> str:
    """As JSON has it; the answer of a sealed mart is JSON."""
    return moment if isinstance(moment, str) else moment.isoformat()

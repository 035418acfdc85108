"""Many pipelines at once: where each stands, how its last runs went, how fresh its data is."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any
from uuid import UUID

from psycopg.rows import DictRow

from vitrina.control.plane import ControlPlane
from vitrina.meta.db import Connection
from vitrina.meta.repos.overview import OverviewRepo

SORTS = ("name", "status", "target", "mode", "last", "rows", "rate", "fresh", "next")
LAST_RUNS = 12


@dataclass(frozen=True)
class Filters:
    """Which pipelines, in which order; None: whatever it is."""

    text: str | None = None
    status: str | None = None
    enabled: bool | None = None
    mode: str | None = None
    sort: str = "name"
    descending: bool = False


EVERYTHING = Filters()


@dataclass(frozen=True)
class Page:
    """Some of the pipelines, and how many there are: that pass the filters, and in each status."""

    rows: list[DictRow]
    total: int
    tally: dict[str, int] = field(default_factory=dict)
    disabled: int = 0
    modes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Overview:
    """Reads, and changes nothing."""

    plane: ControlPlane

    def page(self, filters: Filters, size: int, number: int = 1) -> Page:
        """One page, as of one moment."""
        with self.plane.snapshot() as conn:
            rows = _rows(conn, filters, None, size, (number - 1) * size)
            counts = OverviewRepo(conn).tally()
            modes = OverviewRepo(conn).modes()
        tally = {row["status"]: row["pipelines"] for row in counts}
        total = rows[0]["total"] if rows else 0
        return Page(rows, total, tally, sum(row["disabled"] for row in counts), modes)

    def rows(self, ids: Sequence[UUID]) -> list[DictRow]:
        """Just these, by name; one that is gone is left out."""
        with self.plane.snapshot() as conn:
            return _rows(conn, EVERYTHING, ids, len(ids), 0) if ids else []


def _rows(conn: Connection, filters: Filters, ids: Sequence[UUID] | None, limit: int, offset: int) -> list[DictRow]:
    repo = OverviewRepo(conn)
    asked: dict[str, Any] = asdict(filters) | {"ids": list(ids) if ids is not None else None}
    rows = repo.pipelines(**asked, limit=limit, offset=offset)
    runs = defaultdict[UUID, list[DictRow]](list)
    for run in repo.last_runs([row["id"] for row in rows], LAST_RUNS):
        runs[run["pipeline_id"]].append(run)
    for row in rows:
        row["runs"] = runs[row["id"]][::-1]
    return rows

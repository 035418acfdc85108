"""Many pipelines at once: where each stands, how its last runs went, how fresh its data is."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from uuid import UUID

from psycopg.rows import DictRow

from vitrina.control.plane import ControlPlane
from vitrina.control.services.freshness import freshness
from vitrina.control.services.latency import recent_latency
from vitrina.meta.repos.alerts import AlertRepo
from vitrina.meta.repos.overview import OverviewRepo

SORTS = ("name", "status", "target", "mode", "last", "rows", "rate", "fresh", "next")
LAST_RUNS = 12
NEEDS = 6  # that are shown above the list


@dataclass(frozen=True)
class Filters:
    """Which pipelines, in which order; None: whatever it is."""

    text: str | None = None
    status: str | None = None
    enabled: bool | None = None
    mode: str | None = None
    labels: list[str] = field(default_factory=list)
    group: str | None = None  # a label's name
    sort: str = "name"
    descending: bool = False


@dataclass(frozen=True)
class Group:
    """Pipelines that a label has in common; None: those without it."""

    value: str | None
    total: int  # on all pages
    rows: list[DictRow]


@dataclass(frozen=True)
class Page:
    """Some of the pipelines, and how many there are: that pass the filters, and in each status."""

    rows: list[DictRow]
    total: int
    tally: dict[str, int] = field(default_factory=dict)
    disabled: int = 0
    modes: list[str] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)  # in use, with how many have each
    groups: list[Group] = field(default_factory=list)


@dataclass(frozen=True)
class Overview:
    """Reads, and changes nothing."""

    plane: ControlPlane

    def page(self, filters: Filters, size: int, number: int = 1) -> Page:
        """One page, as of one moment."""
        with self.plane.snapshot() as conn:
            repo = OverviewRepo(conn)
            chosen = repo.choose(**asdict(filters), limit=size, offset=(number - 1) * size)
            rows, counts = _rows(repo, [row["id"] for row in chosen]), repo.tally()
            modes, labels = repo.modes(), repo.labels()
        tally, total = {row["status"]: row["pipelines"] for row in counts}, chosen[0]["total"] if chosen else 0
        disabled = sum(row["disabled"] for row in counts)
        return Page(rows, total, tally, disabled, modes, labels, _groups(chosen, rows) if filters.group else [])

    def needs(self) -> list[DictRow]:
        """What is wrong and needs a person, the worst first; each says how much there is in all."""
        with self.plane.session() as conn:
            return OverviewRepo(conn).needs(NEEDS)

    def rows(self, ids: Sequence[UUID]) -> list[DictRow]:
        """Just these; one that is gone is left out."""
        with self.plane.snapshot() as conn:
            return _rows(OverviewRepo(conn), ids)

    def tally(self) -> tuple[dict[str, int], int]:
        """How many there are in each status, and how many are disabled."""
        with self.plane.session() as conn:
            counts = OverviewRepo(conn).tally()
        return {row["status"]: row["pipelines"] for row in counts}, sum(row["disabled"] for row in counts)


def _groups(chosen: Sequence[DictRow], rows: Sequence[DictRow]) -> list[Group]:
    by_id = {row["id"]: row for row in rows}  # one that is gone meanwhile is left out
    groups = dict[str | None, Group]()
    for row in chosen:
        group = groups.setdefault(row["in_group"], Group(row["in_group"], row["group_total"], []))
        group.rows.extend([by_id[row["id"]]] if row["id"] in by_id else [])
    return list(groups.values())


def _rows(repo: OverviewRepo, ids: Sequence[UUID]) -> list[DictRow]:
    """Each with its last runs, oldest first, and how fresh it is if it is live."""
    rows = repo.pipelines(ids)
    runs = defaultdict[UUID, list[DictRow]](list)
    for run in repo.last_runs(ids, LAST_RUNS):
        runs[run["pipeline_id"]].append(run)
    live = [row["id"] for row in rows if row["mode"] == "live"]
    fresh = freshness(repo.conn, live) if live else {}
    late = recent_latency(repo.conn, live) if live else {}
    incidents = {(row["pipeline_id"], row["kind"]): row["since"] for row in AlertRepo(repo.conn).incidents(ids)}
    for row in rows:
        row |= {f"{kind}_since": incidents.get((row["id"], kind)) for kind in ("stale", "stuck", "wrong", "check")}
        row["runs"] = runs[row["id"]][::-1]
        row["live"] = fresh.get(row["id"])
        row["latency"] = late.get(row["id"])
    return rows

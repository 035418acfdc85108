"""How late changes came to a live mart over time, for the chart and for programs."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from uuid import UUID

from psycopg.rows import DictRow

from vitrina.control.plane import ControlPlane
from vitrina.domain.latency import Tally, quantile, step
from vitrina.meta.db import Connection
from vitrina.meta.repos.latency import LatencyRepo
from vitrina.meta.repos.pipelines import StoredPipeline

POINTS = 240


@dataclass
class Point:
    """A minute or several."""

    at: datetime
    tally: Tally = field(default_factory=Tally)
    backlog: int = 0

    def add(self, row: DictRow) -> None:
        """One more minute."""
        if row["arrivals"]:
            self.tally.add(Tally(row["arrivals"], row["ms_sum"], row["ms_max"], row["buckets"]))
        self.backlog = max(self.backlog, row["backlog"])

    @property
    def mean_ms(self) -> float | None:
        """On average."""
        return round(self.tally.ms_sum / self.tally.arrivals, 1) if self.tally.arrivals else None

    def quantile_ms(self, share: float) -> float | None:
        """As far as the buckets tell."""
        return quantile(self.tally.buckets, share, self.tally.ms_max)


@dataclass(frozen=True)
class Course:
    """How it went, oldest first. What has no point had neither changes nor a backlog."""

    minutes: int  # that a point stands for
    points: list[Point]


def course(plane: ControlPlane, stored: StoredPipeline, span: timedelta) -> Course:
    """Of the last so much time."""
    with plane.session() as conn:
        rows = LatencyRepo(conn).minutes(stored.id, span)
    each = step(span, POINTS)
    return Course(each // timedelta(minutes=1), _points(rows, each))


@dataclass
class Recent:
    """The last hour of a live mart: the median of each minute that had changes, by how long ago, and all of it."""

    medians: dict[int, float] = field(default_factory=dict)
    tally: Tally = field(default_factory=Tally)

    def add(self, row: DictRow) -> None:
        """One more minute."""
        self.medians[row["ago"]] = quantile(row["buckets"], 0.5, row["ms_max"]) or 0.0
        self.tally.add(Tally(row["arrivals"], row["ms_sum"], row["ms_max"], row["buckets"]))

    def quantile_ms(self, share: float) -> float | None:
        """Of the whole hour."""
        return quantile(self.tally.buckets, share, self.tally.ms_max)


def recent_latency(conn: Connection, ids: Sequence[UUID]) -> dict[UUID, Recent]:
    """Of those of the live marts that had changes within an hour."""
    found = defaultdict[UUID, Recent](Recent)
    for row in LatencyRepo(conn).recent(ids):
        found[row["pipeline_id"]].add(row)
    return dict(found)


def _points(rows: Iterable[DictRow], each: timedelta) -> list[Point]:
    points: dict[int, Point] = {}
    for row in rows:
        number = int(row["minute"].timestamp() // each.total_seconds())
        at = datetime.fromtimestamp(number * each.total_seconds(), row["minute"].tzinfo)
        points.setdefault(number, Point(at)).add(row)
    return list(points.values())

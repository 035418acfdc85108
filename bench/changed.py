"""One film in a hundred changed, in one transaction: `incremental` and `live` beside the statements by hand and dlt."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from uuid import uuid4

from bench import peers
from bench.contest import FILL, Contest, Way, Work
from bench.films import BATCH, SCALES, STORED, TABLE
from bench.films import COLUMNS as STATIC
from bench.followed import Followed
from bench.ground import Took
from bench.report import Options, Report
from bench.tables import ByDlt, ByHand, ByVitrina
from vitrina.demo.data import load_cinema
from vitrina.domain.pipeline import Pipeline
from vitrina.meta.db import Connection

COLUMNS = f"{STATIC}, modified"
SELECT = f"SELECT f.id AS film_id, {', '.join(f'f.{c}' for c in COLUMNS.split(', ')[1:])} FROM content.film_work f"
CHANGE = """
    UPDATE content.film_work SET rating = coalesce(rating, 0) + 0.1, modified = clock_timestamp()
    WHERE id IN (SELECT id FROM content.film_work WHERE uuid_hash_extended(id, {round}) % 80 = 0 LIMIT {films} / 100)
"""
EMPTY = (
    f"CREATE TABLE analytics.by_hand AS {SELECT} LIMIT 0",
    "ALTER TABLE analytics.by_hand ADD PRIMARY KEY (film_id)",
)
ASSIGN = ", ".join(f"{c} = EXCLUDED.{c}" for c in COLUMNS.split(", ")[1:])
CHANGED = f"CREATE TEMP TABLE changed AS {SELECT} WHERE f.modified > '{{since}}'"
UPSERT = f"INSERT INTO analytics.by_hand SELECT {COLUMNS} FROM changed ON CONFLICT (film_id) DO UPDATE SET {ASSIGN}"
LAST_COMMIT = """
    SELECT max(pg_xact_commit_timestamp(m.xmin)) FROM analytics.followed m
    JOIN content.film_work f ON f.id = m.film_id WHERE f.modified > '{since}'
"""
LIVE = Pipeline(
    name="followed",
    source_query=SELECT,
    target_table="analytics.followed",
    key=("film_id",),
    mode="live",
    batch_size=BATCH,
)
INCREMENTAL = LIVE.model_copy(
    update={
        "id": uuid4(),
        "name": "by_cursor",
        "target_table": "analytics.by_cursor",
        "mode": "incremental",
        "incremental_key": "modified",
        "incremental_id_key": "film_id",
    }
)


def measure(options: Options) -> Report:
    """The live mart follows each change at once; the others come after it, in turn."""
    films = SCALES[options.scale]
    with (
        Followed.started(f"changed-{options.scale}", partial(_fill, films=films), ["content.film_work"]) as followed,
        followed.live(LIVE),
    ):
        case = OnePercent(followed, films)
        found, skipped = peers.found(options, lambda python: [_dlt(python, followed)])
        ways: list[Way] = [
            case.floor(),
            ByVitrina(followed, COLUMNS, INCREMENTAL, name="incremental"),
            ByFollowing(case),
            *found,
        ]
        ours = ["incremental", "live"]
        contest = Contest(followed, followed.db, SELECT, [case.work()], ways, ours, keeps=True)
        title = f"{films:,} films, 1% changed, batches of {BATCH:,}"
        return contest.report(title, options.times, peers.pinned(found), skipped)


def _dlt(python: Path, followed: Followed) -> ByDlt:
    return ByDlt(python, followed, TABLE, f"{STORED}, modified", cursor="modified")


def _fill(conn: Connection, films: int) -> None:
    with conn.transaction():
        load_cinema(conn, films=films, ratings=1_000)
    conn.execute("VACUUM ANALYZE")


@dataclass
class OnePercent:
    """The last change, and the statements that one would write for it."""

    followed: Followed
    films: int
    since: str = ""
    rounds: int = 0  # others are changed in each

    def work(self) -> Work:
        """What is wanted."""
        return Work("1% changed", self.change, "the two statements by hand", 1.25, {"dlt": 2.5}, {"live": 1.5})

    def floor(self) -> ByHand:
        """Select the changed, upsert them."""
        fill = partial(self.followed.execute, f"INSERT INTO analytics.by_hand {SELECT}")
        return ByHand(self.followed, COLUMNS, EMPTY, {FILL: fill, "1% changed": self.by_hand})

    def change(self) -> None:
        """Change films; when the live mart has them, and an incremental run would see them, it is the others' turn."""
        self.since = self.followed.value("SELECT clock_timestamp()::text")
        self.rounds += 1
        self.followed.execute(CHANGE.format(films=self.films, round=self.rounds))
        self.followed.settle(LIVE, "content.film_work")
        self.followed.settle_horizon("content.film_work")

    def by_hand(self) -> None:
        """In one transaction; somebody told when the last one was."""
        with self.followed.db.transaction():
            self.followed.execute(CHANGED.format(since=self.since), UPSERT, "DROP TABLE changed")


@dataclass
class ByFollowing:
    """The live mart, which has done its work by the time that it is asked: from commit to commit."""

    case: OnePercent
    name: str = "live"
    result: str = f"SELECT {COLUMNS} FROM analytics.followed"

    def prepare(self) -> None:
        """It is there already."""

    def do(self, work: str) -> Took:
        """What its last change took."""
        if work == FILL:
            return Took(0, 0)
        which, end = f"modified > '{self.case.since}'", LAST_COMMIT.format(since=self.case.since)
        return Took(self.case.followed.since_commit("content.film_work", which, end), 0)

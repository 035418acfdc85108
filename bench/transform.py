"""Films through a Python function, first load: rows out of Postgres, through the function, and into it again."""

from functools import partial
from pathlib import Path

import psycopg
from psycopg.rows import dict_row

from bench import peers
from bench.contest import Contest, Work
from bench.films import BATCH, EMPTY, RATINGS, SCALES, SELECT, STORED, TABLE, VACUUM
from bench.films import COLUMNS as READ
from bench.functions import tidy
from bench.ground import Ground
from bench.report import Options, Report
from bench.tables import ByDlt, ByHand, ByVitrina
from bench.transforms import MODULE
from vitrina.domain.pipeline import Pipeline

COLUMNS = f"{READ}, decade"
COPY = f"COPY analytics.by_hand ({COLUMNS}) FROM STDIN"


def measure(options: Options) -> Report:
    """Every result is compared with the rows that the function gives."""
    films = SCALES[options.scale]
    with Ground.prepared(films, RATINGS) as ground:
        work = Work(
            "first load",
            partial(ground.execute, VACUUM),
            floor="rows through the same function into COPY",
            most=1.5,
            ahead={"dlt": 3.0},
        )
        found, skipped = peers.found(options, lambda python: [_dlt(python, ground)])
        contest = Contest(ground, ground.db, _reference(ground), [work], [_floor(ground), _vitrina(ground), *found])
        title = f"{films:,} films through a Python transform, batches of {BATCH:,}"
        return contest.report(title, options.times, peers.pinned(found), skipped)


def through(conninfo: str, select: str, copy: str) -> None:
    """Rows of one connection through the function into another, a batch in memory at a time."""
    with (
        psycopg.connect(conninfo, row_factory=dict_row) as source,
        psycopg.connect(conninfo) as target,
        source.cursor("films") as rows,
        target.cursor().copy(copy.encode()) as written,
    ):
        rows.itersize = BATCH
        for row in tidy(rows.execute(select.encode())):
            written.write_row(tuple(row.values()))


def _reference(ground: Ground) -> str:
    """The table that the function gives, filled once."""
    ground.execute("DROP TABLE IF EXISTS analytics.by_function")
    ground.execute(f"CREATE TABLE analytics.by_function AS SELECT q.*, 0 AS decade FROM ({SELECT}) q LIMIT 0")
    through(ground.warehouse.owner, SELECT, COPY.replace("by_hand", "by_function"))
    return f"SELECT {COLUMNS} FROM analytics.by_function"


def _floor(ground: Ground) -> ByHand:
    empty = (*EMPTY, "ALTER TABLE analytics.by_hand ADD COLUMN decade integer")
    return ByHand(ground, COLUMNS, empty, {"first load": partial(through, ground.warehouse.owner, SELECT, COPY)})


def _vitrina(ground: Ground) -> ByVitrina:
    pipeline = Pipeline(
        name="through_python",
        type="PYTHON",
        python_task="tidy",
        source_query=SELECT,
        target_table="analytics.through_python",
        key=("film_id",),
        batch_size=BATCH,
    )
    return ByVitrina(ground, COLUMNS, pipeline, MODULE)


def _dlt(python: Path, ground: Ground) -> ByDlt:
    return ByDlt(python, ground, TABLE, STORED, function="tidy", added="decade")

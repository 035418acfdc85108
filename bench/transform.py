"""Films through a Python function, first load: rows out of Postgres, through the function, and into it again."""

from collections.abc import Iterator
from dataclasses import replace
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
from bench.report import Measured, Options, Report, Target
from bench.tables import ByDlt, ByHand, ByVitrina
from bench.transforms import MODULE
from vitrina.domain.pipeline import Pipeline
from vitrina.transforms import FORMS

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
            most=1.1,
            ahead={"dlt": 2.0},
        )
        found, skipped = peers.found(options, lambda python: [_dlt(python, ground)])
        ours = [_vitrina(ground, form) for form in FORMS]
        contest = Contest(ground, ground.db, _reference(ground), [work], [_floor(ground), *ours, *found])
        title = f"{films:,} films through a Python transform, batches of {BATCH:,}"
        report = contest.report(title, options.times, peers.pinned(found), skipped)
    return replace(report, targets=[*report.targets, *_at_once(report.medians)])


def _at_once(medians: Measured) -> Iterator[Target]:
    """A function over whole columns against dlt's, which is called for each row: that is what add_map is for."""
    if "dlt first load" in medians:
        times = medians["dlt first load"] / medians["arrow first load"]
        yield Target.at_least("first load, an Arrow table at a time, times faster than dlt's add_map", times, 5.0)


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


def _vitrina(ground: Ground, form: str) -> ByVitrina:
    pipeline = Pipeline(
        name=f"through_{form}",
        type="PYTHON",
        python_task="tidy" if form == "rows" else f"tidy_{form}",
        source_query=SELECT,
        target_table=f"analytics.through_{form}",
        key=("film_id",),
        batch_size=BATCH,
    )
    return ByVitrina(ground, COLUMNS, pipeline, MODULE, name="vitrina" if form == "rows" else form)


def _dlt(python: Path, ground: Ground) -> ByDlt:
    return ByDlt(python, ground, TABLE, STORED, function="tidy", added="decade")

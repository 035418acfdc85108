"""Films from another server, first load."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import psycopg

from bench import ground as grounds
from bench import peers
from bench.contest import Contest, Work
from bench.films import BATCH, COLUMNS, EMPTY, RATINGS, SCALES, SELECT, STORED, TABLE, VACUUM
from bench.ground import Ground
from bench.report import Options, Report
from bench.tables import ByDlt, ByHand, ByVitrina
from vitrina.demo.data import load_cinema
from vitrina.domain.pipeline import Pipeline
from vitrina.embedded.postgres import EmbeddedPostgres
from vitrina.meta.db import connect

STAGE = f"CREATE TEMP TABLE stage AS SELECT {COLUMNS} FROM analytics.by_hand LIMIT 0"
INSERT = f"INSERT INTO analytics.by_hand ({COLUMNS}) SELECT {COLUMNS} FROM stage"


def measure(options: Options) -> Report:
    """Two servers on one machine: what the network would add is the same for everybody."""
    films = SCALES[options.scale]
    with Ground.prepared(films, RATINGS) as ground, elsewhere(films) as source, connect(source, "bench") as there:
        work = Work(
            "first load",
            lambda: _vacuum(source),
            floor="COPY into a stage, then INSERT … SELECT",
            most=1.2,
            ahead={"dlt": 3.0},
        )
        floor = ByHand(ground, COLUMNS, EMPTY, {work.name: partial(across, source, ground.warehouse.owner)})
        found, skipped = peers.found(options, lambda python: [_dlt(python, ground, source)])
        contest = Contest(ground, there, SELECT, [work], [floor, _vitrina(ground, source), *found])
        title = f"{films:,} films from another server, batches of {BATCH:,}"
        return contest.report(title, options.times, peers.pinned(found), skipped)


@contextmanager
def elsewhere(films: int) -> Iterator[str]:
    """Another server with the same films; how to sign in."""
    server = EmbeddedPostgres(grounds.HOME / f"{films}-films-elsewhere" / "postgres")
    server.start()
    try:
        with psycopg.connect(server.conninfo()) as conn:
            load_cinema(conn, films=films, ratings=RATINGS)
        yield server.conninfo()
    finally:
        server.stop()


def across(source: str, target: str) -> None:
    """The floor: bytes from one COPY to another, into a stage that is not logged, and from there into the table."""
    with psycopg.connect(source) as there, psycopg.connect(target) as here:
        here.execute(STAGE.encode())
        with (
            there.cursor().copy(f"COPY ({SELECT}) TO STDOUT (FORMAT binary)".encode()) as read,
            here.cursor().copy(f"COPY stage ({COLUMNS}) FROM STDIN (FORMAT binary)".encode()) as written,
        ):
            for block in read:
                written.write(block)
        here.execute(INSERT.encode())


def _vacuum(source: str) -> None:
    with psycopg.connect(source, autocommit=True) as conn:
        conn.execute(VACUUM.encode())


def _vitrina(ground: Ground, source: str) -> ByVitrina:
    pipeline = Pipeline(
        name="from_elsewhere",
        source="cinema",
        source_query=SELECT,
        target_table="analytics.from_elsewhere",
        key=("film_id",),
        batch_size=BATCH,
    )
    return ByVitrina(ground, COLUMNS, pipeline, {"VITRINA_SOURCES__CINEMA": source})


def _dlt(python: Path, ground: Ground, source: str) -> ByDlt:
    return ByDlt(python, ground, TABLE, STORED, source)

"""How much memory a process needs for rows that pass through Python: as many rows, and three times as many."""

from functools import partial
from pathlib import Path

from bench import peers
from bench.contest import Way
from bench.ground import Ground, fingerprint
from bench.ratings import RATINGS_A_FILM, SCALES
from bench.report import Measured, Options, Report, Target, out
from bench.tables import ByDlt, ByVitrina
from bench.transforms import MODULE
from vitrina.domain.pipeline import Pipeline

BATCH = 10_000
COLUMNS = "id, user_id, film_id, rating"
SOME = ("DROP TABLE IF EXISTS ugc.some_ratings", "CREATE TABLE ugc.some_ratings AS SELECT * FROM ugc.ratings LIMIT {}")
KEY = (
    "ALTER TABLE ugc.some_ratings ADD PRIMARY KEY (id)",
    "GRANT SELECT ON ugc.some_ratings TO vitrina_reader",
    "VACUUM ANALYZE ugc.some_ratings",
)


def measure(options: Options) -> Report:
    """Once: memory hardly varies. Each result is compared with what the function should give."""
    ratings = SCALES[options.scale]
    measured: Measured = {}
    skipped: list[str] = []
    with Ground.prepared(ratings // RATINGS_A_FILM, ratings) as ground:
        ground.execute(SOME[0], SOME[1].format(ratings // 3), *KEY)
        for table, rows in {"ugc.some_ratings": ratings // 3, "ugc.ratings": ratings}.items():
            found, skipped = peers.found(options, partial(_peers, ground=ground, table=table))
            for way in (_vitrina(ground, table), *found):
                measured[f"{way.name}, {rows:,} rows, MB"] = _most(ground, way, table)
        version = ground.server_version()
    return _report(measured, version, skipped)


def _report(measured: Measured, version: str, skipped: list[str]) -> Report:
    ours = {name: mb for name, mb in measured.items() if name.startswith("vitrina")}
    targets = [Target.at_most(f"runner memory{name.removeprefix('vitrina')}", mb, 150.0) for name, mb in ours.items()]
    rows = [[name, f"{mb:.0f}"] for name, mb in measured.items()]
    title, head = f"Memory: rows through Python, batches of {BATCH:,}", ["process", "the most memory it had"]
    return Report(title, head, rows, targets, measured, {"postgres": version}, skipped)


def _most(ground: Ground, way: Way, table: str) -> float:
    way.prepare()
    took = way.do("first load")
    wanted = fingerprint(ground.db, f"SELECT {COLUMNS}, rating >= 6 AS liked FROM {table}")
    assert fingerprint(ground.db, way.result) == wanted, f"{way.name}: the table differs"
    out.print(f"{way.name}, {table}: {took.memory_mb:.0f} MB, {took.seconds:.2f} s", highlight=False)
    return took.memory_mb


def _vitrina(ground: Ground, table: str) -> ByVitrina:
    pipeline = Pipeline(
        name="in_memory",
        type="PYTHON",
        python_task="judge",
        source_query=f"SELECT {COLUMNS} FROM {table}",
        target_table="analytics.in_memory",
        key=("id",),
        batch_size=BATCH,
    )
    return ByVitrina(ground, f"{COLUMNS}, liked", pipeline, MODULE)


def _peers(python: Path, ground: Ground, table: str) -> list[Way]:
    return [ByDlt(python, ground, table, COLUMNS, function="judge", added="liked")]

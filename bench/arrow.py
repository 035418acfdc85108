"""Arrow into a stage, beside ADBC's own ingest; and a lake by DuckDB into a mart, with the memory of its runner."""

import json
import statistics
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import duckdb

from bench import peers, processes
from bench.ground import HOME, Ground
from bench.report import Measured, Options, Report, Skipped, Target, out, warn
from vitrina.domain.pipeline import Pipeline

SCALES = {"tiny": 5_000, "small": 300_000, "full": 10_000_000}
FILMS, RATINGS = 2_000, 20_000
BATCH = 100_000
LAKE = """
    COPY (SELECT range AS id, md5(range::VARCHAR)::UUID AS film_id, 'title of film ' || range AS title,
                 (range % 101 / 10)::DECIMAL(4,1) AS rating, range / 3 AS score,
                 TIMESTAMP '2020-01-01' + to_seconds(range) AS at
          FROM range({rows})) TO '{file}'"""
COUNT = "SELECT count(*), sum(id)::bigint, sum(rating)::text FROM public.{table}"


def measure(options: Options) -> Report:
    """In turns, several rounds; by the processor time of the process and the server, since others may work beside."""
    rows = SCALES[options.scale]
    measured: Measured = {}
    with Ground.prepared(FILMS, RATINGS) as ground:
        file = Path(ground.settings.home) / "lake" / "content" / "events.parquet"
        file.parent.mkdir(parents=True, exist_ok=True)
        duckdb.sql(LAKE.format(rows=rows, file=file))
        ways, skipped = _ways(options)
        for name, seconds in _stages(ground, ways, file, options.times).items():
            measured[f"{name}, {rows:,} rows into a stage, s of processor"] = statistics.median(seconds)
        measured["runner of a mart over a lake, MB"] = _mart(ground, file, rows)
        version = ground.server_version()
    return _report(measured, rows, version, skipped)


def _ways(options: Options) -> tuple[dict[str, list[str]], list[str]]:
    ways = {"vitrina": [sys.executable, "-m", "bench.to_stage"]}
    if not options.peers:
        return ways, []
    try:
        python = peers.environment(HOME)
    except Skipped as reason:
        warn(str(reason))
        return ways, [str(reason)]
    return ways | {"adbc": [str(python), str(Path(__file__).parent / "peer_adbc.py")]}, []


def _stages(ground: Ground, ways: Mapping[str, Sequence[str]], file: Path, times: int) -> dict[str, list[float]]:
    spent: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(times):
        for name, command in ways.items():
            table = f"stage_of_{name}"
            with ground.processor() as processor:
                done = processes.run([*command, ground.warehouse.owner, str(file), table], ground.environment)
            took = json.loads(done.check(name).output.splitlines()[-1])
            spent[name].append(processor.server + took["processor"])
            out.print(
                f"{name}: {took['seconds']:.2f} s, {spent[name][-1]:.2f} s of processor, {done.memory_mb:.0f} MB",
                highlight=False,
            )
    same = {
        tuple(ground.db.execute(COUNT.format(table=f"stage_of_{name}").encode()).fetchall()[0].values())
        for name in ways
    }
    assert len(same) == 1, f"the stages differ: {same}"
    return spent


def _mart(ground: Ground, file: Path, rows: int) -> float:
    """Loaded, and then compared: the most memory that either needed."""
    pipeline = Pipeline(name="over_a_lake", source="lake", source_query="SELECT * FROM content.events",
                        target_table="analytics.over_a_lake", key=("id",), batch_size=BATCH)  # fmt: skip
    ground.add(pipeline)
    variables = {"VITRINA_SOURCES__LAKE": f"duckdb://{file.parents[1]}/"}
    runs = [ground.run(pipeline, variables) for _ in range(2)]
    assert ground.value("SELECT count(*) FROM analytics.over_a_lake") == rows
    for took in runs:
        out.print(f"a mart over a lake: {took.seconds:.1f} s, {took.memory_mb:.0f} MB", highlight=False)
    return max(took.memory_mb for took in runs)


def _report(measured: Measured, rows: int, version: str, skipped: Sequence[str]) -> Report:
    title, head = f"Arrow: {rows:,} rows of a Parquet file", ["what", "measured"]
    targets = [Target.at_most("runner of a mart over a lake, MB", measured["runner of a mart over a lake, MB"], 300.0)]
    stages = {name.partition(",")[0]: value for name, value in measured.items() if "stage" in name}
    if "adbc" in stages:
        targets.append(
            Target.at_least("rate into a stage / ADBC's own ingest", stages["adbc"] / stages["vitrina"], 0.8)
        )
    shown = [[name, f"{value:.1f}"] for name, value in measured.items()]
    adbc = peers.versions("adbc-driver-postgresql") if "adbc" in stages else {}
    return Report(title, head, shown, targets, measured, {"postgres": version} | adbc, skipped)

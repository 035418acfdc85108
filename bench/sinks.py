"""Rows into a lake, into files and into ClickHouse: first load, nothing changed, 1% changed; beside floor and dlt.

The floors read the query by COPY, once, and write without asking what is there: pyiceberg's append, one file of Parquet
by pyarrow, and an INSERT of prepared blocks. They keep nothing that would tell what has changed, so they load only.
"""

import json
import shutil
import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import psycopg

from bench import peers, processes
from bench.ground import HOME, Ground, Took
from bench.report import Compared, Measured, Options, Report, Skipped, Target, out, warn
from bench.tables import QUIET
from tests.clickhouse import PYTHON as ENGINE
from tests.clickhouse import REAL, Server
from vitrina.domain.pipeline import Pipeline
from vitrina.meta.repos.pipelines import PipelineRepo

SCALES = {"tiny": 2_000, "small": 100_000, "full": 1_000_000}
FILMS, RATINGS = 2_000, 20_000  # of the cinema, which nobody reads here
SPEED, AHEAD, MEMORY = 0.8, 3.0, 250.0  # of the floor; times dlt; MB
WORKS = ("first load", "nothing changed", "1% changed")
TABLE = """
    DROP TABLE IF EXISTS content.event;
    CREATE TABLE content.event AS
    SELECT n AS id, 'the title of event ' || n AS title, (n % 101 / 10.0)::numeric(4, 1) AS rating, n % 7 AS kind,
           timestamptz '2026-01-01' + n * interval '1 second' AS at
    FROM generate_series(1::bigint, {rows}) AS n;
    ALTER TABLE content.event ADD PRIMARY KEY (id);
    GRANT SELECT ON content.event TO vitrina_reader;
    VACUUM ANALYZE content.event"""
CHANGE = "UPDATE content.event SET rating = rating + 0.1 WHERE id % 100 = 7"
SELECT = "SELECT id, title, rating, kind, at FROM content.event"
SUMS = "count(*), sum(id)::varchar, sum(rating)::varchar"
Sums = tuple[Any, ...]


@dataclass
class Kind:
    """One kind of mart, where it is in this benchmark."""

    name: str
    target: str
    variables: Mapping[str, str]
    dlt: str = ""  # what dlt calls it; empty: it cannot be had, for this reason
    why_no_dlt: str = ""
    url: str = ""

    def sums(self, ground: Ground) -> Sums:
        """Of what its readers see."""
        if self.url:
            return _by_clickhouse(self.url, "bench.event")
        return _by_duckdb(_files(self.name, ground))


def measure(options: Options) -> Report:
    """In turns; medians. What is read back is compared with the query by its sums after every work."""
    rows, measured = SCALES[options.scale], Measures()
    with Ground.prepared(FILMS, RATINGS) as ground, ExitStack() as stack:
        for statement in TABLE.format(rows=rows).split(";"):
            ground.execute(statement)
        kinds, skipped = stack.enter_context(_kinds(ground))
        python, missing = _python(options)
        for _ in range(options.times):
            for kind in kinds:
                _round(ground, kind, python, measured)
        version = ground.server_version()
    skipped += missing + [f"dlt into {kind.name}: {kind.why_no_dlt}" for kind in kinds if python and not kind.dlt]
    return _report(kinds, measured.medians(), rows, options.times, version, skipped)


@dataclass
class Measures:
    """Figures by name, in the order of the rounds."""

    values: dict[str, list[float]] = field(default_factory=dict)

    def keep(self, name: str, took: Took) -> None:
        """Seconds, and memory."""
        out.print(f"{name}: {took.seconds:.2f} s, {took.memory_mb:.0f} MB", highlight=False)
        self.values.setdefault(name, []).append(took.seconds)
        self.values.setdefault(f"{name}, MB", []).append(took.memory_mb)

    def medians(self) -> Measured:
        """The most, of memory."""
        return {name: (max if name.endswith("MB") else statistics.median)(found) for name, found in self.values.items()}


def _round(ground: Ground, kind: Kind, python: Path | None, measured: Measures) -> None:
    pipeline = Pipeline(name="event", source_query=SELECT, target_table=kind.target, key=("id",))
    _forget(ground, kind, pipeline)
    for work in WORKS:
        if work == "1% changed":
            ground.execute(CHANGE, "VACUUM ANALYZE content.event")
        wanted = _wanted(ground)
        measured.keep(f"{kind.name}, {work}, vitrina", ground.run(pipeline, kind.variables))
        assert kind.sums(ground) == wanted, f"{kind.name}, {work}: the mart differs"
        if work == WORKS[0]:
            measured.keep(f"{kind.name}, {work}, floor", _floor(ground, kind))
        if work == "nothing changed":
            [last] = ground.db.execute("SELECT rows_written AS n FROM etl.etl_runs ORDER BY id DESC LIMIT 1").fetchall()
            measured.values.setdefault(f"{kind.name}, rows sent when nothing changed", []).append(float(last["n"]))
        if python and kind.dlt:
            given = {"source": peers.address(ground.warehouse.owner), "directory": str(_home(ground) / "dlt"),
                     "url": str(_home(ground) / f"by-dlt-{kind.name}"), "table_format": kind.dlt}  # fmt: skip
            took = peers.run(python, "peer_sinks.py", json.dumps(given), variables=QUIET)
            measured.keep(f"{kind.name}, {work}, dlt", took)


def _forget(ground: Ground, kind: Kind, pipeline: Pipeline) -> None:
    """As if there had never been a mart."""
    ground.db.execute("DELETE FROM etl.etl_pipelines WHERE name = %s", [pipeline.name])
    ground.execute("DELETE FROM etl_lake.iceberg_tables")
    for name in ("lake", "marts", "floor", "dlt", f"by-dlt-{kind.name}"):
        shutil.rmtree(_home(ground) / name, ignore_errors=True)
    (_home(ground) / "marts").mkdir(parents=True)
    if kind.url:
        _ask(kind.url, "DROP DATABASE IF EXISTS bench")
        _ask(kind.url, "CREATE DATABASE bench")
    PipelineRepo(ground.db).add(pipeline)


def _floor(ground: Ground, kind: Kind) -> Took:
    command = [sys.executable, "-m", "bench.to_sink", kind.name, ground.warehouse.owner, str(_home(ground)), kind.url]
    done = processes.run(command, ground.environment).check(f"the floor of {kind.name}")
    return Took(float(json.loads(done.output.splitlines()[-1])["seconds"]), done.memory_mb)


# ── where they are ───────────────────────────────────────────────────────────────────────────────────────────────────


@contextmanager
def _kinds(ground: Ground) -> Iterator[tuple[list[Kind], list[str]]]:
    home = _home(ground)
    allowed = {"VITRINA_ALLOWED_LAKE_TABLES": "bench.*", "VITRINA_ALLOWED_FILES": "file:///*"}
    kinds = [
        Kind("lake", "lake:bench.event", allowed | {"VITRINA_LAKE_URL": f"file://{home}/lake"}, "iceberg"),
        Kind("files", f"file://{home}/marts/event/", allowed, "parquet"),
    ]
    with ExitStack() as stack:
        try:
            url = stack.enter_context(_engine(home))
        except Skipped as reason:
            warn(str(reason))
            yield kinds, [str(reason)]
            return
        variables = {"VITRINA_CLICKHOUSE_URL": url, "VITRINA_ALLOWED_CLICKHOUSE_TABLES": "bench.*"}
        why = "it speaks the native protocol, which the engine of the tests has no face for"
        yield [*kinds, Kind("clickhouse", "ch:bench.event", variables, why_no_dlt=why, url=url)], []


@contextmanager
def _engine(home: Path) -> Iterator[str]:
    if REAL:
        yield REAL
        return
    if not ENGINE.exists():
        raise Skipped("ClickHouse's engine is not set up: make ready-clickhouse")
    shutil.rmtree(home / "engine", ignore_errors=True)
    server = Server(home / "engine")
    try:
        server.start()
        yield server.url
    finally:
        server.kill()


def _python(options: Options) -> tuple[Path | None, list[str]]:
    if not options.peers:
        return None, []
    try:
        return peers.environment(HOME), []
    except Skipped as reason:
        warn(str(reason))
        return None, [str(reason)]


def _home(ground: Ground) -> Path:
    return Path(ground.settings.home) / "sinks"


# ── what is there ────────────────────────────────────────────────────────────────────────────────────────────────────


def _wanted(ground: Ground) -> Sums:
    with psycopg.connect(ground.warehouse.owner) as conn:
        return conn.execute(f"SELECT {SUMS} FROM content.event".encode()).fetchone() or ()


def _files(name: str, ground: Ground) -> tuple[list[str], list[str]]:
    """The files that count, and those that say which rows of them do not."""
    if name == "files":
        mart = _home(ground) / "marts" / "event"
        manifest = json.loads((mart / "_manifest.json").read_text())
        return [str(mart / file) for file in manifest["files"]], []
    from pyiceberg.table import StaticTable

    tasks = [*StaticTable.from_metadata(ground.value("SELECT metadata_location FROM etl_lake.iceberg_tables"
                                                     " WHERE table_name = 'event'")).scan().plan_files()]  # fmt: skip
    marks = {file.file_path for task in tasks for file in task.delete_files}
    return [task.file.file_path.removeprefix("file://") for task in tasks], [m.removeprefix("file://") for m in marks]


def _by_duckdb(files: tuple[list[str], list[str]]) -> Sums:
    held, marks = files
    text = f"SELECT {SUMS} FROM read_parquet(?, filename=true, file_row_number=true) f"
    if marks:
        text += " ANTI JOIN read_parquet(?) d ON d.file_path = 'file://' || f.filename AND d.pos = f.file_row_number"
    return duckdb.connect().execute(text, [held, marks] if marks else [held]).fetchone() or ()


def _by_clickhouse(url: str, table: str) -> Sums:
    sums = "count(), toString(sum(id)), toString(sum(rating))"
    return tuple(json.loads(_ask(url, f"SELECT {sums} FROM {table} FORMAT JSONCompactEachRow"
                                      " SETTINGS output_format_json_quote_64bit_integers = 0")))  # fmt: skip


def _ask(url: str, statement: str) -> bytes:
    import httpx

    with httpx.Client(trust_env=False, timeout=120) as http:
        return http.post(url, content=statement.encode()).raise_for_status().content


# ── what is told ─────────────────────────────────────────────────────────────────────────────────────────────────────


def _report(
    kinds: Sequence[Kind], medians: Measured, rows: int, times: int, version: str, skipped: Sequence[str]
) -> Report:
    ways = ("floor", "vitrina", "dlt")
    table, compared = [], []
    for kind in kinds:
        for work in WORKS:
            name = f"{kind.name}, {work}"
            found = {way: medians[f"{name}, {way}"] for way in ways if f"{name}, {way}" in medians}
            most = f"{medians[f'{name}, vitrina, MB']:.0f}"
            table.append([kind.name, work, *(f"{found[way]:.2f}" if way in found else "" for way in ways), most])
            if work == WORKS[0]:
                compared.append(Compared(f"{kind.name}, {work}", 1 / SPEED, {w: round(s, 3) for w, s in found.items()}))
    title = f"{rows:,} rows into a lake, into files, into ClickHouse"
    head = ["mart", "work", *(f"{way}, s" for way in ways), "runner, MB"]
    targets = [target for kind in kinds for target in _targets(kind.name, medians)]
    rounds = {kind.name: times for kind in kinds}
    return Report(title, head, table, targets, medians, {"postgres": version}, skipped, rounds, compared)


def _targets(kind: str, medians: Measured) -> Iterator[Target]:
    ours, floor = medians[f"{kind}, first load, vitrina"], medians[f"{kind}, first load, floor"]
    yield Target.at_least(f"{kind}, first load: rate / floor", floor / ours, SPEED)
    for work in WORKS:
        if f"{kind}, {work}, dlt" in medians:
            ratio = medians[f"{kind}, {work}, dlt"] / medians[f"{kind}, {work}, vitrina"]
            yield Target.at_least(f"{kind}, {work}, times faster than dlt", ratio, AHEAD)
    sent = f"{kind}, rows sent when nothing changed"
    yield Target.at_most(sent, medians[sent], 0)
    most = max(medians[f"{kind}, {work}, vitrina, MB"] for work in WORKS)
    yield Target.at_most(f"{kind}, runner's memory, MB", most, MEMORY)

"""Films from one table to a mart on the same server: Vitrina, and the statements one would write by hand."""

import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg

from bench.report import Measured, Report, Target
from vitrina import bootstrap
from vitrina.checks import count_differences
from vitrina.demo.data import load_cinema
from vitrina.domain.pipeline import Pipeline, resolve
from vitrina.meta.db import Connection, connect
from vitrina.meta.repos.pipelines import PipelineRepo
from vitrina.meta.repos.runs import RunRepo
from vitrina.settings import Settings

SCALES = {"small": 100_000, "full": 1_000_000}
HOME = Path(__file__).parent / "out"
COLUMNS = "film_id, title, description, creation_date, rating, type"
SELECT = """
    SELECT f.id AS film_id, f.title, f.description, f.creation_date, f.rating, f.type FROM content.film_work f
"""
ASSIGN = ", ".join(f"{c} = EXCLUDED.{c}" for c in COLUMNS.split(", ")[1:])
IMAGE = [", ".join(f"{alias}.{c}" for c in COLUMNS.split(", ")) for alias in "ms"]
MERGE = f"""
    MERGE INTO analytics.by_hand m USING ({SELECT}) s ON m.film_id = s.film_id
    WHEN MATCHED AND record_image_ne(ROW({IMAGE[0]}), ROW({IMAGE[1]})) THEN
        UPDATE SET {", ".join(f"{c} = s.{c}" for c in COLUMNS.split(", ")[1:])}
    WHEN NOT MATCHED BY TARGET THEN INSERT ({COLUMNS}) VALUES ({IMAGE[1]})
    WHEN NOT MATCHED BY SOURCE THEN DELETE
"""
INSERT = f"INSERT INTO analytics.by_hand {SELECT} ON CONFLICT (film_id) DO UPDATE SET {ASSIGN}"
CHANGE_HALF = "UPDATE content.film_work SET rating = coalesce(rating, 0) + 0.1 WHERE get_byte(uuid_send(id), 0) % 2 = 0"


def measure(scale: str, times: int) -> Report:
    """Every work alternately with its floor; medians."""
    with Films.prepared(scale) as films:
        rounds = [films.round() for _ in range(times)]
        version = films.server_version()
    medians = {name: statistics.median(r[name] for r in rounds) for name in rounds[0]}
    rows = [
        [name.replace("_", " "), f"{medians[name]:.2f}", f"{medians[name + '_floor']:.2f}"]
        for name in ("load", "unchanged", "half_changed")
    ]
    title = f"{SCALES[scale]:,} films, batches of 10,000"
    return Report(title, ["work", "seconds", "floor"], rows, judge(medians), medians, {"postgres": version})


def judge(medians: Measured) -> list[Target]:
    """The targets, as ratios within this run wherever they are about speed."""
    at_most = Target.at_most
    return [
        at_most("first load / one INSERT … ON CONFLICT", medians["load"] / medians["load_floor"], 1.0),
        at_most("unchanged re-run / first load", medians["unchanged"] / medians["load"], 0.5),
        at_most("unchanged re-run / one MERGE", medians["unchanged"] / medians["unchanged_floor"], 1.0),
        at_most("half changed / one MERGE", medians["half_changed"] / medians["half_changed_floor"], 2.0),
        at_most("slowest batch of a load, ms", medians["batch_max_ms"], 300.0),
        at_most("runner memory, MB", medians["memory_mb"], 150.0),
    ]


@dataclass(frozen=True)
class Films:
    """A server of its own with the films in it."""

    db: Connection
    warehouse: bootstrap.Warehouse
    settings: Settings
    pipeline: Pipeline

    @classmethod
    @contextmanager
    def prepared(cls, scale: str) -> Iterator["Films"]:
        """Start, generate once, hand out, stop."""
        settings = Settings(home=HOME / scale, database_url=None)
        warehouse = bootstrap.open_warehouse(settings)
        try:
            with psycopg.connect(warehouse.owner) as conn:
                load_cinema(conn, films=SCALES[scale], ratings=SCALES[scale] // 10)
            bootstrap.set_up(warehouse, settings)
            with connect(warehouse.owner, "bench") as db:
                yield cls(db, warehouse, settings, _pipeline())
        finally:
            if warehouse.embedded:
                warehouse.embedded.stop()

    def round(self) -> Measured:
        """Each work once, Vitrina and the floor in turn; every result is checked against the query."""
        self._fresh()
        measured = {"load_floor": self._by_hand(INSERT)} | self._vitrina("load")
        measured |= {"unchanged_floor": self._by_hand(MERGE)} | self._vitrina("unchanged")
        self._execute(CHANGE_HALF)
        self._execute("VACUUM ANALYZE content.film_work")
        return measured | {"half_changed_floor": self._by_hand(MERGE)} | self._vitrina("half_changed")

    def server_version(self) -> str:
        """Of Postgres."""
        return self.db.info.parameter_status("server_version") or "?"

    def _fresh(self) -> None:
        self._execute("DELETE FROM etl.etl_pipelines")
        self._execute("DROP TABLE IF EXISTS analytics.by_vitrina, analytics.by_hand")
        self._execute(f"CREATE TABLE analytics.by_hand AS {SELECT} LIMIT 0")
        self._execute("ALTER TABLE analytics.by_hand ADD PRIMARY KEY (film_id)")
        self._execute("VACUUM ANALYZE content.film_work")
        PipelineRepo(self.db).add(self.pipeline)

    def _by_hand(self, statement: str) -> float:
        self._execute("CHECKPOINT")
        started = time.perf_counter()
        self._execute(statement)
        return time.perf_counter() - started

    def _vitrina(self, name: str) -> Measured:
        """A runner process of its own; start-up is not counted, since the run's own times are taken."""
        self._execute("CHECKPOINT")
        command = [sys.executable, "-m", "vitrina", "runner", "--once", "--pipeline", self.pipeline.name]
        environment = {
            "VITRINA_HOME": str(self.settings.home),
            "PATH": "/usr/bin:/bin:/usr/sbin",
            "VITRINA_LOG_FORMAT": "json",
        }
        subprocess.run(command, env=environment, check=True, capture_output=True)
        run = RunRepo(self.db).recent(self.pipeline.id, 1)[0]
        self._check()
        measured = {name: (run["finished_at"] - run["started_at"]).total_seconds()}
        if name == "load":
            measured["batch_max_ms"] = self._slowest_batch(run["id"])
        return measured | {"memory_mb": resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024}

    def _slowest_batch(self, run_id: int) -> float:
        row = self.db.execute(
            "SELECT max((fields ->> 'ms')::float) AS ms FROM etl.etl_run_events WHERE run_id = %s AND event = 'loaded'",
            [run_id],
        ).fetchone()
        assert row is not None
        return float(row["ms"])

    def _check(self) -> None:
        connections = bootstrap.connections(self.warehouse, self.settings)
        with connections.resolve_reader("warehouse") as reader:
            assert count_differences(reader, resolve(self.pipeline)) == 0, "the mart differs from its query"

    def _execute(self, statement: str) -> None:
        self.db.execute(statement.encode())


def _pipeline() -> Pipeline:
    return Pipeline(
        name="by_vitrina", source_query=SELECT, target_table="analytics.by_vitrina", key=("film_id",), batch_size=10_000
    )

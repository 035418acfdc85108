"""What the parts stand on: a server of the benchmark's own with the cinema in it, and Vitrina beside it."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from bench import processes
from vitrina import bootstrap
from vitrina.demo.data import load_cinema
from vitrina.demo.settings import allow_cinema
from vitrina.domain.pipeline import Pipeline, resolve
from vitrina.equality import count_differences
from vitrina.meta.db import Connection, connect
from vitrina.meta.repos.pipelines import PipelineRepo
from vitrina.meta.repos.runs import RunRepo
from vitrina.settings import Settings
from vitrina.transforms.chain import load_transforms

HOME = Path(__file__).parent / "out"
DEADLINE = 600.0
FINGERPRINT = """
    SELECT count(*), sum(hashtextextended(image, 0)) AS one, sum(hashtextextended(image, 1)) AS other
    FROM (SELECT ROW(q.*)::text AS image FROM ({select}) AS q) AS images
"""


@dataclass(frozen=True)
class Took:
    """One run of Vitrina, or of a peer."""

    seconds: float
    memory_mb: float
    run: int = 0


@dataclass
class Spent:
    """Processor time, start-up of processes included: what a busy machine changes least."""

    server: float = 0.0
    beside: float = 0.0  # by this process and those that it started


@dataclass(frozen=True)
class Ground:
    """The warehouse."""

    db: Connection
    warehouse: bootstrap.Warehouse
    settings: Settings

    @classmethod
    @contextmanager
    def prepared(cls, films: int, ratings: int) -> Iterator["Ground"]:
        """Start, generate once, hand out, stop; parts that need as much of everything share a server."""
        settings = allow_cinema(Settings(home=HOME / f"{films}-films-{ratings}-ratings", database_url=None))
        try:
            warehouse = bootstrap.open_warehouse(settings)
            with psycopg.connect(warehouse.owner) as conn:
                load_cinema(conn, films=films, ratings=ratings)
            bootstrap.set_up(warehouse, settings)
            with connect(warehouse.owner, "bench") as db:
                db.execute("DELETE FROM etl.etl_pipelines")  # of an earlier benchmark, which may have been killed
                yield cls(db, warehouse, settings)
        finally:  # also if it was ended while the server started
            bootstrap.embedded_server(settings).stop()

    # ── asking ───────────────────────────────────────────────────────────────────────────────────────────────

    def execute(self, *statements: str) -> None:
        """Each in a transaction of its own."""
        for statement in statements:
            self.db.execute(statement.encode())

    def value(self, query: str) -> Any:
        """The one value of a query."""
        row = self.db.execute(query.encode()).fetchone()
        assert row is not None
        return next(iter(row.values()))

    def wait_until(self, query: str, params: Sequence[object] = ()) -> None:
        """Until a query says yes; a failed pipeline ends it at once."""
        deadline = time.monotonic() + DEADLINE
        while True:
            row = self.db.execute(query.encode(), params).fetchone()
            if row and row["yes"]:
                return
            failed = self.db.execute("SELECT error FROM etl.etl_runs WHERE status = 'FAILED'").fetchone()
            if failed or time.monotonic() > deadline:
                why = failed["error"] if failed else f"see {self.settings.home / 'runner.log'}"
                raise SystemExit(f"the benchmark waits in vain for {' '.join(query.split())}: {why}")
            time.sleep(0.05)

    def settle_horizon(self, table: str) -> None:
        """Until what was changed last is old enough for an incremental run to be sure that it has seen everything."""
        margin = self.settings.horizon_margin_seconds + 0.2
        self.wait_until(f"SELECT clock_timestamp() > max(modified) + interval '{margin} s' AS yes FROM {table}")

    @contextmanager
    def processor(self) -> Iterator[Spent]:
        """What is used meanwhile."""
        spent = Spent()
        server, beside = self._server_seconds(), sum(os.times()[:4])
        yield spent
        spent.server, spent.beside = self._server_seconds() - server, sum(os.times()[:4]) - beside

    def _server_seconds(self) -> float:
        directory = Path(self.value("SELECT current_setting('data_directory')"))
        return processes.cpu_seconds_of_family(int((directory / "postmaster.pid").read_text().split()[0]))

    def server_version(self) -> str:
        """Of Postgres."""
        return self.db.info.parameter_status("server_version") or "?"

    # ── Vitrina ──────────────────────────────────────────────────────────────────────────────────────────────

    def add(self, pipeline: Pipeline) -> None:
        """As new: whatever was known of it, and its mart, are gone."""
        self.db.execute("DELETE FROM etl.etl_pipelines WHERE id = %s OR name = %s", [pipeline.id, pipeline.name])
        self.execute(f"DROP TABLE IF EXISTS {resolve(pipeline).target}")
        PipelineRepo(self.db).add(pipeline)

    def run(self, pipeline: Pipeline, variables: Mapping[str, str] | None = None) -> Took:
        """By a runner process of its own; its start-up is not counted, since the run's own times are taken."""
        command = [sys.executable, "-m", "vitrina", "runner", "--once", "--pipeline", pipeline.name]
        done = processes.run(command, self.environment | dict(variables or {}))
        done.check(f"the run of {pipeline.name}")
        last = RunRepo(self.db).recent(pipeline.id, 1)[0]
        assert last["status"] == "SUCCESS", f"the run of {pipeline.name} ended as {last['status']}: {last['error']}"
        return Took((last["finished_at"] - last["started_at"]).total_seconds(), done.memory_mb, last["id"])

    def check(self, pipeline: Pipeline) -> None:
        """End the benchmark unless a mart equals its query, row by row."""
        load_transforms(())
        with bootstrap.connections(self.warehouse, self.settings).read_warehouse() as reader:
            different = count_differences(reader, resolve(pipeline))
        if different:
            raise SystemExit(f"{pipeline.target_table} differs from its query in {different:,} rows")

    @contextmanager
    def runner(self, variables: Mapping[str, str] | None = None) -> Iterator["subprocess.Popen[bytes]"]:
        """`vitrina runner`, for as long as it takes."""
        command = [sys.executable, "-m", "vitrina", "runner"]
        with (Path(self.settings.home) / "runner.log").open("wb") as log:
            process = subprocess.Popen(command, env=self.environment | dict(variables or {}), stdout=log, stderr=log)
            try:
                yield process
            finally:
                process.terminate()
                process.wait()

    @property
    def environment(self) -> dict[str, str]:
        """Of a runner on this warehouse."""
        return {"VITRINA_HOME": str(self.settings.home), "PATH": os.environ["PATH"], "VITRINA_LOG_FORMAT": "json"}


def fingerprint(conn: Connection, select: str) -> tuple[Any, ...]:
    """Of a query's rows, in whatever order: equal for equal rows, and for others with no chance worth the name."""
    row = conn.execute(FINGERPRINT.format(select=select).encode()).fetchone()
    assert row is not None
    return tuple(row.values())

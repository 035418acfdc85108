"""A warehouse with live marts and a real runner beside it: what the benchmark of live marts works on.

The server is durable as by default (fsync, synchronous_commit); it keeps the times of commits, so that both ends of a
change's way are told by one clock: that of the server, when it writes the commit record.
"""

import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from bench import ground
from bench.ground import Ground
from bench.processes import cpu_seconds
from vitrina import bootstrap
from vitrina.capture.installation import install
from vitrina.demo.settings import allow_cinema
from vitrina.domain.pipeline import Pipeline
from vitrina.embedded.postgres import EmbeddedPostgres
from vitrina.meta.db import Connection, connect
from vitrina.meta.repos.pipelines import PipelineRepo
from vitrina.settings import Settings

SERVER = {
    "track_commit_timestamp": "on",
    "shared_preload_libraries": "pg_stat_statements",
    "pg_stat_statements.track": "all",
}
IS_LIVE = """
    SELECT s.checkpoint #>> '{live,id}' IS NOT NULL AND s.checkpoint #> '{live,comparing}' IS NULL AS yes
    FROM etl.etl_state s WHERE s.pipeline_id = %s
"""
IS_NARROW = "SELECT images IS NOT NULL AS yes FROM etl.etl_captures"  # a while after a mart went live
IS_CAPTURED = "SELECT position::pg_lsn >= %s AS yes FROM etl.etl_captures"
HAS_FOLLOWED = """
    SELECT coalesce((s.checkpoint #>> '{live,id}')::bigint >= (c.recent ->> %s)::bigint, true) AS yes
    FROM etl.etl_state s, etl.etl_captures c WHERE s.pipeline_id = %s
"""
IS_GONE = """
    DELETE FROM etl.etl_pipelines WHERE id = %s AND status NOT IN ('RUN_REQUESTED', 'RUNNING', 'PAUSE_REQUESTED')
    RETURNING true AS yes
"""


@dataclass(frozen=True)
class Load:
    """What a load generator did, and what the runner used meanwhile."""

    seconds: float
    runner_cpu: float  # of a core
    load_average: float


@dataclass(frozen=True)
class Followed(Ground):
    """The warehouse, and the runner that captures and follows."""

    follower: "subprocess.Popen[bytes]"

    @classmethod
    @contextmanager
    def started(
        cls,
        name: str,
        fill: Callable[[Connection], None],
        tables: Sequence[str],
        variables: Mapping[str, str] | None = None,
    ) -> Iterator["Followed"]:
        """A new server, filled, with these tables captured, and a runner with these variables; gone afterwards."""
        settings = allow_cinema(Settings(home=ground.HOME / name, database_url=None))
        bootstrap.embedded_server(settings).purge()
        with ExitStack() as stack:
            server = EmbeddedPostgres(settings.home / "postgres", settings=SERVER)
            stack.callback(server.purge)
            server.start()
            warehouse = bootstrap.open_warehouse(settings)
            db = stack.enter_context(connect(warehouse.owner, "bench"))
            db.execute("CREATE EXTENSION pg_stat_statements SCHEMA public")
            fill(db)
            bootstrap.set_up(warehouse, settings)
            install(db, db, "warehouse", "wal", tables, "vitrina_capture")
            follower = stack.enter_context(Ground(db, warehouse, settings).runner(variables))
            yield cls(db, warehouse, settings, follower)

    # ── pipelines ────────────────────────────────────────────────────────────────────────────────────────────

    @contextmanager
    def live(self, pipeline: Pipeline) -> Iterator[None]:
        """A live mart, from when it is equal for the first time; compared with its query at the end, and removed."""
        PipelineRepo(self.db).add(pipeline)
        self.wait_until(IS_LIVE, [pipeline.id])
        self.wait_until(IS_NARROW, [])
        self.execute(f"VACUUM ANALYZE {pipeline.target_table}")
        self.execute("CHECKPOINT")
        yield
        self.check(pipeline)
        self.wait_until(IS_GONE, [pipeline.id])

    def settle(self, pipeline: Pipeline, relation: str) -> None:
        """Until everything that is committed now has reached the mart."""
        end = self.value("SELECT pg_current_wal_insert_lsn()")
        self.wait_until(IS_CAPTURED, [end])
        self.wait_until(HAS_FOLLOWED, [relation, pipeline.id])

    def rest(self, pipeline: Pipeline) -> None:
        """Until it is followed, and nothing is left to follow."""
        self.wait_until("SELECT status = 'FOLLOWING' AS yes FROM etl.etl_pipelines WHERE id = %s", [pipeline.id])

    # ── load ─────────────────────────────────────────────────────────────────────────────────────────────────

    def generate(self, script: str, rate: int, seconds: int) -> Load:
        """Transactions of a process of its own, so many a second whatever becomes of them."""
        clients = 2 if rate <= 100 else 8 if rate <= 1000 else 32
        with tempfile.NamedTemporaryFile("w", prefix="vitrina-bench-", suffix=".sql") as file:
            file.write(script)
            file.flush()
            assert self.warehouse.embedded is not None
            options = ["-n", "-M", "prepared", "-c", str(clients), "-R", str(rate), "-T", str(seconds)]
            given = ["-D", "i=0", "-D", f"clients={clients}", "-f", file.name, self.warehouse.owner]
            before, started = cpu_seconds(self.follower.pid), time.monotonic()
            command = [self.warehouse.embedded.program("pgbench"), *options, *given]
            done = subprocess.run(command, check=False, capture_output=True, text=True)
        if done.returncode != 0:
            raise SystemExit(f"the load generator failed: {done.stderr[-2000:]}")
        took = time.monotonic() - started
        return Load(took, (cpu_seconds(self.follower.pid) - before) / took, os.getloadavg()[0])

    # ── asking ───────────────────────────────────────────────────────────────────────────────────────────────

    def since_commit(self, source: str, which: str, end: str) -> float:
        """From the commit of a source's rows to the last commit of the mart's, in seconds."""
        start = f"SELECT max(pg_xact_commit_timestamp(xmin)) FROM {source} WHERE {which}"
        return float(self.value(f"SELECT extract(epoch FROM ({end}) - ({start}))"))

    def values(self, query: str) -> list[float]:
        """The first column of a query, as numbers."""
        return [float(next(iter(row.values()))) for row in self.db.execute(query.encode())]


def percentile(values: Sequence[float], percent: int) -> float:
    """Of at least two values."""
    return statistics.quantiles(values, n=100, method="inclusive")[percent - 1]

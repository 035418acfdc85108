"""Real runner processes on a lab's database: started, killed, stopped and continued."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.faults.oracle import Oracle
from tests.patience import SHORT_LEASE, patient, wait
from tests.support import Lab
from vitrina.domain.pipeline import Pipeline
from vitrina.runner.manager import PipelineManager

ROUNDS = int(os.environ.get("VITRINA_ROUNDS", "0"))
ITEMS = "SELECT i.id, i.title FROM content.items i"
LEASE = SHORT_LEASE


@dataclass
class Driver:
    """A lab, the processes that work on it, and what must hold when they are done."""

    lab: Lab
    folder: Path
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        """`vitrina runner` with these arguments."""
        with open(self.folder / f"runner-{len(self.processes)}.log", "wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "vitrina", "runner", *arguments],
                env=runner_environment(self.lab) | {"VITRINA_HOME": str(self.folder)} | self.environment,
                cwd=self.folder,
                stdout=log,
                stderr=log,
            )
        self.processes.append(process)
        return process

    def end(self) -> None:
        """Kill what is left."""
        for process in self.processes:
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
            process.wait()

    def stop(self, process: subprocess.Popen[bytes]) -> int:
        """SIGTERM; the exit code."""
        process.terminate()
        return process.wait(patient(20))

    def said(self) -> str:
        """What all processes logged."""
        return "".join(file.read_text() for file in sorted(self.folder.glob("*.log")))

    def add(self, name: str = "mart", **config: Any) -> Pipeline:
        """A pipeline whose mart takes a moment for every batch."""
        table = f"analytics.{name}"
        self.lab.sql(f"CREATE TABLE {table} (id integer PRIMARY KEY, title text)")
        self.lab.sql(f"ALTER TABLE {table} OWNER TO vitrina_runner")
        self.lab.sql(f"CREATE TRIGGER nap AFTER INSERT ON {table} EXECUTE FUNCTION content.nap()")
        Oracle(self.lab).watch_repeats(table, "id")
        return self.lab.add(
            **({"name": name, "target_table": table, "source_query": ITEMS, "key": ["id"], "batch_size": 20} | config)
        )

    def wait(self, condition: Callable[[], Any], seconds: float = 30) -> None:
        """Until it holds."""
        try:
            wait(condition, seconds=seconds, pause=0.01)
        except AssertionError as error:
            raise AssertionError(f"{error}; the runners said:\n{self.said()[-6000:]}") from None

    def wait_for_batches(self, pipeline: Pipeline, count: int) -> None:
        """Until its runs have committed so many."""
        query = "SELECT coalesce(sum(batches), 0) FROM etl.etl_runs WHERE pipeline_id = %s"
        self.wait(lambda: self.lab.value(query, pipeline.id) >= count)

    def wait_for_end(self, *pipelines: Pipeline) -> None:
        """Until they rest."""
        self.wait(lambda: all(self.lab.status(p) in ("IDLE", "FAILED", "PAUSED") for p in pipelines))

    def assert_all_well(self, *pipelines: Pipeline) -> None:
        """Ask the oracle; what deleted pipelines left is tidied up by the next runner."""
        PipelineManager(self.lab.db).tidy()
        Oracle(self.lab).assert_all_well(*pipelines)


@contextmanager
def driving(lab: Lab, folder: Path) -> Iterator[Driver]:
    """A source that takes a while to load, watched by the oracle."""
    lab.sql(
        """
        CREATE TABLE content.items (id integer PRIMARY KEY, title text NOT NULL);
        INSERT INTO content.items SELECT n, 'item ' || n FROM generate_series(1, 400) n;
        GRANT SELECT ON content.items TO vitrina_reader;
        CREATE FUNCTION content.nap() RETURNS trigger LANGUAGE plpgsql
            AS $$ BEGIN PERFORM pg_sleep(0.03); RETURN NULL; END $$;
        GRANT USAGE ON SCHEMA content TO vitrina_runner;
        """
    )
    Oracle(lab).watch()
    driver = Driver(lab, folder)
    try:
        yield driver
    finally:
        driver.end()


def runner_environment(lab: Lab) -> dict[str, str]:
    """As the roles, with short times."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("VITRINA_")}
    return kept | {
        "VITRINA_DATABASE_URL": lab.conninfo,
        "VITRINA_RUNNER_URL": lab.connections.warehouse,
        "VITRINA_READER_URL": lab.connections.reader,
        "VITRINA_ALLOWED_SOURCE_SCHEMAS": "content,ugc",
        "VITRINA_LEASE_SECONDS": str(LEASE),
        "VITRINA_POLL_SECONDS": "0.1",
        "VITRINA_BACKOFF_SECONDS": "[0.2, 0.2, 0.2]",
        "VITRINA_HORIZON_MARGIN_SECONDS": "0",
        "VITRINA_LOG_FORMAT": "json",
    }

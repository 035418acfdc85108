"""The ways to fill a table: by hand (the floor), by Vitrina, and by the peers. Each has a table of its own."""

import json
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench.ground import Ground, Took
from bench.peers import address, run
from vitrina.domain.pipeline import Pipeline

QUIET = {"RUNTIME__DLTHUB_TELEMETRY": "false"}


@dataclass
class ByHand:
    """The floor: what one would do with statements, or a few lines of Python, and nothing else."""

    ground: Ground
    columns: str
    empty: Sequence[str]  # how to make its table
    works: Mapping[str, Callable[[], None]]
    name: str = "floor"

    @property
    def result(self) -> str:
        return f"SELECT {self.columns} FROM analytics.by_hand"

    def prepare(self) -> None:
        self.ground.execute("DROP TABLE IF EXISTS analytics.by_hand", *self.empty)

    def do(self, work: str) -> Took:
        started = time.perf_counter()
        self.works[work]()
        return Took(time.perf_counter() - started, 0)


@dataclass
class ByVitrina:
    """A runner process of its own for each run."""

    ground: Ground
    columns: str
    pipeline: Pipeline
    variables: Mapping[str, str] = field(default_factory=dict)
    name: str = "vitrina"

    @property
    def result(self) -> str:
        return f"SELECT {self.columns} FROM {self.pipeline.target_table}"

    def prepare(self) -> None:
        self.ground.add(self.pipeline)

    def do(self, _: str) -> Took:
        return self.ground.run(self.pipeline, self.variables)


@dataclass
class ByScript:
    """The script that users write, `executemany` of INSERT … ON CONFLICT."""

    python: Path
    ground: Ground
    select: str
    columns: str
    empty: Sequence[str]
    name: str = "executemany"

    @property
    def result(self) -> str:
        return f"SELECT {self.columns} FROM analytics.by_script"

    def prepare(self) -> None:
        made = [statement.replace("by_hand", "by_script") for statement in self.empty]
        self.ground.execute("DROP TABLE IF EXISTS analytics.by_script", *made)

    def do(self, _: str) -> Took:
        owner, key = self.ground.warehouse.owner, self.columns.split(", ")[0]
        given = {"source": owner, "target": owner, "select": self.select, "table": "analytics.by_script", "key": key}
        return run(self.python, "peer_script.py", json.dumps(given))


@dataclass
class ByDlt:
    """dlt, from one table to another of the same name in a schema of its own; every round begins without its state."""

    python: Path
    ground: Ground
    table: str
    columns: str  # of the source's table, its primary key first
    source: str | None = None  # a server; the warehouse unless given
    cursor: str | None = None
    function: str | None = None
    added: str = ""  # the column that the function adds
    name: str = "dlt"

    @property
    def result(self) -> str:
        columns = f"{self.columns}, {self.added}" if self.added else self.columns
        return f"SELECT {columns} FROM by_dlt.{self.table.split('.')[1]}"

    def prepare(self) -> None:
        self.ground.execute("DROP SCHEMA IF EXISTS by_dlt CASCADE", "DROP SCHEMA IF EXISTS by_dlt_staging CASCADE")
        shutil.rmtree(self._directory, ignore_errors=True)

    def do(self, _: str) -> Took:
        owner = self.ground.warehouse.owner
        given = {
            "source": address(self.source or owner),
            "target": address(owner, "localhost"),
            "directory": str(self._directory),
            "table": self.table,
            "columns": self.columns.split(", "),
            "cursor": self.cursor,
            "function": self.function,
        }
        return run(self.python, "peer_dlt.py", json.dumps(given), variables=QUIET)

    @property
    def _directory(self) -> Path:
        return self.ground.settings.home / "dlt"

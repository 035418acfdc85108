"""The ways to get the films into an index: the floor, Vitrina, and the peers. Each has an index of its own."""

import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from bench.films import SELECT
from bench.peers import PgSync, run
from bench.search import Search, send
from vitrina import bootstrap
from vitrina.domain.pipeline import Pipeline
from vitrina.meta.db import Connection
from vitrina.meta.repos.pipelines import PipelineRepo
from vitrina.meta.repos.runs import RunRepo
from vitrina.settings import Settings

BATCH = 5_000
CONNECTIONS = 2
BODIES = f"""
    WITH q AS ({SELECT}), numbered AS (SELECT q.*, (row_number() OVER (ORDER BY film_id) - 1) / {BATCH} AS batch FROM q)
    SELECT convert_to(string_agg('{{"index":{{"_id":"' || film_id || E'"}}}}\\n' || (
        SELECT row_to_json(d) FROM (SELECT n.film_id, n.title, n.description, n.creation_date, n.rating, n.type) AS d
    ) || E'\\n', ''), 'UTF8') AS body
    FROM numbered AS n GROUP BY batch ORDER BY batch
"""
COLUMNS = {name: name for name in ("title", "description", "creation_date", "rating", "type")} | {"id": "film_id"}


class Way(Protocol):
    """A way; what it measures leaves out its own start-up."""

    name: str
    index: str

    def prepare(self) -> None:
        """What comes before the clock starts."""
        ...

    def load(self) -> float:
        """All documents into an empty index; seconds."""
        ...

    def again(self) -> float | None:
        """Bring them up to date; None for a way that cannot."""
        ...


@dataclass
class Floor:
    """`_bulk` of bodies that are made beforehand."""

    db: Connection
    search: Search
    fields: dict[str, object]
    name: str = "floor"
    index: str = "by-hand"

    def prepare(self) -> None:
        self.bodies = [bytes(row["body"]) for row in self.db.execute(BODIES.encode())]
        self.search.create(self.index, self.fields)

    def load(self) -> float:
        return send(self.search.url, self.index, self.bodies, CONNECTIONS)

    def again(self) -> None:
        return None


@dataclass
class Vitrina:
    """A runner process of its own; the run's own times are taken. The index, its shadow and its checks are included."""

    db: Connection
    search: Search
    settings: Settings
    name: str = "vitrina"
    index: str = "by-vitrina"
    counts: dict[str, int] = field(default_factory=dict)

    def prepare(self) -> None:
        self.db.execute("DELETE FROM etl.etl_pipelines")
        for row in self.db.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'etl_shadow'").fetchall():
            self.db.execute(f'DROP TABLE etl_shadow."{row["tablename"]}"'.encode())
        self.pipeline = Pipeline(
            name="documents", source_query=SELECT, target_table=f"es:{self.index}", key=("film_id",), batch_size=BATCH
        )
        PipelineRepo(self.db).add(self.pipeline)

    def load(self) -> float:
        return self.again()

    def again(self) -> float:
        command = [sys.executable, "-m", "vitrina", "runner", "--once", "--pipeline", self.pipeline.name]
        given = {
            "VITRINA_HOME": str(self.settings.home),
            "VITRINA_ALLOWED_ES_INDEXES": self.index,
            "VITRINA_ES_SENDERS": str(CONNECTIONS),
            "ELASTICSEARCH_URL": self.search.url,
            "PATH": os.environ["PATH"],
            "VITRINA_LOG_FORMAT": "json",
        }
        done = subprocess.run(command, env=given, check=False, capture_output=True, text=True)
        last = RunRepo(self.db).recent(self.pipeline.id, 1)
        if done.returncode != 0 or not last:
            sys.exit(f"the run of Vitrina failed:\n{done.stderr[-3000:]}")
        return float((last[0]["finished_at"] - last[0]["started_at"]).total_seconds())


@dataclass
class HelpersBulk:
    """The client's own helper, as most scripts use it: every document sent every time."""

    search: Search
    warehouse: bootstrap.Warehouse
    python: Path
    fields: dict[str, object]
    name: str = "helpers.bulk"
    index: str = "by-helpers"

    def prepare(self) -> None:
        self.search.create(self.index, self.fields)

    def load(self) -> float:
        return self.again()

    def again(self) -> float:
        return run(self.python, "peer_bulk.py", self.warehouse.owner, self.search.url, self.index, SELECT).seconds


@dataclass
class ByPgSync:
    """PGSync, bootstrapped beforehand."""

    db: Connection  # of its own database
    search: Search
    pgsync: PgSync
    fields: dict[str, object]
    name: str = "PGSync"
    index: str = "by-pgsync"

    def prepare(self) -> None:
        self.search.create(self.index, self.fields)
        self.pgsync.bootstrap(self.index, COLUMNS)

    def load(self) -> float:
        return self.pgsync.sync()

    def again(self) -> float:
        return self.pgsync.sync()

"""A lab with live marts: its source is captured, and marts follow when told to."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from psycopg import sql

from tests.capturing import EAGER, Captured
from tests.support import Lab, differences, wait_for
from vitrina.adapters.captures import log
from vitrina.domain.pipeline import Pipeline
from vitrina.runner.main import Runner

TABLES = (
    "content.film_work",
    "content.genre",
    "content.genre_film_work",
    "content.person",
    "content.person_film_work",
    "ugc.ratings",
)
MARKS = "content.marks"


@dataclass
class Living:
    """One captured source, and pipelines over it."""

    lab: Lab
    captured: Captured

    def add(self, select: str, key: Sequence[str] = ("film_id",), **config: Any) -> Pipeline:
        """A live pipeline."""
        return self.lab.add(**({"source_query": select, "key": list(key), "mode": "live"} | config))

    def catch_up(self) -> None:
        """Until everything committed so far is in the log."""
        mark = uuid4().hex
        self.lab.sql(f"INSERT INTO {MARKS} VALUES (%s)", mark)

        def seen() -> bool:
            tip = log.tip(self.lab.db, "warehouse")
            rows, _ = log.read_slice(self.lab.db, "warehouse", tip.log_start - 1, [MARKS], 1_000_000)
            return any(mark in row["new_image"] for row in rows)

        wait_for(seen)

    def follow(self, pipeline: Pipeline) -> dict[str, Any]:
        """Have it follow everything that was committed before."""
        self.catch_up()
        self.lab.request(pipeline)
        Runner(self.lab.connections).run_once(pipeline.id)
        run = self.lab.last_run(pipeline)
        assert run["status"] == "SUCCESS", run["error"]
        return run

    def assert_equal(self, pipeline: Pipeline) -> None:
        """The mart is what the query gives, both ways."""
        assert pipeline.source_query is not None
        assert pipeline.target_table is not None
        assert differences(self.lab.db, pipeline.source_query, pipeline.target_table) == 0

    def events(self, pipeline: Pipeline) -> list[str]:
        """What the last run said."""
        query = "SELECT event FROM etl.etl_run_events WHERE run_id = %s ORDER BY id"
        return [row[0] for row in self.lab.sql(query, self.lab.last_run(pipeline)["id"])]


@contextmanager
def living(lab: Lab, kind: str, tables: Sequence[str] = TABLES) -> Iterator[Living]:
    """Capture these tables; all of them tell their old rows whole."""
    lab.sql(f"CREATE TABLE {MARKS} (mark text PRIMARY KEY)")
    for table in tables:
        lab.db.execute(sql.SQL("ALTER TABLE {} REPLICA IDENTITY FULL").format(sql.Identifier(*table.split("."))))
    captured = Captured(lab, kind)
    captured.install(*tables, MARKS)
    captured.start(EAGER)
    try:
        yield Living(lab, captured)
    finally:
        captured.stop()

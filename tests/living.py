"""A lab with live marts: its source is captured, and marts follow when told to."""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any
from uuid import uuid4

from psycopg.conninfo import make_conninfo

from tests.capturing import EAGER, Captured, logged
from tests.support import Lab, wait_for
from vitrina.capture import log
from vitrina.capture.changes import REWRITTEN
from vitrina.capture.engine import Pace
from vitrina.domain.pipeline import Pipeline
from vitrina.meta.db import Connection, connect
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
        values = {"source_query": select, "key": list(key), "mode": "live", "source": self.captured.source}
        return self.lab.add(**(values | config))

    def catch_up(self) -> None:
        """Until everything committed so far is in the log."""
        insert = f"INSERT INTO {MARKS} VALUES (%s) RETURNING pg_current_xact_id()::text::bigint AS xid"
        [mark] = self.captured.conn.execute(insert.encode(), [uuid4().hex]).fetchall()

        def seen() -> bool:
            source = self.captured.source
            tip = log.tip(self.lab.db, source)
            return any(row["xid"] == mark["xid"] for row in logged(self.lab.db, source, tip.log_start - 1, [MARKS]))

        wait_for(seen, 30)

    def alter(self, table: str, how: str) -> None:
        """ALTER a table, and wait until the log says so."""
        before = self._upheavals(table)
        self.captured.run(f"ALTER TABLE {table} {how}")
        wait_for(lambda: self._upheavals(table) > before)

    def _upheavals(self, table: str) -> int:
        rows = logged(self.lab.db, self.captured.source, self.tip.log_start - 1, [table])
        return sum(row["op"] == REWRITTEN for row in rows)

    def follow(self, *pipelines: Pipeline, **options: bool) -> dict[str, Any]:
        """Have them follow everything that was committed before; the last one's run."""
        self.catch_up()
        for pipeline in pipelines:
            edited = self.lab.status(pipeline) == "RUN_REQUESTED"  # of one that was followed
            assert self.lab.request(pipeline, **options) or edited
        Runner(self.lab.connections).run_once()
        for pipeline in pipelines:
            run = self.lab.last_run(pipeline)
            assert run["status"] == "SUCCESS", f"{pipeline.name}: {run['error']}"
        return run

    def assert_equal(self, pipeline: Pipeline, wanted: str | None = None, note: str = "") -> None:
        """The mart is what the query gives, or another one does, both ways."""
        query = images(self.captured.conn, wanted or str(pipeline.source_query))
        mart = images(self.lab.db, f"SELECT * FROM {pipeline.target_table}")
        assert mart == query, f"{pipeline.name} {note}: beyond {mart - query}, missing {query - mart}"

    def events(self, pipeline: Pipeline) -> list[str]:
        """What the last run said."""
        return [event for event, _ in self.told(pipeline)]

    def why(self, pipeline: Pipeline) -> str:
        """Why the last run compared in full."""
        return next((fields["why"] for event, fields in self.told(pipeline) if event == "comparing"), "")

    def told(self, pipeline: Pipeline) -> list[tuple[str, dict[str, Any]]]:
        """What the last run said, with the details."""
        query = "SELECT event, fields FROM etl.etl_run_events WHERE run_id = %s ORDER BY id"
        return [(row[0], row[1]) for row in self.lab.sql(query, self.lab.last_run(pipeline)["id"])]

    def position(self, pipeline: Pipeline) -> dict[str, Any]:
        """Where it is in the log."""
        query = "SELECT checkpoint -> 'live' FROM etl.etl_state WHERE pipeline_id = %s"
        return dict(self.lab.value(query, pipeline.id) or {})

    @property
    def tip(self) -> log.Tip:
        """Where the log is."""
        return log.tip(self.lab.db, self.captured.source)


def images(conn: Connection, select: str) -> "Counter[str]":
    """The rows of a query, as they look."""
    return Counter(row["image"] for row in conn.execute(f"SELECT q::text AS image FROM (\n{select}\n) AS q".encode()))


@contextmanager
def living(
    lab: Lab,
    kind: str,
    tables: Sequence[str] = TABLES,
    origin: Connection | None = None,
    pace: Pace = EAGER,
    tap: str | None = None,
) -> Iterator[Living]:
    """Capture these tables; all of them tell their old rows whole. `origin`: the source, if it is another database."""
    captured = Captured(lab, kind, "other" if origin else "warehouse", origin, tap=tap)
    captured.run(f"CREATE TABLE {MARKS} (mark text PRIMARY KEY)", *(whole_images(captured.conn, tables)))
    captured.install(*tables, MARKS)
    captured.start(pace)
    try:
        yield Living(lab, captured)
    finally:
        captured.stop()


def whole_images(conn: Connection, tables: Sequence[str]) -> list[str]:
    """What makes tables, and the partitions of them, tell their old rows whole."""
    query = """SELECT t::regclass::text AS name FROM unnest(%(tables)s::text[]) AS t
               UNION SELECT p.relid::regclass::text
               FROM unnest(%(tables)s::text[]) AS t, pg_partition_tree(t::regclass) AS p"""
    names = [row["name"] for row in conn.execute(query, {"tables": list(tables)})]
    return [f"ALTER TABLE {name} REPLICA IDENTITY FULL" for name in names]


@contextmanager
def living_elsewhere(lab: Lab, kind: str, tables: Sequence[str] = TABLES, prepare: str = "") -> Iterator[Living]:
    """The same where the source is another database."""
    conninfo = lab.other_database()
    sources = {"other": make_conninfo(conninfo, user="vitrina_reader")}
    captures = dict(lab.connections.captures) | {"other": make_conninfo(conninfo, user="vitrina_capture")}
    lab.connections = replace(lab.connections, sources=sources, captures=captures)
    with connect(conninfo, "origin") as origin:
        if prepare:
            origin.execute(prepare.encode())
        with living(lab, kind, tables, origin) as live:
            yield live

"""A lab: one database of its own, pipelines made through the real repos, run by the real executor."""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Self

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from vitrina.bootstrap import Warehouse, set_up
from vitrina.domain.pipeline import Pipeline
from vitrina.domain.run import RunOptions
from vitrina.meta.db import Connection, connect
from vitrina.meta.repos.pipelines import PipelineRepo
from vitrina.meta.repos.requests import RequestRepo
from vitrina.meta.repos.runs import RunRepo
from vitrina.runner.main import Runner
from vitrina.settings import Settings
from vitrina.sources.connections import Connections

FAST = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "autovacuum": "off",
    "jit": "off",  # it takes longer to compile a query than to run it
}
QUICK: dict[str, Any] = {
    "lease_seconds": 15,
    "poll_seconds": 0.25,
    "horizon_margin_seconds": 0,
    "backoff_seconds": (0.05, 0.05, 0.05),
    "allowed_source_schemas": ["content", "ugc"],
    "_env_file": None,
}


def make_template(server: str, name: str) -> str:
    """A database to be cloned, with roles and meta-store."""
    with connect(server, "testing") as conn:
        conn.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    conninfo = make_conninfo(server, dbname=name)
    with connect(conninfo, "testing") as conn:
        conn.execute("CREATE SCHEMA content")
    set_up(Warehouse(conninfo, conninfo, None), Settings(**QUICK))
    return name


def clone(server: str, template: str) -> str:
    """A new database from a template."""
    with connect(server, "testing") as conn:
        return make_conninfo(server, dbname=copy(conn, template))


def copy(conn: Connection, template: str) -> str:
    """Its name: the files are copied, with nothing for captures to read in the log."""
    name = f"t_{uuid.uuid4().hex[:12]}"
    create = sql.SQL("CREATE DATABASE {} TEMPLATE {} STRATEGY file_copy")
    conn.execute(create.format(sql.Identifier(name), sql.Identifier(template)))
    return name


def drop(server: str, conninfo: str) -> None:
    """Away with it, whoever is connected."""
    with connect(server, "testing") as conn:
        remove(conn, str(conninfo_to_dict(conninfo)["dbname"]))


def remove(conn: Connection, name: str) -> None:
    """The same, by a session that is there."""
    conn.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))


@dataclass
class Lab:
    """One test's database and the things one does with it."""

    conninfo: str
    db: Connection  # as superuser
    connections: Connections

    @classmethod
    @contextmanager
    def at(cls, conninfo: str, **settings: Any) -> Iterator[Self]:
        """In this database, for a while."""
        with connect(conninfo, "lab") as db:
            db.execute("SET search_path = public")  # as in psql: tests create what the owner of a database creates
            yield cls(conninfo, db, make_connections(conninfo, **settings))

    def configure(self, **settings: Any) -> None:
        """Other settings from here on."""
        self.connections = replace(self.connections, settings=self.connections.settings.model_copy(update=settings))

    def sql(self, query: str, *params: Any) -> list[Any]:
        """Run a statement as superuser; the rows, as tuples, or nothing."""
        cursor = psycopg.Cursor(self.db, row_factory=psycopg.rows.tuple_row)
        cursor.execute(query.encode(), params or None)
        return cursor.fetchall() if cursor.description else []

    def value(self, query: str, *params: Any) -> Any:
        """The one value of a query."""
        return self.sql(query, *params)[0][0]

    def add(self, **config: Any) -> Pipeline:
        """Store a pipeline."""
        pipeline = Pipeline.parse({"name": "mart", "target_table": "analytics.mart"} | config)
        PipelineRepo(self.db).add(pipeline)
        return pipeline

    def request(self, pipeline: Pipeline, **options: bool) -> bool:
        """Ask for a run."""
        return PipelineRepo(self.db).request_run(pipeline.id, RunOptions(**options))

    def run(self, pipeline: Pipeline, **options: bool) -> dict[str, Any]:
        """Ask for a run, execute it here, and tell how it went."""
        assert self.request(pipeline, **options)
        Runner(self.connections).run_once(pipeline.id)
        return self.last_run(pipeline)

    def ask(self, kind: str, pipeline: Pipeline | None, /, **params: Any) -> uuid.UUID:
        """Leave a request for a runner."""
        return RequestRepo(self.db).ask(kind, pipeline.id if pipeline else None, params, "tester")

    def answer(self, kind: str, pipeline: Pipeline | None, /, **params: Any) -> dict[str, Any]:
        """Ask, have it answered here, and give the row."""
        request_id = self.ask(kind, pipeline, **params)
        Runner(self.connections).answer()
        return self.get_request(request_id)

    def get_request(self, request_id: uuid.UUID) -> dict[str, Any]:
        """How a request stands."""
        row = RequestRepo(self.db).get(request_id)
        assert row is not None
        return _with_words(row)

    def reconcile(self, pipeline: Pipeline, **params: Any) -> dict[str, Any]:
        """The report of a reconcile request."""
        row = self.answer("reconcile", pipeline, **params)
        assert row["error"] is None
        return dict(row["result"])

    def last_run(self, pipeline: Pipeline) -> dict[str, Any]:
        """The latest row of etl_runs, and what it says of an error."""
        return _with_words(RunRepo(self.db).recent(pipeline.id, 1)[0])

    def status(self, pipeline: Pipeline) -> str:
        """Where it stands."""
        return str(PipelineRepo(self.db).get(pipeline.id).status)


def make_connections(conninfo: str, **settings: Any) -> Connections:
    """As the roles, as in production."""
    return Connections(
        warehouse=make_conninfo(conninfo, user="vitrina_runner"),
        reader=make_conninfo(conninfo, user="vitrina_reader"),
        listen=conninfo,
        sources={},
        settings=Settings(**(QUICK | settings)),
        captures={"warehouse": make_conninfo(conninfo, user="vitrina_capture")},
    )


def _with_words(row: dict[str, Any]) -> dict[str, Any]:
    """With `said`: what is wrong and what to do about it, in one line."""
    return row | {"said": " — ".join(text for text in (row["error"], row["remedy"]) if text) or None}

"""A lab: one database of its own, pipelines made through the real repos, run by the real executor."""

import os
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Event, Thread
from typing import Any

import httpx
import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from tests.patience import SHORT_LEASE
from tests.patience import wait_for as wait_for
from vitrina.bootstrap import Warehouse, set_up
from vitrina.demo.data import load_cinema
from vitrina.domain.pipeline import Pipeline
from vitrina.domain.run import RunOptions
from vitrina.embedded.distribution import Missing
from vitrina.embedded.elasticsearch import VERSION, EmbeddedElasticsearch
from vitrina.meta.db import Connection, connect
from vitrina.meta.repos.pipelines import PipelineRepo
from vitrina.meta.repos.requests import RequestRepo
from vitrina.meta.repos.runs import RunRepo
from vitrina.runner.main import Runner
from vitrina.settings import Settings
from vitrina.sources.connections import Connections

SERVER = "VITRINA_TEST_SERVER"
ELASTIC = "VITRINA_TEST_ELASTIC"
FAST = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "autovacuum": "off",
    "shared_buffers": "64MB",  # a database that is dropped has to be looked for in all of it
    "max_wal_size": "256MB",
    "jit": "off",  # it takes longer to compile a query than to run it
}
QUICK_JVM = ["-XX:TieredStopAtLevel=1"]  # compiles less: half the time to start, a slower server
# How many sessions of this database wait for a lock: the server is shared with other tests.
BLOCKED = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
QUICK: dict[str, Any] = {
    "lease_seconds": 5 * SHORT_LEASE,
    "poll_seconds": 0.25,
    "linger_seconds": 2,
    "horizon_margin_seconds": 0,
    "backoff_seconds": (0.05, 0.05, 0.05),
    "_env_file": None,
}


def make_templates(server: str) -> None:
    """Databases that tests clone: with roles, meta-store and a small cinema."""
    with psycopg.connect(server, autocommit=True) as conn:
        conn.execute("CREATE DATABASE vitrina_template")
    conninfo = make_conninfo(server, dbname="vitrina_template")
    with psycopg.connect(conninfo) as conn:
        load_cinema(conn, films=60, ratings=400)
    set_up(Warehouse(conninfo, conninfo, None), Settings(**QUICK))


def clone(template: str) -> str:
    """A new database from a template: its files are copied, with nothing for captures to read in the log."""
    name = f"t_{uuid.uuid4().hex[:12]}"
    create = sql.SQL("CREATE DATABASE {} TEMPLATE {} STRATEGY file_copy")
    with psycopg.connect(os.environ[SERVER], autocommit=True) as conn:
        conn.execute(create.format(sql.Identifier(name), sql.Identifier(template)))
    return make_conninfo(os.environ[SERVER], dbname=name)


def drop(conninfo: str) -> None:
    """Away with it, whoever is connected; who streams from a slot of its own may take a moment to leave."""
    name = str(conninfo_to_dict(conninfo)["dbname"])
    active = "SELECT count(*) FROM pg_replication_slots WHERE database = %s AND active"
    with psycopg.connect(os.environ[SERVER], autocommit=True) as conn:
        wait_for(lambda: conn.execute(active, [name]).fetchone() == (0,))
        conn.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))


def elastic_server(directory: Path | None = None) -> EmbeddedElasticsearch:
    """The one that all tests of this run share, or one elsewhere; VITRINA_TEST_ES_VERSION chooses the version."""
    version = os.environ.get("VITRINA_TEST_ES_VERSION") or VERSION
    cache = Settings().elasticsearch_cache
    place = directory or Path(os.environ[ELASTIC])
    return EmbeddedElasticsearch(place, version=version, cache=cache, jvm=QUICK_JVM)


def start_or_skip(server: EmbeddedElasticsearch) -> None:
    """Start it; where Java, Maven or the network is missing, skip, unless VITRINA_REQUIRE forbids that."""
    needed = "elasticsearch" if server.version.startswith("8.") else "es9"
    try:
        server.start()
    except Missing as error:
        if needed in os.environ.get("VITRINA_REQUIRE", "").split(","):
            pytest.fail(f"VITRINA_REQUIRE has {needed}: {error}")
        pytest.skip(str(error))


def delete_indexes(url: str, prefix: str) -> None:
    """All whose names begin so, by name: Elasticsearch deletes none by a pattern."""
    with httpx.Client(base_url=url, trust_env=False, verify=False, timeout=30) as client:
        found = client.get(f"/{prefix}*", params={"expand_wildcards": "all"}).raise_for_status()
        for name in found.json():
            client.delete(f"/{name}").raise_for_status()


@dataclass
class Lab:
    """One test's database and the things one does with it."""

    conninfo: str
    db: Connection  # as superuser
    connections: Connections
    more: list[str] = field(default_factory=list)

    @classmethod
    @contextmanager
    def open(cls, template: str, **settings: Any) -> Iterator["Lab"]:
        """Clone, hand out, drop."""
        conninfo = clone(template)
        with connect(conninfo, "lab") as db:
            db.execute("SET search_path = public")  # as in psql: tests create what the owner of a database creates
            lab = cls(conninfo, db, make_connections(conninfo, **settings))
            try:
                yield lab
            finally:
                db.close()
                for other in [*lab.more, conninfo]:
                    drop(other)

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

    @contextmanager
    def runner(self) -> Iterator[Runner]:
        """A runner at work in the background."""
        runner = Runner(self.connections)
        thread = Thread(target=runner.main_loop)
        thread.start()
        try:
            yield runner
        finally:
            runner.stopping.set()
            thread.join()

    def last_run(self, pipeline: Pipeline) -> dict[str, Any]:
        """The latest row of etl_runs, and what it says of an error."""
        return _with_words(RunRepo(self.db).recent(pipeline.id, 1)[0])

    def status(self, pipeline: Pipeline) -> str:
        """Where it stands."""
        return str(PipelineRepo(self.db).get(pipeline.id).status)

    def events(self, pipeline: Pipeline) -> list[dict[str, Any]]:
        """What its runs said, oldest first."""
        return self.db.execute(
            "SELECT e.* FROM etl.etl_run_events e JOIN etl.etl_runs r ON r.id = e.run_id"
            " WHERE r.pipeline_id = %s ORDER BY e.id",
            [pipeline.id],
        ).fetchall()

    def assert_equal(self, pipeline: Pipeline, mart: str | None = None) -> None:
        """Mart and query hold the same rows, compared by their exact images, both ways."""
        select = pipeline.source_query or f"SELECT * FROM {pipeline.source_table}"
        assert differences(self.db, select, mart or str(pipeline.target_table)) == 0

    def other_database(self, template: str = "vitrina_template") -> str:
        """Another database of the same server, to be a remote source."""
        conninfo = clone(template)
        self.more.append(conninfo)
        return conninfo


@contextmanager
def beside(stopping: Event, *works: Callable[[], None]) -> Iterator[None]:
    """Each in a thread of its own for the length of a block; they look at `stopping`."""
    threads = [Thread(target=work) for work in works]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stopping.set()
        for thread in threads:
            thread.join()


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


def differences(conn: Connection, select: str, mart: str) -> int:
    """How many rows are in one and not in the other: the oracle, apart from the code it checks."""
    names = [c.name for c in conn.execute(f"SELECT * FROM ({select}) q LIMIT 0".encode()).description or []]
    kept = {
        row["attname"]
        for row in conn.execute(
            "SELECT attname FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped", [mart]
        )
    }
    columns = sql.SQL(", ").join(sql.Identifier(name) for name in names if name in kept)
    row = conn.execute(
        sql.SQL(
            """
            WITH q AS (SELECT {columns} FROM ({select}) s), m AS (SELECT {columns} FROM {mart}),
            qi AS (SELECT ROW(q.*)::text AS image, count(*) AS n FROM q GROUP BY 1),
            mi AS (SELECT ROW(m.*)::text AS image, count(*) AS n FROM m GROUP BY 1)
            SELECT count(*) AS n FROM qi FULL JOIN mi USING (image) WHERE qi.n IS DISTINCT FROM mi.n
            """
        ).format(columns=columns, select=sql.SQL(select), mart=sql.SQL(mart))
    ).fetchone()
    assert row is not None
    return int(row["n"])


def _with_words(row: dict[str, Any]) -> dict[str, Any]:
    """With `said`: what is wrong and what to do about it, in one line."""
    return row | {"said": " — ".join(text for text in (row["error"], row["remedy"]) if text) or None}

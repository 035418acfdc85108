"""A lab: one database of its own, pipelines made through the real repos, run by the real executor."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
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
from vitrina.embedded.distribution import Missing
from vitrina.embedded.elasticsearch import VERSION, EmbeddedElasticsearch
from vitrina.embedded.opensearch import EmbeddedOpenSearch
from vitrina.embedded.search import EmbeddedSearch
from vitrina.meta.db import Connection, connect
from vitrina.runner.main import Runner
from vitrina.settings import Settings
from vitrina.sources.connections import Connections
from vitrina.testing import labs as testing

SERVER = "VITRINA_TEST_SERVER"
ELASTIC = "VITRINA_TEST_ELASTIC"
OPEN = "VITRINA_TEST_OPEN"
FAST = testing.FAST | {
    "shared_buffers": "64MB",  # a database that is dropped has to be looked for in all of it
    "max_wal_size": "256MB",
}
# A session has its memory in pages of 2 MB, where the system has them: a third of its page faults less, about a tenth
# of its processor time. Another libc than glibc does not know it, and goes on as ever.
MALLOC = {"hugetlb": 1, "top_pad": 6 << 20, "mmap_threshold": 64 << 20, "trim_threshold": 256 << 20}
LARGE_PAGES = ":".join(f"glibc.malloc.{name}={value}" for name, value in MALLOC.items())
QUICK = testing.QUICK | {"lease_seconds": 5 * SHORT_LEASE}
QUICK_JVM = ["-XX:TieredStopAtLevel=1"]  # compiles less: half the time to start, a slower server
# How many sessions of this database wait for a lock: the server is shared with other tests.
BLOCKED = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"


def make_templates(server: str) -> None:
    """Databases that tests clone: with roles, meta-store and a small cinema."""
    with psycopg.connect(server, autocommit=True) as conn:
        conn.execute("CREATE DATABASE vitrina_template")
    conninfo = make_conninfo(server, dbname="vitrina_template")
    with psycopg.connect(conninfo) as conn:
        load_cinema(conn, films=60, ratings=400)
    set_up(Warehouse(conninfo, conninfo, None), Settings(**QUICK))


@cache
def steward() -> Connection:
    """The session that clones and drops, one for each worker: to begin one costs half as much as a copy."""
    return connect(os.environ[SERVER], "testing")


def clone(template: str) -> str:
    """A new database on the server of the tests."""
    return make_conninfo(os.environ[SERVER], dbname=testing.copy(steward(), template))


def drop(conninfo: str) -> None:
    """Away with it; who streams from a slot of its own may take a moment to leave."""
    name = str(conninfo_to_dict(conninfo)["dbname"])
    active = "SELECT FROM pg_replication_slots WHERE database = %s AND active"
    wait_for(lambda: steward().execute(active, [name]).fetchone() is None)
    testing.remove(steward(), name)


def elastic_server(directory: Path | None = None) -> EmbeddedElasticsearch:
    """The one that all tests of this run share, or one elsewhere; VITRINA_TEST_ES_VERSION chooses the version."""
    version = os.environ.get("VITRINA_TEST_ES_VERSION") or VERSION
    cache = Settings().elasticsearch_cache
    place = directory or Path(os.environ[ELASTIC])
    return EmbeddedElasticsearch(place, version=version, cache=cache, jvm=QUICK_JVM)


def open_server(directory: Path | None = None) -> EmbeddedOpenSearch:
    """The OpenSearch that all tests of this run share, or one elsewhere."""
    return EmbeddedOpenSearch(directory or Path(os.environ[OPEN]), jvm=QUICK_JVM)


def start_or_skip(server: EmbeddedSearch) -> None:
    """Start it; where Java, Maven or the network is missing, skip, unless VITRINA_REQUIRE forbids that."""
    needed = "es9" if server.version.startswith("9.") else server.engine.program
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
class Lab(testing.Lab):
    """One test's database and the things one does with it."""

    more: list[str] = field(default_factory=list)

    @classmethod
    @contextmanager
    def open(cls, template: str, **settings: Any) -> Iterator["Lab"]:
        """Clone, hand out, drop."""
        conninfo = clone(template)
        more = [conninfo]
        try:
            with cls.at(conninfo, **(QUICK | settings)) as lab:
                lab.more = more
                yield lab
        finally:
            for other in reversed(more):
                drop(other)

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
    return testing.make_connections(conninfo, **(QUICK | settings))


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

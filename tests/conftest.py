"""A real Postgres under every test that touches SQL: migrated once, then cloned per test."""

import fcntl
import os
import shutil
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.elastic import Search, open_search
from tests.support import (
    ELASTIC,
    SERVER,
    Lab,
    clone,
    delete_indexes,
    drop,
    elastic_server,
    make_templates,
    start_or_skip,
)
from vitrina.demo.search import INDEXES
from vitrina.embedded import EmbeddedPostgres
from vitrina.log import configure_logging

for name in (
    "MAKEFLAGS",
    "MFLAGS",
    "MAKEOVERRIDES",
    "MAKELEVEL",
    "ARGS",
):  # of the make that runs us
    os.environ.pop(name, None)

pytest.register_assert_rewrite("tests.sinks", "tests.faults.oracle")
FAST = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off", "autovacuum": "off"}


def pytest_configure(config: pytest.Config) -> None:
    """Start one server for all workers; in the process that controls them, before they exist."""
    configure_logging("json")
    if hasattr(config, "workerinput"):
        return
    home = Path(tempfile.mkdtemp(prefix="vitrina-tests-"))
    home.chmod(0o755)
    config.add_cleanup(lambda: shutil.rmtree(home, ignore_errors=True))  # runs last: the order is reversed
    os.environ[ELASTIC] = str(home / "elasticsearch")
    config.add_cleanup(elastic_server().purge)
    bin_dir = os.environ.get("VITRINA_TEST_PG_BIN")
    server = EmbeddedPostgres(home / "postgres", bin_dir=Path(bin_dir) if bin_dir else None, settings=FAST)
    config.add_cleanup(server.purge)
    server.start()
    os.environ[SERVER] = server.conninfo()
    make_templates(server.conninfo())


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What uses the shared Elasticsearch is marked so, for `-m elasticsearch`. The longest test begins first."""
    items.sort(key=lambda item: "tests/docs/test_pages.py" not in item.nodeid)
    for item in items:
        if "elastic" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.elasticsearch)


def pytest_report_header() -> str:
    """Say which server the tests run on."""
    with psycopg.connect(os.environ[SERVER]) as conn:
        return f"Postgres {conn.info.parameter_status('server_version')}"


@pytest.fixture
def empty_db() -> Iterator[str]:
    """An empty database, as its superuser."""
    conninfo = clone("template1")
    yield conninfo
    drop(conninfo)


@pytest.fixture
def lab() -> Iterator[Lab]:
    """A meta-store and a small cinema."""
    with Lab.open("vitrina_template") as lab:
        yield lab


@pytest.fixture(scope="session")
def elastic() -> str:
    """The URL of one Elasticsearch for all workers, started by the first test that asks; the controller ends it."""
    server = elastic_server()
    start_or_skip(server)
    return server.url


@pytest.fixture
def demo_indexes(elastic: str) -> Iterator[str]:
    """The shared Elasticsearch, for one demo at a time: the names of its indexes are always the same."""
    with open(Path(os.environ[ELASTIC]).with_name("demo.lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield elastic
        for name in INDEXES:
            delete_indexes(elastic, name)


@pytest.fixture
def index_prefix(elastic: str) -> Iterator[str]:
    """A beginning for the names of this test's indexes, which are deleted at its end."""
    prefix = f"t_{uuid.uuid4().hex[:12]}_"
    yield prefix
    delete_indexes(elastic, prefix)


@pytest.fixture
def search(lab: Lab, elastic: str, index_prefix: str) -> Iterator[Search]:
    """A lab that may write to indexes of its own."""
    with open_search(lab, elastic, index_prefix) as search:
        yield search

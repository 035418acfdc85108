"""A real Postgres under every test that touches SQL: migrated once, then cloned per test."""

import fcntl
import gc
import json
import os
import sys
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import psycopg
import pytest

from tests import choosing, patience, room
from tests.clickhouse import ClickMart, open_mart, server_or_skip
from tests.elastic import ELASTICSEARCH, OPENSEARCH, Search, open_search
from tests.sinks import SqliteSink, install_example
from tests.support import (
    ELASTIC,
    LARGE_PAGES,
    OPEN,
    SERVER,
    Lab,
    clone,
    delete_indexes,
    drop,
    elastic_server,
    make_templates,
    open_server,
    start_or_skip,
)
from tests.support import (
    FAST as FAST,
)
from tools import machine
from vitrina.demo.search import INDEXES
from vitrina.domain.errors import VitrinaError
from vitrina.embedded.postgres import EmbeddedPostgres
from vitrina.log import configure_logging
from vitrina.transforms.chain import load_transforms

OF_MAKE = ("MAKEFLAGS", "MFLAGS", "MAKEOVERRIDES", "MAKELEVEL", "ARGS")  # of the make that runs us
for name in (*OF_MAKE, "PYTHONDONTWRITEBYTECODE"):
    os.environ.pop(name, None)
sys.dont_write_bytecode = False  # or each worker, and each program that a test starts, compiles everything again

SLOW = Path(__file__).with_name("slow.json")  # seconds of the tests that take more than one, by `make slow`
TOOK: dict[str, float] = {}
OUTAGES = 3  # of five minutes, in tests/faults/test_outages.py


def pytest_configure(config: pytest.Config) -> None:
    """Start one server for all workers; in the process that controls them, before they exist."""
    configure_logging("json")
    if hasattr(config, "workerinput"):
        return
    try:
        room.choose()
        start_servers(config)
    except (room.NoRoom, VitrinaError) as error:
        raise pytest.UsageError(str(error)) from None


def start_servers(config: pytest.Config) -> None:
    """Postgres; Elasticsearch waits for the first test that asks for it. The end of the run ends both."""
    stack = ExitStack()
    config.add_cleanup(stack.close)  # runs last: the order is reversed
    home = stack.enter_context(room.home("vitrina-tests-"))
    os.environ[ELASTIC] = str(home / "elasticsearch")
    config.add_cleanup(elastic_server().purge)
    os.environ[OPEN] = str(home / "opensearch")
    config.add_cleanup(open_server().purge)
    bin_dir = os.environ.get("VITRINA_TEST_PG_BIN")
    server = EmbeddedPostgres(home / "postgres", bin_dir=Path(bin_dir) if bin_dir else None, settings=FAST)
    config.add_cleanup(server.purge)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GLIBC_TUNABLES", LARGE_PAGES)
        server.start()
    os.environ[SERVER] = server.conninfo()
    make_templates(server.conninfo())


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Tests wait for servers half of their time: two for each core; how many sessions Postgres has is the limit.

    The outages of five minutes do nothing else than wait: each has a worker more, or the cores would rest meanwhile."""
    waiting = OUTAGES if config.option.markexpr.startswith("long") else 0
    return min(8, 2 * machine.cores() + waiting)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """How long each test takes, all told; what a part of one takes is in it already."""
    if not isinstance(report, pytest.SubtestReport):
        TOOK[report.nodeid] = TOOK.get(report.nodeid, 0) + report.duration


def pytest_sessionfinish(session: pytest.Session) -> None:
    """For `make slow`: write down which tests take longest; they begin first, or are left to `make test-long`."""
    if os.environ.get("VITRINA_MEASURE") and not hasattr(session.config, "workerinput"):
        longest = sorted(((round(took, 1), test) for test, took in TOOK.items() if took > 1), reverse=True)
        SLOW.write_text(json.dumps({test: took for took, test in longest}, indent=1, ensure_ascii=False) + "\n")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """The tests of a module that names several `engines` are for each of them; those on the first keep their names."""
    engines = getattr(metafunc.module, "engines", ())
    if "engine" in metafunc.fixturenames and engines:
        metafunc.parametrize("engine", engines, ids=[pytest.HIDDEN_PARAM, *engines[1:]])


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What is touched is marked. The longest tests begin first, so that nobody waits for one of them at the end."""
    known = json.loads(SLOW.read_text())
    items.sort(key=lambda item: -known.get(item.nodeid, choosing.declared_seconds(item)))
    for item in items:
        choosing.mark(item, known.get(item.nodeid, 0))


def pytest_collection_finish() -> None:
    """What is there now stays to the end: the collector of garbage need not look at it again and again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 100)


def pytest_report_header() -> str:
    """Say which server the tests run on, and how long they wait."""
    with psycopg.connect(os.environ[SERVER]) as conn:
        version = conn.info.parameter_status("server_version")
    return f"Postgres {version}, {patience.NAME}={patience.factor():.1f}"


@pytest.fixture
def empty_db() -> Iterator[str]:
    """An empty database, as its superuser."""
    conninfo = clone("template1")
    yield conninfo
    drop(conninfo)


@pytest.fixture(scope="session", autouse=True)
def _registered() -> None:
    """A process that answers for a runner knows the transforms that are installed, as a runner does from its start."""
    load_transforms([])


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


@pytest.fixture(scope="session")
def opensearch() -> str:
    """The same, an OpenSearch; or one that runs somewhere, as VITRINA_TEST_OPENSEARCH_URL says."""
    if given := os.environ.get("VITRINA_TEST_OPENSEARCH_URL"):
        return given
    server = open_server()
    start_or_skip(server)
    return server.url


@pytest.fixture
def engine() -> str:
    """Which of them a test's indexes are in."""
    return ELASTICSEARCH


@pytest.fixture
def engine_url(engine: str, request: pytest.FixtureRequest) -> str:
    """Where it is; not started for tests that need the other."""
    return str(request.getfixturevalue("opensearch" if engine == OPENSEARCH else "elastic"))


@pytest.fixture
def demo_indexes(elastic: str) -> Iterator[str]:
    """The shared Elasticsearch, for one demo at a time: the names of its indexes are always the same."""
    with open(Path(os.environ[ELASTIC]).with_name("demo.lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield elastic
        for name in INDEXES:
            delete_indexes(elastic, name)


@pytest.fixture
def index_prefix(engine_url: str) -> Iterator[str]:
    """A beginning for the names of this test's indexes, which are deleted at its end."""
    prefix = f"t_{uuid.uuid4().hex[:12]}_"
    yield prefix
    delete_indexes(engine_url, prefix)


@pytest.fixture
def search(lab: Lab, engine: str, engine_url: str, index_prefix: str) -> Iterator[Search]:
    """A lab that may write to indexes of its own."""
    with open_search(lab, engine_url, index_prefix, engine) as search:
        yield search


@pytest.fixture(scope="session")
def plug_in(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the example of docs/extending.md is installed."""
    folder = tmp_path_factory.mktemp("plug_in")
    install_example(folder)
    return folder


@pytest.fixture
def sqlite(lab: Lab, plug_in: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SqliteSink:
    """A lab with that plug-in."""
    monkeypatch.syspath_prepend(plug_in)
    monkeypatch.setenv("SQLITE_MARTS", str(tmp_path))
    lab.configure(allowed_other_targets=["sqlite:*"])
    return SqliteSink(lab, tmp_path)


@pytest.fixture(scope="session")
def clickhouse(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of ClickHouse's engine, of one for each worker."""
    with server_or_skip(tmp_path_factory.mktemp("clickhouse")) as url:
        yield url


@pytest.fixture
def click_mart(lab: Lab, clickhouse: str) -> Iterator[ClickMart]:
    """A lab that may write to a database of its own there."""
    with open_mart(lab, clickhouse) as mart:
        yield mart

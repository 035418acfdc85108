"""A real Postgres under every test that touches SQL: migrated once, then cloned per test."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.support import SERVER, Lab, clone, drop, make_templates
from vitrina.embedded import EmbeddedPostgres
from vitrina.log import configure_logging

FAST = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off", "autovacuum": "off"}


def pytest_configure(config: pytest.Config) -> None:
    """Start one server for all workers; in the process that controls them, before they exist."""
    configure_logging("json")
    if hasattr(config, "workerinput"):
        return
    home = Path(tempfile.mkdtemp(prefix="vitrina-tests-"))
    home.chmod(0o755)
    bin_dir = os.environ.get("VITRINA_TEST_PG_BIN")
    server = EmbeddedPostgres(home / "postgres", bin_dir=Path(bin_dir) if bin_dir else None, settings=FAST)
    server.start()
    os.environ[SERVER] = server.conninfo()
    make_templates(server.conninfo())
    config.add_cleanup(server.purge)
    config.add_cleanup(lambda: shutil.rmtree(home, ignore_errors=True))


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

"""The fixtures of `pytest_plugins = ["vitrina.testing"]`."""

from collections.abc import Iterator

import pytest

from vitrina.embedded.postgres import EmbeddedPostgres
from vitrina.testing.labs import FAST, Lab, clone, drop, make_template


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server for the whole session, with a database to be cloned."""
    home = tmp_path_factory.mktemp("vitrina")
    home.chmod(0o755)
    server = EmbeddedPostgres(home / "postgres", settings=FAST)
    try:
        server.start()
        make_template(server.conninfo(), "vitrina_template")
        yield server.conninfo()
    finally:
        server.purge()


@pytest.fixture
def lab(postgres: str) -> Iterator[Lab]:
    """A database of its own, with a meta-store, whose pipelines may write to any plug-in."""
    conninfo = clone(postgres, "vitrina_template")
    with Lab.at(conninfo, allowed_other_targets=["*:*"]) as lab:
        yield lab
    drop(postgres, conninfo)

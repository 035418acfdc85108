"""An API for the tests of a module, swept before each, and the environment that leads a client there."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from psycopg.errors import DeadlockDetected

from tests.acceptance.client import Folder
from tests.acceptance.processes import CLEAN, Cli
from tests.contract.conftest import SWEEP
from tests.contract.server import Api, running, serve
from tests.support import Lab


@pytest.fixture(scope="module")
def shared() -> Iterator[Api]:
    """An API and a runner for the tests of a module."""
    with Lab.open("vitrina_template") as lab, serve(lab) as api, running(lab):
        yield api


@pytest.fixture
def api(shared: Api, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Api:
    """The same, with no pipelines and no marts, and the environment that leads a client there."""
    sweep(shared.lab)
    monkeypatch.setenv("VITRINA_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("VITRINA_URL", shared.url)
    monkeypatch.setenv("VITRINA_TOKEN", shared.tokens["admin"])
    return shared


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    """An empty one."""
    path = tmp_path / "pipelines"
    path.mkdir()
    return Folder(path)


@pytest.fixture
def home() -> Iterator[Path]:
    """A folder that the server's user can reach."""
    folder = Path(tempfile.mkdtemp(prefix="vitrina-cli-"))
    folder.chmod(0o755)
    yield folder
    Cli(folder, CLEAN | {"VITRINA_HOME": str(folder / "home")})("down", "--purge")
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def stack(home: Path) -> Cli:
    """An embedded stack, not yet started."""
    short = {"VITRINA_POLL_SECONDS": "0.2", "VITRINA_LEASE_SECONDS": "3", "VITRINA_LOG_FORMAT": "json"}
    return Cli(home, CLEAN | short | {"VITRINA_HOME": str(home / "home")})


def sweep(lab: Lab) -> None:
    """The runner is at work meanwhile: a deadlock with it is no failure."""
    for _ in range(5):
        with suppress(DeadlockDetected):
            lab.sql(SWEEP.replace(", etl.etl_runners", ""))
            return
    raise AssertionError("the database could not be swept")

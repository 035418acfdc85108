"""What a killed run of the tests has left is cleared by the next, servers included; what is in use stays."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import room
from tests.support import FAST
from vitrina.embedded.postgres import EmbeddedPostgres


@pytest.fixture
def folder() -> Iterator[Path]:
    """One that the server's user can reach."""
    made = Path(tempfile.mkdtemp(prefix="vitrina-room-"))
    made.chmod(0o755)
    yield made
    shutil.rmtree(made, ignore_errors=True)


def test_what_a_killed_run_left_is_cleared_with_its_server(folder: Path) -> None:
    left = folder / "tests-1"
    left.mkdir(mode=0o755)
    (left / "in use").touch()  # and nobody holds it
    server = EmbeddedPostgres(left / "postgres", settings=FAST)
    server.start()
    room.clear(folder, "tests-")
    assert not server.is_running()
    assert not left.exists()


def test_what_is_in_use_or_a_stranger_s_stays(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    (folder / "tests-strange").mkdir()
    with room.home("tests-") as home, room.home("tests-") as other:
        assert home.exists()
        assert other.exists()
        assert (folder / "tests-strange").exists()
    assert [*folder.iterdir()] == [folder / "tests-strange"]

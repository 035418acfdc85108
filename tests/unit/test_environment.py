"""A newcomer's first failure ends in one line with the remedy."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import patience, room
from tools import environment

ROOT = Path(__file__).parents[2]
NOBODY = "http://127.0.0.1:9"  # nobody listens there
PACKAGE = "vitrina-has-no-such-package==1 --hash=sha256:" + "0" * 64


def set_up(venv: Path, lock: Path) -> subprocess.CompletedProcess[str]:
    """With the interpreter of the tests for an environment, and an index that cannot be reached."""
    (venv / "bin").mkdir(parents=True)
    (venv / "bin" / "python").symlink_to(sys.executable)
    alone = {"PIP_INDEX_URL": NOBODY, "PIP_RETRIES": "0", "PIP_CONFIG_FILE": os.devnull, "PIP_NO_CACHE_DIR": "1"}
    command = [sys.executable, str(ROOT / "tools" / "environment.py"), str(venv), str(lock)]
    return subprocess.run(command, env=os.environ | alone, capture_output=True, text=True, check=False)


def test_a_package_that_cannot_be_fetched(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    lock.write_text(PACKAGE)
    done = set_up(tmp_path / "venv", lock)
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert last.startswith(f"make: setting up {tmp_path / 'venv'} failed")
    assert "HTTPS_PROXY" in last
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("said", "remedy"),
    [
        ("OSError: [Errno 28] No space left on device", "free some disk space"),
        ("The virtual environment was not created because ensurepip is not available.", "python3-venv"),
        ("ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE.", "not the one that was pinned"),
        ("PermissionError: [Errno 13] Permission denied: '.venv/lib'", "writable"),
        ("something that nobody foresaw", "see the lines above"),
    ],
)
def test_what_pip_says_is_explained(said: str, remedy: str) -> None:
    explained = environment.explain(said, Path(".venv"))
    assert remedy in explained
    assert "\n" not in explained


def test_an_old_python_is_told_so() -> None:
    environment.check_python((3, 11))
    with pytest.raises(environment.Failed, match=r"this is 3\.9 — name another"):
        environment.check_python((3, 9))


def test_a_full_disk_is_noticed_before_it_is_full(tmp_path: Path) -> None:
    environment.check_room(tmp_path / "venv", room=0)
    with pytest.raises(environment.Failed, match="free some disk space"):
        environment.check_room(tmp_path / "venv", room=1e9)


def test_tests_without_room_say_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    assert room.choose() == tmp_path
    monkeypatch.setattr(room, "LEAST", 1 << 60)
    with pytest.raises(room.NoRoom, match="name another folder with TMPDIR"):
        room.choose()


def test_a_suite_that_cannot_begin_says_why_in_one_line() -> None:
    command = [sys.executable, "-m", "pytest", "-n", "0", "tests/unit/test_bell.py"]
    wrong = os.environ | {"VITRINA_TEST_PG_BIN": "/nowhere"}
    done = subprocess.run(command, cwd=ROOT, env=wrong, capture_output=True, text=True, check=False)
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert "name a bin directory that the user can execute" in done.stderr
    assert "Traceback" not in done.stderr


def test_patience_is_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(patience.NAME, "7")
    assert (patience.factor(), patience.patient(3)) == (7, 21)
    monkeypatch.setenv(patience.NAME, "soon")
    with pytest.raises(patience.Unclear, match="VITRINA_PATIENCE is a number, such as 5"):
        patience.factor()


def test_a_wait_that_fails_says_what_it_saw(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "measure", lambda: 1.0)
    seen = iter(range(1_000_000))
    assert patience.wait(lambda: next(seen), lambda number: number == 3, pause=0) == 3
    with pytest.raises(AssertionError, match="it is still 'nothing'"):
        patience.wait(lambda: "nothing", lambda found: found != "nothing", seconds=0.01)

"""What CI says of tests that fail once, and of those that fail twice; what is not steady is found and named."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tools import steady

ROOT = Path(__file__).parents[2]
NEIGHBOURS = re.findall(r"^neighbours=\((.*?)\)", (ROOT / ".ci" / "run").read_text(), re.MULTILINE)[0].split()
TARGETS = ".venv/.ready lint helm test-pg15 test-es9 test-opensearch " + " ".join(
    f"ready-{name} test-{name}" for name in NEIGHBOURS
)
MAKEFILE = f"""
.PHONY: test test-long {TARGETS}
{TARGETS}:
test:
	@.venv/bin/python -m pytest test_it.py $(ARGS)
test-long:
	@test ! -e test_long.py || .venv/bin/python -m pytest test_long.py $(ARGS)
"""
COMMANDS = (
    "awk",
    "bash",
    "cat",
    "cp",
    "dirname",
    "env",
    "make",
    "mkdir",
    "rm",
    "sed",
    "sh",
    "tail",
    "tee",
    "touch",
)
ONCE = """
from pathlib import Path

def test_that_is_fine():
    pass

def test_that_fails_at_first():
    tried = Path("tried")
    is_new = not tried.exists()
    tried.touch()
    assert not is_new
"""
FINE = "def test_that_is_fine():\n    pass\n"
MEET = """
import os, time
from pathlib import Path

def test_that_waits_for_a_suite_that_begins_after_it():
    deadline = time.monotonic() + 60
    while not Path(".ci/logs", os.environ["MEETING"] + ".log").exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)
"""
ALWAYS = "def test_that_fails_always():\n    assert False\n"


def run_ci(folder: Path, tests: str, long: str = "", **more: str) -> subprocess.CompletedProcess[str]:
    """`.ci/run` of a project of a file of quick tests, and perhaps one of long ones."""
    (folder / ".ci").mkdir()
    shutil.copy(ROOT / ".ci" / "run", folder / ".ci" / "run")
    (folder / ".venv" / "bin").mkdir(parents=True)
    (folder / ".venv" / "bin" / "python").symlink_to(Path(sys.executable).resolve())
    (folder / "tools").mkdir()
    shutil.copy(ROOT / "tools" / "machine.py", folder / "tools" / "machine.py")
    (folder / "Makefile").write_text(MAKEFILE)
    (folder / "pytest.ini").write_text("[pytest]\n")
    (folder / "test_it.py").write_text(tests)
    if long:
        (folder / "test_long.py").write_text(long)
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("VITRINA_", "PYTEST_"))}
    alone = {"PYTHONPATH": str(Path(pytest.__file__).parents[1]), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    environment = clean | alone | {"VITRINA_REQUIRE": "", "PATH": without_apt(folder)} | more
    return subprocess.run([folder / ".ci" / "run"], env=environment, capture_output=True, text=True, check=False)


def without_apt(folder: Path) -> str:
    """Nothing is to be installed: the commands that the script needs, and no others."""
    commands = folder / "commands"
    commands.mkdir()
    for name in COMMANDS:
        found = shutil.which(name)
        assert found, name
        (commands / name).symlink_to(found)
    (commands / "python3").symlink_to(Path(sys.executable).resolve())
    return str(commands)


def test_a_test_that_passes_when_it_is_tried_again_is_told_of_last(tmp_path: Path) -> None:
    done = run_ci(tmp_path, ONCE, VITRINA_UNSTEADY="report")
    assert done.returncode == 0, done.stdout + done.stderr
    said, told = done.stdout.split("UNSTEADY", 1)
    assert "slowest 30 durations" in said
    assert "test test_it.py::test_that_fails_at_first .ci/logs/test.log" in told
    assert "fine" not in told
    assert "assert not is_new" in (tmp_path / ".ci/logs/test.log").read_text()


def test_once_the_suite_is_steady_that_fails_the_run(tmp_path: Path) -> None:
    done = run_ci(tmp_path, FINE, long=ONCE, VITRINA_UNSTEADY="fail")
    assert done.returncode == 1
    assert "test-long test_long.py::test_that_fails_at_first" in done.stdout.split("UNSTEADY", 1)[1]


def test_a_quick_test_that_fails_twice_fails_the_run_at_once(tmp_path: Path) -> None:
    done = run_ci(tmp_path, ALWAYS)
    assert done.returncode == 1
    assert "UNSTEADY" not in done.stdout
    assert "TOOK lint" in done.stdout
    assert "TOOK test" not in done.stdout
    assert "test did not pass: see .ci/logs/test.log" in done.stderr


def test_of_the_rest_all_are_run_and_what_fails_twice_is_told_of_last(tmp_path: Path) -> None:
    done = run_ci(tmp_path, FINE, long=ALWAYS)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == "test-long did not pass: see .ci/logs/test-long.log"
    last = done.stderr.split("LAST OF .ci/logs/test-long.log.again:", 1)[1]
    assert "FAILED test_long.py::test_that_fails_always" in last
    for suite in ("test", *(f"test-{name}" for name in NEIGHBOURS)):
        assert f"TOOK {suite}: " in done.stdout, suite


def test_suites_run_beside_one_another_each_with_what_failed_in_it_alone(tmp_path: Path) -> None:
    done = run_ci(tmp_path, FINE, long=MEET, VITRINA_LANES="2", MEETING=f"test-{NEIGHBOURS[0]}")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "TOOK test-long: " in done.stdout


def test_what_cannot_be_had_is_skipped_unless_it_is_required(tmp_path: Path) -> None:
    (tmp_path / "lenient").mkdir()
    done = run_ci(tmp_path / "lenient", FINE)
    assert done.returncode == 0
    assert "SKIPPED: the tests with opensearch: " in done.stderr
    (tmp_path / "strict").mkdir()
    done = run_ci(tmp_path / "strict", FINE, VITRINA_REQUIRE="opensearch")
    assert done.returncode == 1
    assert "opensearch is required (VITRINA_REQUIRE=opensearch) and not to be had: " in done.stderr.splitlines()[-1]


def test_every_neighbour_of_the_makefile_is_tried() -> None:
    of_make = re.findall(r"^NEIGHBOURS := (.*)", (ROOT / "Makefile").read_text(), re.MULTILINE)[0].split()
    folders = [folder.name for folder in (ROOT / "integrations").iterdir() if folder.is_dir()]
    assert sorted(NEIGHBOURS) == sorted(folders)
    assert set(of_make) <= set(NEIGHBOURS)


@pytest.mark.parametrize(
    ("said", "code", "failed"),
    [
        ("3 passed", 0, []),
        ("FAILED tests/a.py::test_b[x y] - AssertionError: no\nERROR tests/c.py::test_d\n", 1, 2),
        ("INTERNALERROR", 3, ["the round itself"]),
    ],
)
def test_a_round_names_what_failed_in_it(said: str, code: int, failed: list[str] | int) -> None:
    found = steady.failed_in(said, code)
    assert found == (failed if isinstance(failed, list) else ["tests/a.py::test_b[x y]", "tests/c.py::test_d"])


def test_what_ever_failed_is_listed_with_its_logs() -> None:
    assert steady.table({}, 10) == ["steady: nothing failed in 10 rounds"]
    found = steady.table({"rare": [Path("1.log")], "often": [Path("1.log"), Path("2.log")]}, 2)
    assert found == ["2 of 2  often  1.log, 2.log", "1 of 2  rare  1.log"]

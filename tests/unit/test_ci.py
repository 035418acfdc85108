"""What CI says of tests that fail once, and of those that fail twice; what is not steady is found and named."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tools import steady

ROOT = Path(__file__).parents[2]
TARGETS = ".venv/.ready lint helm test-long test-pg15 test-es9 test-airflow test-dbt test-clickhouse test-openapi"
NAMES = ("airflow", "dbt", "clickhouse", "s3", "spark", "openapi")
NEIGHBOURS = " ".join(f"integrations/{name}/.venv/.ready" for name in NAMES)
MAKEFILE = f"""
.PHONY: test {TARGETS} {NEIGHBOURS}
{TARGETS} {NEIGHBOURS}:
test:
	@.venv/bin/python -m pytest test_it.py $(ARGS)
"""
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
ALWAYS = "def test_that_fails_always():\n    assert False\n"


def run_ci(folder: Path, tests: str, **more: str) -> subprocess.CompletedProcess[str]:
    """`.ci/run` of a project of one file."""
    (folder / ".ci").mkdir()
    shutil.copy(ROOT / ".ci" / "run", folder / ".ci" / "run")
    (folder / ".venv" / "bin").mkdir(parents=True)
    (folder / ".venv" / "bin" / "python").symlink_to(Path(sys.executable).resolve())
    (folder / "Makefile").write_text(MAKEFILE)
    (folder / "pytest.ini").write_text("[pytest]\n")
    (folder / "test_it.py").write_text(tests)
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("VITRINA_", "PYTEST_"))}
    alone = {"PYTHONPATH": str(Path(pytest.__file__).parents[1]), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    environment = clean | alone | {"VITRINA_REQUIRE": "", "PATH": without_apt(folder)} | more
    return subprocess.run([folder / ".ci" / "run"], env=environment, capture_output=True, text=True, check=False)


def without_apt(folder: Path) -> str:
    """Nothing is to be installed: the commands that the script needs, and no others."""
    commands = folder / "commands"
    commands.mkdir()
    for name in ("bash", "env", "make", "sh", "tee", "cat", "rm", "mkdir", "cp", "tail", "dirname"):
        found = shutil.which(name)
        assert found, name
        (commands / name).symlink_to(found)
    return str(commands)


def test_a_test_that_passes_when_it_is_tried_again_is_told_of_last(tmp_path: Path) -> None:
    done = run_ci(tmp_path, ONCE)
    assert done.returncode == 0, done.stdout + done.stderr
    said, told = done.stdout.split("UNSTEADY", 1)
    assert "slowest 30 durations" in said
    assert "test test_it.py::test_that_fails_at_first .ci/logs/test.log" in told
    assert "fine" not in told
    assert "assert not is_new" in (tmp_path / ".ci/logs/test.log").read_text()


def test_once_the_suite_is_steady_that_fails_the_run(tmp_path: Path) -> None:
    done = run_ci(tmp_path, ONCE, VITRINA_UNSTEADY="fail")
    assert done.returncode == 1
    assert "test_that_fails_at_first" in done.stdout.split("UNSTEADY", 1)[1]


def test_what_fails_twice_fails_the_run_at_once(tmp_path: Path) -> None:
    done = run_ci(tmp_path, ALWAYS)
    assert done.returncode == 1
    assert "UNSTEADY" not in done.stdout
    assert "TOOK lint" in done.stdout
    assert "TOOK test" not in done.stdout


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

"""What is run by hand, now and then, still runs: each target of the Makefile that no suite runs, as it is typed.

In a copy of the tree, since some of them write their figures down.
"""

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.copies import ROOT, copy_tree

PARTS = ("Makefile", "requirements-dev.lock", "tests", "tests/corpora", "bench", "tools", "docs", "infra", "README.md")
TYPED = {
    "bench": (["SCALE=tiny", "ARGS=--only=films --no-peers --times=1"], "first load"),
    "faults": (["ROUNDS=1", "SEED=7"], '"lost": 0'),
    "load": (["ARGS=--seconds=10"], "double_claims        0"),
    "model": (["SIZE=2 1", "ARGS=--collect-only"], "every invariant holds"),
    "mutations": (["ARGS=fence"], "::test_a_zombie_can_neither_write_nor_finish_nor_renew"),
    "oracle": (["QUERIES=20"], "0 missed"),
    "races": (["ROUNDS=1", "ARGS=tests/faults/test_runner.py -k test_a_runner_killed_at_any_moment"], "1 passed"),
    "test-steady": (["ROUNDS=1", "ARGS=--burners=0 tests/unit/test_labels.py"], "nothing failed in 1 rounds"),
}
OF_VENV = ("bin", "lib", "pyvenv.cfg")


def make(tree: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A target, with the code of that copy."""
    environment = os.environ | {"PYTHONPATH": str(tree / "src")}
    return subprocess.run(["make", *arguments], cwd=tree, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy, with the environment that is here."""
    tmp_path.chmod(0o755)
    copy = copy_tree(tmp_path, *PARTS)
    (copy / ".venv").mkdir()
    for name in OF_VENV:
        (copy / ".venv" / name).symlink_to(ROOT / ".venv" / name)
    (copy / ".venv" / ".ready").touch()
    return copy


@pytest.mark.long
@pytest.mark.parametrize("target", TYPED)
def test_it_runs_as_it_is_typed(target: str, tree: Path) -> None:
    arguments, said = TYPED[target]
    done = make(tree, target, *arguments)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert said in done.stdout


@pytest.mark.long
def test_the_benchmark_is_compared_with_that_of_a_revision(tree: Path) -> None:
    hook = tree / ".git" / "hooks" / "post-checkout"
    for command in (
        ["init", "-q"],
        ["add", "-A", "-f"],
        ["-c", "user.name=x", "-c", "user.email=x", "commit", "-qm", "x"],
    ):
        subprocess.run(["git", *command], cwd=tree, check=True, capture_output=True)
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\nexec touch .venv/.ready\n")  # newer than the lock: nothing is to be installed
    hook.chmod(0o755)
    done = make(tree, "bench-guard", "BASE=HEAD", "ARGS=--only=films --scale=tiny --times=1")
    assert re.search(r"films: vitrina first load +\S+ +\S+ +\S+ +1\.05", done.stdout), done.stdout + done.stderr[-3000:]
    assert done.returncode == 0 or "slower than HEAD" in done.stderr  # once tells nothing
    done = make(tree, "bench-quick", "BASE=HEAD", "ARGS=--scale=tiny --times=1")
    assert re.search(r"ratings: first load, server +\S+ +\S+ +\S+", done.stdout), done.stdout + done.stderr[-3000:]
    assert done.returncode == 0 or "slower than HEAD" in done.stderr

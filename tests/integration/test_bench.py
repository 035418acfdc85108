"""Every part of the benchmark measures, and checks its own results: here with a few rows, without peers or verdicts."""

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from bench import ground
from bench.__main__ import PARTS
from bench.films import RATINGS
from bench.idle import FILMS
from bench.report import Options
from tests.copies import ROOT, copy_tree
from tests.patience import patient
from tests.support import wait_for

TINY = Options("tiny", times=1, peers=False)
HERE = ("films", "transform", "ratings", "memory", "batches")  # share a server
ELSEWHERE = ("remote", "changed", "wide", "idle", "commands", "arrow")


@pytest.mark.long
@pytest.mark.parametrize("parts", [HERE, ELSEWHERE], ids=" ".join)
def test_a_part_measures_and_checks_what_it_is_about(
    parts: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tmp_path.chmod(0o755)
    monkeypatch.setattr(ground, "HOME", tmp_path)
    for part in parts:
        report = PARTS[part](TINY)
        assert report.targets
        assert all(len(row) == len(report.head) for row in report.rows)


@pytest.mark.long
@pytest.mark.parametrize(
    "part", ["live", "sustained", "watched", pytest.param("elasticsearch", marks=pytest.mark.elasticsearch)]
)
def test_a_part_with_a_runner_or_a_search_server_does_too(
    part: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    test_a_part_measures_and_checks_what_it_is_about((part,), tmp_path, monkeypatch)


@pytest.mark.long
def test_a_benchmark_that_is_terminated_leaves_no_server_behind() -> None:
    data = ground.HOME / f"{FILMS}-films-{RATINGS}-ratings"
    command = [sys.executable, "-m", "bench", "--only=idle", "--scale=tiny", "--no-peers"]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_for(lambda: any(data.rglob("postmaster.pid")), 60)
        process.terminate()
        assert process.wait(patient(60)) != 0
    finally:
        process.kill()
    assert not any(data.rglob("postmaster.pid"))


def test_what_one_that_was_killed_leaves_is_in_nobodys_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left = tmp_path / "tree" / "bench" / "out" / "socket"
    left.parent.mkdir(parents=True)
    (tmp_path / "tree" / "src").mkdir()
    (tmp_path / "tree" / "pyproject.toml").touch()
    monkeypatch.setattr("tests.copies.ROOT", tmp_path / "tree")
    monkeypatch.chdir(left.parent)  # a socket's path may not be long
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(left.name)
        copied = copy_tree(tmp_path / "copy", "bench")
    assert not (copied / "bench" / "out").exists()

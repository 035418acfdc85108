"""Every part of the benchmark measures, and checks its own results: here with a few rows, without peers or verdicts."""

from pathlib import Path

import pytest

from bench import ground
from bench.__main__ import PARTS
from bench.report import Options

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
@pytest.mark.parametrize("part", ["live", pytest.param("elasticsearch", marks=pytest.mark.elasticsearch)])
def test_a_part_with_a_runner_or_a_search_server_does_too(
    part: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    test_a_part_measures_and_checks_what_it_is_about((part,), tmp_path, monkeypatch)

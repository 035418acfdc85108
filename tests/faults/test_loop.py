"""The fault loop in short; `make faults ROUNDS=500` is the long form."""

import itertools
from pathlib import Path

import pytest

from tests.faults import rounds
from tests.faults.rig import rigged
from tests.faults.rounds import Loop

pytestmark = pytest.mark.faults
SHORT = (rounds.kill, rounds.stop, rounds.kill_at, rounds.stop_at, rounds.cut, rounds.ask, rounds.crash)


def test_marts_of_every_sort_survive_faults_of_every_sort(elastic: str, tmp_path: Path) -> None:
    with rigged(tmp_path, elastic) as rig:
        loop = Loop(rig, seed=1)
        for number, fault in zip(itertools.count(1), SHORT, strict=False):
            loop.play(number, fault)
        assert loop.finish()["rounds"] == len(SHORT)

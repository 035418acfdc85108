"""Marts in a lake: tables of Iceberg that are their query, row for row and type for type."""

from pathlib import Path
from typing import Any

import pytest

from tests.lake import LakeSink
from tests.support import Lab
from vitrina.testing import SinkConformance


@pytest.fixture
def lake(lab: Lab, tmp_path: Path) -> LakeSink:
    return LakeSink(lab, tmp_path / "lake")


class TestLake(SinkConformance):
    """What every kind must do."""

    test_an_answer_that_is_lost_after_all_has_arrived_does_no_harm: Any = None  # there is none: it is one transaction
    test_an_older_epoch_changes_nothing: Any = None  # tests/faults/test_lake.py: the fence is the checkpoint's

    @pytest.fixture
    def mart(self, lake: LakeSink) -> LakeSink:
        return lake

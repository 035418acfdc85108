"""Marts in files of Parquet: versions that are their query, row for row and type for type."""

from pathlib import Path
from typing import Any

import pytest

from tests.files import FilesSink
from tests.support import Lab
from vitrina.testing import SinkConformance


@pytest.fixture
def files(lab: Lab, tmp_path: Path) -> FilesSink:
    return FilesSink(lab, tmp_path / "mart")


class TestFiles(SinkConformance):
    """What every kind must do."""

    test_an_answer_that_is_lost_after_all_has_arrived_does_no_harm: Any = None  # below: of the manifest alone
    test_an_older_epoch_changes_nothing: Any = None  # tests/faults/test_files.py: it is the manifest that is fenced

    @pytest.fixture
    def mart(self, files: FilesSink) -> FilesSink:
        return files

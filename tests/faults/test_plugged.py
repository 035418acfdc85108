"""The faults that `vitrina.testing` has for every kind of mart: of a table, and of the plug-in of docs/extending.md."""

import subprocess
import sys
from pathlib import Path
from shutil import copytree

import pytest

from tests.sinks import EXAMPLE, SqliteSink, TableSink
from tests.support import Lab
from vitrina.testing import SinkUnderFaults

pytestmark = pytest.mark.faults


class TestTable(SinkUnderFaults):
    building = sending = ("before checkpoint:2", "after checkpoint:2", "before end:1")
    standing = ("before checkpoint:2",)

    @pytest.fixture
    def mart(self, lab: Lab) -> TableSink:
        return TableSink(lab)


class TestSqlite(SinkUnderFaults):
    @pytest.fixture
    def mart(self, sqlite: SqliteSink) -> SqliteSink:
        return sqlite


@pytest.mark.parametrize("which", ["older_epoch or stood_still", pytest.param("", marks=pytest.mark.long)])
def test_the_plug_ins_own_tests_need_nothing_but_the_packages(plug_in: Path, tmp_path: Path, which: str) -> None:
    """As its author runs them: elsewhere, with Vitrina and the plug-in installed."""
    copytree(EXAMPLE / "tests", tmp_path / "tests")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", which, str(tmp_path / "tests")]
    environment = {"PYTHONPATH": str(plug_in), "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert " skipped" not in done.stdout.splitlines()[-1] or not which

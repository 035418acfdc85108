"""What every kind of mart must pass, killed runners included."""

from pathlib import Path

import pytest

from vitrina.testing import Lab, Mart, SinkConformance, SinkUnderFaults


class TestSqlite(SinkConformance, SinkUnderFaults):
    @pytest.fixture
    def mart(self, lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Mart:
        monkeypatch.setenv("SQLITE_MARTS", str(tmp_path))
        return Mart(lab, "sqlite:mart")

"""The plug-in of docs/extending.md, installed."""

from pathlib import Path

import pytest

from tests.sinks import SqliteSink, install_example
from tests.support import Lab


@pytest.fixture(scope="session")
def plug_in(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the example of docs/extending.md is installed."""
    folder = tmp_path_factory.mktemp("plug_in")
    install_example(folder)
    return folder


@pytest.fixture
def sqlite(lab: Lab, plug_in: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SqliteSink:
    """A lab with that plug-in."""
    monkeypatch.syspath_prepend(plug_in)
    monkeypatch.setenv("SQLITE_MARTS", str(tmp_path))
    lab.configure(allowed_other_targets=["sqlite:*"])
    return SqliteSink(lab, tmp_path)

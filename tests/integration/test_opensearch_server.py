"""A real OpenSearch in a directory, which is killed, started again, and told that its disks are full."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tests.elastic import OPENSEARCH, open_search
from tests.support import Lab, open_server, start_or_skip
from vitrina.domain.errors import ConfigError
from vitrina.embedded import distribution
from vitrina.embedded.distribution import Missing, find_java
from vitrina.embedded.host import Account
from vitrina.embedded.opensearch import EmbeddedOpenSearch
from vitrina.runner.main import Runner


@pytest.fixture
def server() -> Iterator[EmbeddedOpenSearch]:
    """One of its own, in a directory that its user can enter."""
    with tempfile.TemporaryDirectory(prefix="vitrina-os-") as name:
        Path(name).chmod(0o755)
        server = open_server(Path(name) / "own")
        start_or_skip(server)
        yield server
        server.purge()
        assert not server.directory.exists()


@contextmanager
def full(url: str) -> Iterator[None]:
    """As the server does by itself when its disks are full: it makes no index."""
    with httpx.Client(base_url=url, trust_env=False, timeout=60) as http:
        setting = "cluster.blocks.create_index"
        try:
            http.put("/_cluster/settings", json={"transient": {setting: True}}).raise_for_status()
            yield
        finally:
            http.put("/_cluster/settings", json={"transient": {setting: None}}).raise_for_status()


@pytest.mark.opensearch
@pytest.mark.long
def test_it_waits_out_full_disks_and_a_crash(lab: Lab, server: EmbeddedOpenSearch) -> None:
    with open_search(lab, server.url, "own_", OPENSEARCH) as search:
        pipeline = search.add()
        with full(server.url):
            assert lab.request(pipeline)
            Runner(lab.connections).run_once(pipeline.id)
            assert "create-index blocked" in str(lab.last_run(pipeline)["error"])
            assert lab.status(pipeline) == "RUN_REQUESTED"
        Runner(lab.connections).run_once(pipeline.id)
        assert search.documents() == search.wanted(pipeline)
        before = server.url
        server.kill()
        assert not server.is_running()
        server.start()
        assert (server.url, search.documents()) == (before, search.wanted(pipeline))
        assert lab.run(pipeline)["rows_written"] == 0


def test_a_java_that_is_too_old_is_named_with_the_remedy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").write_text("#!/bin/sh\necho 'openjdk version \"17.0.1\"' >&2\n")
    (tmp_path / "bin" / "java").chmod(0o755)
    monkeypatch.setattr(distribution, "JAVA_HOMES", ())
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("OPENSEARCH_JAVA_HOME", str(tmp_path))
    with pytest.raises(Missing, match=r"OpenSearch 3.6.0 needs Java 21 or newer: .* is Java 17") as caught:
        find_java("3.6.0", Account(), distribution.OPENSEARCH)
    assert "OPENSEARCH_JAVA_HOME, or set OPENSEARCH_URL to a server that runs already" in caught.value.remedy


@pytest.mark.parametrize("version", ["2.19.0", "3", "latest"])
def test_a_version_that_cannot_be_embedded_is_refused(version: str) -> None:
    with pytest.raises(ConfigError, match="cannot be embedded"):
        distribution.oldest_java(version, distribution.OPENSEARCH)

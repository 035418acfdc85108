"""Real Elasticsearch servers in directories that come and go, and what is said when one cannot be had."""

import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from pydantic import SecretStr

from tests.patience import stand_still
from tests.support import elastic_server, start_or_skip, wait_for
from vitrina.domain.errors import ConfigError
from vitrina.embedded import distribution, search
from vitrina.embedded.distribution import Missing, default_cache, fetch, find_java
from vitrina.embedded.elasticsearch import EmbeddedElasticsearch, find_server
from vitrina.embedded.host import Account
from vitrina.settings import Settings

START = "import sys; from pathlib import Path; from tests.support import elastic_server; "
START += "elastic_server(Path(sys.argv[1])).start()"
FETCH = "import sys; from pathlib import Path; from vitrina.embedded import distribution as d, host; "
FETCH += "v = sys.argv[2]; d.fetch(v, Path(sys.argv[1]), d.find_java(v, host.Account()))"
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root runs the server as another user")
real = pytest.mark.elasticsearch


@pytest.fixture(scope="module")
def public() -> Iterator[Path]:
    """A directory that every user can enter, unlike pytest's."""
    with tempfile.TemporaryDirectory(prefix="vitrina-es-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.fixture(scope="module")
def own(public: Path) -> Iterator[EmbeddedElasticsearch]:
    """A server of this module's own, so that it may be killed."""
    server = elastic_server(public / "own")
    yield server
    server.purge()


@pytest.fixture
def server(own: EmbeddedElasticsearch) -> EmbeddedElasticsearch:
    """It runs, and a test leaves it so that it can be started."""
    start_or_skip(own)
    return own


@pytest.fixture
def stopped(own: EmbeddedElasticsearch) -> EmbeddedElasticsearch:
    """It has run before, and does not now."""
    if not own.directory.exists():
        start_or_skip(own)
    own.stop()
    return own


@pytest.fixture
def bare(public: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A machine without Java or Maven: a PATH with just what every system has."""
    with tempfile.TemporaryDirectory(dir=public) as name:
        Path(name).chmod(0o755)
        for program in ("sh", "test", "mkdir", "chmod"):
            (Path(name) / program).symlink_to(f"/bin/{program}")
        monkeypatch.setenv("PATH", name)
        monkeypatch.delenv("JAVA_HOME", raising=False)
        monkeypatch.delenv("ES_JAVA_HOME", raising=False)
        monkeypatch.setattr(distribution, "JAVA_HOMES", ())
        yield Path(name)


def put(server: EmbeddedElasticsearch, number: int) -> None:
    httpx.put(f"{server.url}/films/_doc/{number}", json={"title": "Alien"}, timeout=60).raise_for_status()


def has(server: EmbeddedElasticsearch, number: int) -> bool:
    return httpx.get(f"{server.url}/films/_doc/{number}", timeout=60).status_code == 200


def pid_of(server: EmbeddedElasticsearch) -> int:
    pid = server._server_pid()
    assert pid is not None
    return pid


def in_another_process(script: str, *arguments: str | Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", script, *arguments], start_new_session=True)


@contextmanager
def stranger(uid: int) -> Iterator[subprocess.Popen[bytes]]:
    """A program of the server's user that is no Elasticsearch, and must not be harmed."""
    process = subprocess.Popen(["sleep", "3600"], user=uid)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def fake_java(home: Path, version: str) -> Path:
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "java").write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-01-01' >&2\n")
    (home / "bin" / "java").chmod(0o755)
    return home


def test_all_tests_share_one_server(elastic: str, index_prefix: str) -> None:
    title = {"title": "Alien"}
    httpx.put(
        f"{elastic}/{index_prefix}films/_doc/1", json=title, params={"refresh": "true"}, timeout=60
    ).raise_for_status()
    found = httpx.get(f"{elastic}/{index_prefix}films/_search", params={"q": "title:alien"}, timeout=60)
    assert found.json()["hits"]["total"]["value"] == 1
    assert elastic == elastic_server().url


@real
@pytest.mark.long
def test_a_running_server_is_used_as_it_is(server: EmbeddedElasticsearch) -> None:
    pid, again = pid_of(server), EmbeddedElasticsearch(server.directory, version=server.version)
    again.start()
    assert (pid_of(again), again.url) == (pid, server.url)


@real
@pytest.mark.long
def test_it_is_the_version_that_was_asked_for_with_the_heap_that_was(server: EmbeddedElasticsearch) -> None:
    (node,) = httpx.get(f"{server.url}/_nodes/jvm", timeout=60).json()["nodes"].values()
    assert node["version"] == server.version
    assert node["jvm"]["mem"]["heap_max_in_bytes"] == 512 * 2**20


@real
@as_root
@pytest.mark.long
def test_as_root_it_runs_as_another_user(server: EmbeddedElasticsearch) -> None:
    assert Path(f"/proc/{pid_of(server)}").stat().st_uid == server.directory.stat().st_uid != 0


@real
@pytest.mark.long
def test_a_restart_keeps_data_and_url(server: EmbeddedElasticsearch) -> None:
    put(server, 1)
    before = (server.url, pid_of(server))
    server.restart()
    assert has(server, 1)
    assert server.url == before[0]
    assert pid_of(server) != before[1]


@real
@pytest.mark.long
def test_a_killed_server_starts_again_with_what_it_confirmed_and_harms_nobody(server: EmbeddedElasticsearch) -> None:
    put(server, 2)
    url = server.url
    server.kill()
    assert not server.is_running()
    with stranger(server.directory.stat().st_uid) as process:
        (server.directory / "pid").write_text(str(process.pid))
        assert not server.is_running()
        server.stop()
        server.start()
        assert process.poll() is None
    assert has(server, 2)
    assert server.url == url


@real
@pytest.mark.long
def test_a_server_that_does_not_listen_is_killed(
    server: EmbeddedElasticsearch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "STOP_SECONDS", 0.5)
    stand_still(pid_of(server))
    server.stop()
    assert not server.is_running()


@real
@pytest.mark.long
def test_two_who_start_at_once_get_one_server(stopped: EmbeddedElasticsearch) -> None:
    both = [in_another_process(START, stopped.directory) for _ in range(2)]
    assert [process.wait() for process in both] == [0, 0]
    commands = subprocess.run(["ps", "-ww", "-A", "-o", "command="], stdout=subprocess.PIPE, check=True).stdout
    assert commands.count(os.fsencode(f"{stopped._mark} ")) == 1


@real
@pytest.mark.long
def test_a_start_that_was_killed_is_no_obstacle(stopped: EmbeddedElasticsearch) -> None:
    (stopped._home / "log").unlink()
    starter = in_another_process(START, stopped.directory)
    wait_for((stopped._home / "log").exists, 120)
    starter.kill()
    starter.wait()
    stopped.start()
    assert search.is_healthy(stopped.url)


@real
@pytest.mark.long
def test_a_taken_port_is_refused_at_once(server: EmbeddedElasticsearch, public: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=f"port {port}") as caught:
            EmbeddedElasticsearch(public / "taken", version=server.version, cache=server.cache, port=port).start()
    assert "another port" in caught.value.remedy


@real
@pytest.mark.long
def test_a_setting_that_it_does_not_know_is_named(server: EmbeddedElasticsearch, public: Path) -> None:
    other = EmbeddedElasticsearch(
        public / "odd", version=server.version, cache=server.cache, settings={"no.such.setting": True}
    )
    with pytest.raises(ConfigError, match=r"unknown setting \[no.such.setting\]"):
        other.start()
    other.purge()


@real
@pytest.mark.long
def test_data_of_a_newer_server_is_refused(server: EmbeddedElasticsearch, public: Path) -> None:
    other = EmbeddedElasticsearch(public / "newer", version=server.version, cache=server.cache)
    other.directory.mkdir()
    (other.directory / "version").write_text("99.0.0")
    with pytest.raises(ConfigError, match=r"used by Elasticsearch 99\.0\.0") as caught:
        other.start()
    assert "afresh" in caught.value.remedy


@real
@pytest.mark.long
def test_two_who_fetch_at_once_get_one_distribution(server: EmbeddedElasticsearch, public: Path) -> None:
    cache = public / "cache"
    (cache / server.version / "dist.new").mkdir(parents=True)  # of a fetch that was killed
    (cache / server.version / "dist.new" / "half.zip").touch()
    both = [in_another_process(FETCH, cache, server.version) for _ in range(2)]
    assert [process.wait() for process in both] == [0, 0]
    assert sorted(path.name for path in (cache / server.version).iterdir()) == ["dist", "lock"]
    assert os.access(cache / server.version / "dist" / "bin" / "elasticsearch", os.X_OK)


@real
@pytest.mark.long
def test_purge_takes_what_is_ours_and_leaves_the_rest(server: EmbeddedElasticsearch) -> None:
    pid = pid_of(server)
    (server.directory / "notes.txt").write_text("mine")
    server.purge()
    assert not Path(f"/proc/{pid}/exe").exists()
    assert [path.name for path in server.directory.iterdir()] == ["notes.txt"]
    with pytest.raises(ConfigError, match="start it first"):
        assert server.url


def test_nothing_is_started_where_a_url_is_set(tmp_path: Path) -> None:
    url = SecretStr("https://ann:s%40crt@search.example:9243/")
    settings = Settings(home=tmp_path, elasticsearch_url=url, elasticsearch_api_key=SecretStr("k3y"))
    found = find_server(settings)
    assert (found.url, found.username, found.embedded) == ("https://search.example:9243", "ann", None)
    assert found.password is not None
    assert found.password.get_secret_value() == "s@crt"
    assert "s@crt" not in repr(found) + repr(settings)
    assert "k3y" not in repr(found)
    assert list(tmp_path.iterdir()) == []


def test_the_url_is_the_setting_without_prefix(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ELASTICSEARCH_URL", "http://search.example:9200")
    assert find_server(Settings()).url == "http://search.example:9200"


def test_without_java_it_says_what_to_install(bare: Path) -> None:
    with pytest.raises(Missing, match=r"needs Java 17 or newer: no Java was found") as caught:
        EmbeddedElasticsearch(bare / "es", version="8.19.0").start()
    assert "JDK 17" in caught.value.remedy
    assert "ELASTICSEARCH_URL" in caught.value.remedy


def test_without_maven_it_says_what_to_install(bare: Path) -> None:
    fake_java(bare / "jdk", "17.0.1")
    with pytest.raises(Missing, match="no `mvn` on PATH") as caught:
        fetch("8.19.0", bare / "cache", bare / "jdk")
    assert "apt install maven" in caught.value.remedy


def test_without_network_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java = maven_or_skip()
    nowhere = "-Dhttps.proxyHost=127.0.0.1 -Dhttps.proxyPort=9"
    monkeypatch.setenv("MAVEN_OPTS", f"{nowhere} -Dmaven.repo.local={tmp_path / 'repository'}")
    with pytest.raises(Missing, match=r"could not fetch Elasticsearch 8\.19\.0: .*Connection refused") as caught:
        fetch("8.19.0", tmp_path / "cache", java)
    assert "check the network" in caught.value.remedy
    assert not (tmp_path / "cache" / "8.19.0" / "dist").exists()


def maven_or_skip() -> Path:
    try:
        java = find_java("8.19.0", Account())
        distribution.find_maven("8.19.0")
    except Missing as error:
        pytest.skip(str(error))
    return java


def test_a_java_that_is_too_old_is_passed_over(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(bare / "old", "1.8.0_392")))
    monkeypatch.setattr(distribution, "JAVA_HOMES", (str(bare / "jdk-*"),))
    fake_java(bare / "jdk-17", "17.0.15")
    assert find_java("8.19.0", Account()) == bare / "jdk-17"
    with pytest.raises(Missing, match=r"needs Java 21 or newer: .*old is Java 8, .*jdk-17 is Java 17"):
        find_java("9.2.0", Account())
    monkeypatch.setenv("ES_JAVA_HOME", str(fake_java(bare / "new", "25")))
    assert find_java("9.2.0", Account()) == bare / "new"


@pytest.mark.parametrize("version", ["7.17.0", "9", "latest"])
def test_a_version_that_cannot_be_embedded_is_refused(version: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=f"Elasticsearch {version} cannot be embedded"):
        EmbeddedElasticsearch(tmp_path / "es", version=version).start()


def test_the_cache_is_kept_outside_of_projects() -> None:
    expected = "/var/lib/vitrina" if os.geteuid() == 0 else os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    assert default_cache().is_relative_to(expected)

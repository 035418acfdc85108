"""A search engine of our own in a directory: the real server, without a container. It needs Java and Maven.

Inside `directory` (as root, perhaps `elsewhere`, as for Postgres):

data/       the indexes
config/     written anew at every start
logs/       what the server says; `log` is what it said while starting
port        where it listens; kept, so that a restart changes no URL
version     of the server that last used the data
pid         its process
lock        held while somebody starts, stops or purges

It listens on 127.0.0.1 only and asks for no password: a server for demo and tests.
"""

import json
import os
import random
import re
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import ClassVar

from vitrina.domain.errors import ConfigError, RetryableError
from vitrina.embedded import distribution
from vitrina.embedded.directory import START_AFRESH, ServerDirectory, config_error, explained, remove
from vitrina.embedded.distribution import Engine
from vitrina.embedded.host import Command

START_SECONDS = 300  # a busy machine takes a minute or more
STOP_SECONDS = 30
ADDRESS = "127.0.0.1"
PORTS = range(9200, 30000)  # below those that the system hands out to connections, so that a restart finds it free
OUR_FILES = ("data", "config", "logs", "tmp", "log", "port", "version", "pid", "elsewhere", "lock")
NOT_OURS = re.compile(r"(\d+(-\d*)?:)?(-Xlog:|-XX:\+?HeapDump|-XX:ErrorFile)")  # files of the JVM elsewhere
# For a launcher that becomes the server: until it has written its pid.
UNTIL_UP = '"$@" > log 2>&1 & while ! [ -s pid ]; do kill -0 $! 2>/dev/null || exit 1; sleep 0.05; done'
SETTINGS: Mapping[str, str | bool] = {
    "cluster.name": "vitrina",
    "node.name": "vitrina",
    "discovery.type": "single-node",
    "network.host": ADDRESS,
    "transport.port": "0",
    "cluster.routing.allocation.disk.threshold_enabled": False,
}


class EmbeddedSearch(ServerDirectory):
    """One server on one directory. It outlives the process that started it, and any process can stop it."""

    engine: Engine
    newest: str  # the version unless another is asked for
    own_settings: ClassVar[Mapping[str, str | bool]] = {}  # that the engine needs besides
    cached_by = "XDG_CACHE_HOME"  # what says where it is kept
    detaches = True  # its launcher ends when it is up; else it is the server

    def __init__(
        self,
        directory: Path,
        *,
        version: str | None = None,
        port: int | None = None,
        heap: str = "512m",
        jvm: Sequence[str] = (),
        cache: Path | None = None,
        settings: Mapping[str, str | bool] | None = None,
    ) -> None:
        super().__init__(directory)
        self.server = self.engine.name
        self.version = version or self.newest
        self.port = port
        self.heap = heap
        self.jvm = list(jvm)
        self.cache = (cache or distribution.default_cache(self.engine)).absolute()
        self.settings = dict(settings or {})

    def start(self) -> None:
        """Return when the server has its indexes at hand. One that runs already is used as it is."""
        with self._locked() as lock:
            self._start(lock)

    def stop(self) -> None:
        """Stop the server if it runs: by SIGTERM, and if that does not help, by SIGKILL."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL, as a crash would."""
        self._end(signal.SIGKILL)

    def restart(self) -> None:
        """Stop and start, at the same URL."""
        with self._locked() as lock:
            self._signal(signal.SIGTERM)
            self._start(lock)

    def purge(self) -> None:
        """Kill the server and delete all that is ours; a stranger's file in the directory is left alone."""
        if not self.directory.exists():
            return
        with self._locked():
            self._signal(signal.SIGKILL)
            if self._home != self.directory:
                remove(self._home)
            remove(*(self.directory / name for name in OUR_FILES))
            with suppress(OSError):
                self.directory.rmdir()

    def is_running(self) -> bool:
        """Whether a server of this directory is alive, if only starting or stopping."""
        with explained(self.directory):
            return self._server_pid() is not None

    def exists(self) -> bool:
        """Whether a server was ever started here."""
        with explained(self.directory):
            return self._read("port") is not None

    @property
    def url(self) -> str:
        """Where the server listens, or listened before it was stopped."""
        with explained(self.directory):
            port = self._read("port")
        if port is None:
            raise ConfigError(f"there is no {self.server} in {self.directory} yet", "start it first")
        return f"http://{ADDRESS}:{port}"

    @property
    def log(self) -> Path:
        """What the server says; before its first word, what was said while it was started."""
        own = self._home / "logs" / f"{SETTINGS['cluster.name']}.log"
        return own if own.exists() else self._home / "log"

    def _end(self, how: signal.Signals) -> None:
        if self.directory.exists():
            with self._locked():
                self._signal(how)

    def _start(self, lock: int) -> None:
        if self._server_pid() is None:
            java = distribution.find_java(self.version, self._account, self.engine)
            dist = self._distribution(java)
            self._settle()
            self._make_directories()
            self._ensure_version()
            self._write("port", str(self._free_port()))
            self._configure(dist)
            self._launch(dist, java, lock)
        self._wait_until_ready()

    def _signal(self, how: signal.Signals) -> None:
        """Send it and wait for the end; what SIGTERM does not end is killed."""
        pid = self._server_pid()
        if pid is None:
            return
        os.kill(pid, how)
        deadline = time.monotonic() + STOP_SECONDS
        while self._server_pid() == pid and time.monotonic() < deadline:
            time.sleep(0.05)
        if self._server_pid() == pid:
            if how == signal.SIGKILL:
                raise RetryableError(f"{self.server}, process {pid}, does not end", "try again in a minute")
            self._signal(signal.SIGKILL)

    def _read(self, name: str) -> int | None:
        """The number in one of our files."""
        try:
            text = (self._home / name).read_text().strip()
        except (FileNotFoundError, NotADirectoryError):
            return None
        return int(text) if text.isdecimal() else None

    def _server_pid(self) -> int | None:
        """The process of the pid file if it truly is our server: its command line has our mark."""
        pid = self._read("pid")
        if pid is None:
            return None
        listed = subprocess.run(["ps", "-ww", "-p", str(pid), "-o", "command="], capture_output=True, check=False)
        return pid if os.fsencode(f"{self._mark} ") in listed.stdout else None

    @property
    def _root(self) -> Path:
        """Where the files are, spelled the same whichever way one came."""
        return self._home.resolve()

    @property
    def _mark(self) -> str:
        return f"-Dvitrina.directory={self._root}"

    def _distribution(self, java: Path) -> Path:
        dist = distribution.fetch(self.version, self.cache, java, self.engine)
        if self._account.run(["test", "-x", dist / "bin" / self.engine.program]).returncode != 0:
            problem = f"the user who runs {self.server} cannot reach {dist}"
            raise ConfigError(problem, f"set {self.cached_by} to a directory that everybody can enter")
        return dist

    def _make_directories(self) -> None:
        names = ["data", "config/jvm.options.d", "logs", "tmp"]
        made = self._account.run(["mkdir", "-p", *names], cwd=self._home)
        if made.returncode != 0:
            raise config_error(f"cannot use {self._home}", made.stdout, START_AFRESH)
        self._account.run(["rm", "-f", "pid"], cwd=self._home)  # of a dead server, whose pid may be another program's

    def _ensure_version(self) -> None:
        """A newer server takes over what an older one made; the way back is closed."""
        made_by = self._home / "version"
        last = made_by.read_text().strip() if made_by.exists() else self.version
        if _numbers(last) > _numbers(self.version):
            problem = f"{self._home / 'data'} was used by {self.server} {last}, and this is {self.version}"
            raise ConfigError(problem, f"use {self.server} {last}, or start afresh: {START_AFRESH}")
        self._write("version", self.version)

    def _free_port(self) -> int:
        """The one asked for, else the last one, else any. Say so now if it is taken, rather than in a log."""
        if self.port is not None and not _is_free(self.port):
            problem = f"{self.server} cannot listen on {ADDRESS}, port {self.port}"
            raise ConfigError(problem, f"stop what uses port {self.port}, or choose another port")
        wanted = [self.port or self._read("port"), *random.sample(PORTS, 50)]
        return next(port for port in wanted if port and _is_free(port))

    def _configure(self, dist: Path) -> None:
        """Ours, then the caller's. A string of JSON is a string of YAML too."""
        home = self._root
        places = {
            "path.data": str(home / "data"),
            "path.logs": str(home / "logs"),
            "http.port": str(self._read("port")),
        }
        settings = {**SETTINGS, **self.own_settings, **places, **self.settings}
        lines = (f"{name}: {json.dumps(value)}\n" for name, value in settings.items())
        self._write(f"config/{self.engine.program}.yml", "".join(lines))
        theirs = (dist / "config" / "jvm.options").read_text().splitlines()
        kept = [line for line in theirs if not NOT_OURS.match(line)]
        ours = [f"-Xms{self.heap}", f"-Xmx{self.heap}", f"-XX:ErrorFile={home}/logs/hs_err.log", self._mark, *self.jvm]
        self._write("config/jvm.options", "\n".join([*kept, *ours, ""]))
        self._write("config/log4j2.properties", (dist / "config" / "log4j2.properties").read_text())

    def _launch(self, dist: Path, java: Path, lock: int) -> None:
        """A launcher that ends when the server is up inherits the lock: if we are killed, the next one waits."""
        names = self.engine.environment
        own = {"JAVA_HOME": java, "PATH_CONF": self._root / "config", "TMPDIR": self._root / "tmp"}
        environment = [f"{names}_{name}={value}" for name, value in own.items()]
        foreign = ["-u", f"{names}_JAVA_OPTS", "-u", "CLI_JAVA_OPTS", "-u", "JAVA_HOME"]
        clean = ["env", *foreign, *environment, "LC_ALL=C.UTF-8"]  # the latter for the names of files
        server: Command = [dist / "bin" / self.engine.program, "-p", self._root / "pid"]
        if self.detaches:
            command = ["sh", "-c", 'exec "$@" > log 2>&1', "sh", *clean, *server, "-d"]
        else:
            command = ["sh", "-c", UNTIL_UP, "sh", *clean, *server]
        kept = [lock] if self.detaches else []
        result = self._account.run(command, cwd=self._home, keep=kept, seconds=START_SECONDS)
        if result.returncode != 0:
            raise self._not_started(result.stdout)

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while not is_healthy(self.url):
            if self._server_pid() is None:
                raise self._not_started("it ended")
            if time.monotonic() > deadline:
                problem = f"{self.server} in {self._home} does not get ready"
                raise RetryableError(problem, f"try again in a minute, or see {self._home / 'logs'}")
            time.sleep(0.1)

    def _not_started(self, otherwise: str) -> ConfigError:
        log = self._home / "log"
        said = log.read_text(errors="replace") if log.exists() else ""
        problem = f"{self.server} {self.version} in {self._home} did not start"
        return config_error(problem, "\n".join(_reasons(said)) or otherwise, START_AFRESH)


def is_healthy(url: str) -> bool:
    """Whether it answers and every index has its primary shards."""
    import httpx  # only here: whoever just stops a server does not wait for it

    try:
        with httpx.Client(trust_env=False, verify=False, timeout=5) as client:  # no proxy on the way to 127.0.0.1
            answer = client.get(f"{url}/_cluster/health")
            return answer.is_success and answer.json()["status"] in ("green", "yellow")
    except httpx.HTTPError:
        return False


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((ADDRESS, port))
        except OSError:
            return False
    return True


def _numbers(version: str) -> list[int]:
    return [int(part) for part in version.split(".")]


def _reasons(said: str) -> list[str]:
    """What went wrong, without stack traces and progress."""
    return [line for line in said.splitlines() if not re.match(r"\s*(at |\.\.\. |$)|.*\]\[INFO ", line)]

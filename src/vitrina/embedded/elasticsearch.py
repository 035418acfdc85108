"""An Elasticsearch of our own in a directory: the real server, without a container. It needs Java and Maven.

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
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit, urlunsplit

from pydantic import SecretStr

from vitrina.domain.errors import ConfigError, RetryableError
from vitrina.embedded import distribution
from vitrina.embedded.directory import START_AFRESH, ServerDirectory, config_error, explained, remove
from vitrina.embedded.host import Command
from vitrina.settings import Settings

VERSION = "8.19.0"
START_SECONDS = 300  # a busy machine takes a minute or more
STOP_SECONDS = 30
ADDRESS = "127.0.0.1"
PORTS = range(9200, 30000)  # below those that the system hands out to connections, so that a restart finds it free
OUR_FILES = ("data", "config", "logs", "tmp", "log", "port", "version", "pid", "elsewhere", "lock")
NOT_OURS = ("-Xlog:", "-XX:HeapDump", "-XX:+HeapDump", "-XX:ErrorFile")  # files of the JVM in places of their own
SETTINGS: Mapping[str, str | bool] = {
    "cluster.name": "vitrina",
    "node.name": "vitrina",
    "discovery.type": "single-node",
    "network.host": ADDRESS,
    "transport.port": "0",
    "xpack.security.enabled": False,
    "cluster.routing.allocation.disk.threshold_enabled": False,
}


@dataclass(frozen=True)
class Server:
    """Where Elasticsearch is and how to sign in; `embedded` if it is one of ours."""

    url: str
    username: str | None = None
    password: SecretStr | None = None
    api_key: SecretStr | None = None
    ca_file: Path | None = None
    embedded: "EmbeddedElasticsearch | None" = None


class EmbeddedElasticsearch(ServerDirectory):
    """One server on one directory. It outlives the process that started it, and any process can stop it."""

    server = "Elasticsearch"

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
        self.version = version or VERSION
        self.port = port
        self.heap = heap
        self.jvm = list(jvm)
        self.cache = (cache or distribution.default_cache()).absolute()
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
            raise ConfigError(f"there is no Elasticsearch in {self.directory} yet", "start it first")
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
            java = distribution.find_java(self.version, self._account)
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
                raise RetryableError(f"Elasticsearch, process {pid}, does not end", "try again in a minute")
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
        dist = distribution.fetch(self.version, self.cache, java)
        if self._account.run(["test", "-x", dist / "bin" / "elasticsearch"]).returncode != 0:
            problem = f"the user who runs Elasticsearch cannot reach {dist}"
            raise ConfigError(problem, "set VITRINA_ELASTICSEARCH_CACHE to a directory that everybody can enter")
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
            problem = f"{self._home / 'data'} was used by Elasticsearch {last}, and this is {self.version}"
            raise ConfigError(problem, f"use Elasticsearch {last}, or start afresh: {START_AFRESH}")
        self._write("version", self.version)

    def _free_port(self) -> int:
        """The one asked for, else the last one, else any. Say so now if it is taken, rather than in a log."""
        if self.port is not None and not _is_free(self.port):
            problem = f"Elasticsearch cannot listen on {ADDRESS}, port {self.port}"
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
        settings = {**SETTINGS, **places, **self.settings}
        self._write("config/elasticsearch.yml", "".join(f"{k}: {json.dumps(v)}\n" for k, v in settings.items()))
        theirs = (dist / "config" / "jvm.options").read_text().splitlines()
        kept = [line for line in theirs if not line.startswith(NOT_OURS)]
        ours = [f"-Xms{self.heap}", f"-Xmx{self.heap}", f"-XX:ErrorFile={home}/logs/hs_err.log", self._mark, *self.jvm]
        self._write("config/jvm.options", "\n".join([*kept, *ours, ""]))
        self._write("config/log4j2.properties", (dist / "config" / "log4j2.properties").read_text())

    def _launch(self, dist: Path, java: Path, lock: int) -> None:
        """Its launcher ends when the server is up, and inherits the lock: if we are killed, the next one waits."""
        own = {"ES_JAVA_HOME": java, "ES_PATH_CONF": self._root / "config", "ES_TMPDIR": self._root / "tmp"}
        environment = [f"{name}={value}" for name, value in own.items()]
        foreign = ["-u", "ES_JAVA_OPTS", "-u", "CLI_JAVA_OPTS", "-u", "JAVA_HOME"]
        clean = ["env", *foreign, *environment, "LC_ALL=C.UTF-8"]  # the latter for the names of files
        server: Command = [dist / "bin" / "elasticsearch", "-d", "-p", self._root / "pid"]
        command = ["sh", "-c", 'exec "$@" > log 2>&1', "sh", *clean, *server]
        result = self._account.run(command, cwd=self._home, keep=[lock], seconds=START_SECONDS)
        if result.returncode != 0:
            raise self._not_started(result.stdout)

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while not is_healthy(self.url):
            if self._server_pid() is None:
                raise self._not_started("it ended")
            if time.monotonic() > deadline:
                problem = f"Elasticsearch in {self._home} does not get ready"
                raise RetryableError(problem, f"try again in a minute, or see {self._home / 'logs'}")
            time.sleep(0.1)

    def _not_started(self, otherwise: str) -> ConfigError:
        log = self._home / "log"
        said = log.read_text(errors="replace") if log.exists() else ""
        problem = f"Elasticsearch {self.version} in {self._home} did not start"
        return config_error(problem, "\n".join(_reasons(said)) or otherwise, START_AFRESH)


def find_server(settings: Settings, version: str | None = None) -> Server:
    """The configured server, or the embedded one, started."""
    if settings.elasticsearch_url:
        return _configured(settings, settings.elasticsearch_url.get_secret_value())
    server = embedded_elasticsearch(settings, version)
    server.start()
    return Server(server.url, embedded=server)


def embedded_elasticsearch(settings: Settings, version: str | None = None) -> EmbeddedElasticsearch:
    """The server in `$VITRINA_HOME`."""
    directory = Path(settings.home) / "elasticsearch"
    return EmbeddedElasticsearch(directory, version=version, cache=settings.elasticsearch_cache)


def is_healthy(url: str) -> bool:
    """Whether it answers and every index has its primary shards."""
    import httpx  # only here: whoever just stops a server does not wait for it

    try:
        with httpx.Client(trust_env=False, verify=False, timeout=5) as client:  # no proxy on the way to 127.0.0.1
            answer = client.get(f"{url}/_cluster/health")
            return answer.is_success and answer.json()["status"] in ("green", "yellow")
    except httpx.HTTPError:
        return False


def _configured(settings: Settings, url: str) -> Server:
    """A name and password in the URL move out of it, so that the URL may be shown."""
    parts = urlsplit(url)
    password = SecretStr(unquote(parts.password)) if parts.password else None
    return Server(
        url=urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2])).rstrip("/"),
        username=settings.elasticsearch_username or (unquote(parts.username) if parts.username else None),
        password=settings.elasticsearch_password or password,
        api_key=settings.elasticsearch_api_key,
        ca_file=settings.elasticsearch_ca_file,
    )


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

"""The peers, in an environment of their own that the benchmark makes; a peer that cannot be had is skipped."""

import hashlib
import json
import os
import shutil
import socket
import subprocess
import venv
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from bench import processes
from bench.contest import Way
from bench.ground import HOME, Took
from bench.report import Options, Skipped, out, warn

HERE = Path(__file__).parent
PINNED = HERE / "peers.txt"
PACKAGES = {"dlt": "dlt", "executemany": "psycopg"}
DATABASE = "pgsync"
INSTALL = ["-m", "pip", "install", "-q", "--disable-pip-version-check", "-r", str(PINNED)]


def environment(home: Path) -> Path:
    """The peers' Python, made once for each list of versions."""
    directory = home / f"peers-{hashlib.sha256(PINNED.read_bytes()).hexdigest()[:8]}"
    python = directory / "bin" / "python"
    if not (directory / "ready").exists():
        out.print(f"installing the peers of {PINNED.name} into {directory} …")
        venv.create(directory, with_pip=True, clear=True)
        done = subprocess.run([python, *INSTALL], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise Skipped(f"peers cannot be installed: {done.stderr.strip()[-500:]}")
        (directory / "ready").touch()
    return python


def found(options: Options, make: Callable[[Path], list[Way]]) -> tuple[list[Way], list[str]]:
    """The peers of a work, made with their Python; or why there are none."""
    if not options.peers:
        return [], []
    try:
        return make(environment(HOME)), []
    except Skipped as reason:
        warn(str(reason))
        return [], [str(reason)]


def pinned(ways: Sequence[Way]) -> dict[str, str]:
    """The versions of these peers."""
    return versions(*(PACKAGES[way.name] for way in ways))


def versions(*names: str) -> dict[str, str]:
    """Of packages in the peers' environment."""
    listed = dict(line.split("==") for line in PINNED.read_text().splitlines() if "==" in line)
    return {f"peer {name}": listed[name] for name in names}


def run(python: Path, script: str, *arguments: str, variables: Mapping[str, str] | None = None) -> Took:
    """Run a peer to its end; the seconds it measured, or 0, and the most memory it had."""
    given = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"} | dict(variables or {})
    done = processes.run([python, HERE / script, *arguments], given).check(f"{script} {arguments[0]}")
    last = done.output.strip().splitlines()[-1:] or [""]
    return Took(float(json.loads(last[0])["seconds"]) if last[0].startswith("{") else 0.0, done.memory_mb)


class PgSync:
    """PGSync with its Redis, on one database and one server."""

    def __init__(self, python: Path, directory: Path, conninfo: str, url: str, redis: str, version: str) -> None:
        self.python = python
        self.schema = directory / "pgsync.json"
        self.version = version
        self.database = str(conninfo_to_dict(conninfo)["dbname"])
        self.variables = {
            "PG_URL": address(conninfo),
            "ELASTICSEARCH_URL": url,
            "ELASTICSEARCH_TIMEOUT": "60",
            "REDIS_URL": redis,
            "CHECKPOINT_PATH": str(directory),
        }

    def bootstrap(self, index: str, columns: Mapping[str, str]) -> None:
        """Its triggers, its slot and its view; `columns` with the names they have in the document."""
        renamed = {column: name for column, name in columns.items() if column != name}
        node = {"table": "film_work", "schema": "content", "columns": list(columns), "transform": {"rename": renamed}}
        self.schema.write_text(json.dumps([{"database": self.database, "index": index, "nodes": node}]))
        self._do("bootstrap")

    def sync(self) -> float:
        """All of it the first time, then what has changed."""
        return self._do("sync")

    def teardown(self) -> None:
        """Leave nothing in the database."""
        self._do("teardown")

    def _do(self, action: str) -> float:
        given = (action, str(self.schema), self.version)
        return run(self.python, "peer_pgsync.py", *given, variables=self.variables).seconds


def own_database(conninfo: str) -> str:
    """A copy of the films in a database of its own: a slot sees all that happens in its database, others' work too.

    The server is the benchmark's own, so who still uses the original (an earlier run that was killed) is sent away.
    """
    copied = str(conninfo_to_dict(conninfo)["dbname"])
    with psycopg.connect(make_conninfo(conninfo, dbname="postgres"), autocommit=True) as conn:
        name = sql.Identifier(DATABASE)
        slots = "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = ANY (%s)"
        conn.execute(slots, [[DATABASE, copied]])
        conn.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(name))
        conn.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [copied])
        conn.execute(sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(name, sql.Identifier(copied)))
    return make_conninfo(conninfo, dbname=DATABASE)


@contextmanager
def redis(directory: Path) -> Iterator[str]:
    """A Redis of our own, without files."""
    program = shutil.which("redis-server")
    if program is None:
        raise Skipped("PGSync needs Redis: install redis-server")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    options = ["--bind", "127.0.0.1", "--port", str(port), "--save", "", "--appendonly", "no", "--dir", str(directory)]
    with subprocess.Popen([program, *options], stdout=subprocess.DEVNULL) as server:
        try:
            yield f"redis://127.0.0.1:{port}/0"
        finally:
            server.terminate()


def address(conninfo: str, server: str = "") -> str:
    """A conninfo as SQLAlchemy takes it; some want a server and a password named, and neither is used."""
    parts = conninfo_to_dict(conninfo)
    user = f"{parts['user']}:none@{server}" if server else f"{parts['user']}@"
    return f"postgresql://{user}/{parts['dbname']}?host={quote(str(parts['host']))}&port={parts['port']}"

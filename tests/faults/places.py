"""Marts in a lake, in files and in ClickHouse, as the fault loop sees them: by readers who know nothing of runners."""

import re
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit

from pydantic import SecretStr
from pyiceberg.table import StaticTable

from tests import clickhouse
from tests.clickhouse import ClickMart, Server, connected
from tests.files import FilesSink
from tests.lake import LakeSink, typed_rows
from tests.patience import patient
from tests.support import Lab
from tests.wire import Wire, wired
from vitrina.sinks.clickhouse.client import ClickHouse
from vitrina.testing.marts import Rows

POINTER = "SELECT metadata_location FROM etl_lake.iceberg_tables WHERE table_namespace = 'cinema' AND table_name = %s"
ROWS_OF = re.compile(r"(.+)-e\d+")


class Place(Protocol):
    """Where marts of one kind are."""

    modes: Sequence[str]  # that it can follow

    def target(self, name: str) -> str:
        """Of a mart."""

    def rows(self, target: str, select: str) -> Rows:
        """That its readers see, in the types of the query."""

    def assert_known(self, states: Mapping[str, str]) -> None:
        """Nothing is there that the warehouse does not know, and one epoch may write. At any rest."""

    def assert_clean(self, targets: Sequence[str]) -> None:
        """Nothing is left of runs that were lost. Once another run has changed the mart."""


@dataclass
class Lake:
    """In a folder."""

    lab: Lab
    folder: Path
    modes: Sequence[str] = ("full", "incremental", "live")

    def __post_init__(self) -> None:
        LakeSink(self.lab, self.folder)
        self.lab.configure(lake_commit_seconds=0.2)

    def target(self, name: str) -> str:
        return f"lake:cinema.{name}"

    def rows(self, target: str, select: str) -> Rows:
        """By way of the pointer; a reader that finds a file gone asks for the pointer again."""
        deadline = time.monotonic() + patient(10)
        while True:
            found = self.lab.sql(POINTER, target.removeprefix("lake:cinema."))
            if not found:
                return {}
            try:
                table = StaticTable.from_metadata(found[0][0]).scan().to_arrow()
            except FileNotFoundError:
                if time.monotonic() > deadline:
                    raise
                continue
            assert len(set(table["id"].to_pylist())) == table.num_rows, f"{target} has a key twice"
            return typed_rows(self.lab, table.column_names, table.to_pylist(), ["id"], select)

    def assert_known(self, states: Mapping[str, str]) -> None:
        tables = {name for (name,) in self.lab.sql("SELECT DISTINCT table_name FROM etl_lake.iceberg_tables")}
        marts = {index.removeprefix("cinema.").rpartition("-")[0] for index in states if index.startswith("cinema.")}
        assert tables <= marts | {index.removeprefix("cinema.") for index in states}, "a table that nobody knows of"

    def assert_clean(self, targets: Sequence[str]) -> None:
        for target in targets:
            if not target.endswith("live"):  # a follower tidies up now and then
                assert LakeSink(self.lab, self.folder, target).unreferenced() == set()


@dataclass
class Files:
    """In a folder."""

    lab: Lab
    folder: Path
    modes: Sequence[str] = ("full", "incremental")

    def __post_init__(self) -> None:
        self._sink(self.target("none"))

    def target(self, name: str) -> str:
        return f"file://{self.folder}/{name}/"

    def rows(self, target: str, select: str) -> Rows:
        """By the manifest; files of one that was replaced go at once here: a reader that finds one gone asks again."""
        deadline, sink = time.monotonic() + patient(10), self._sink(target)
        while True:
            try:
                manifest = sink.manifest
                if not manifest or not manifest["files"]:
                    return {}
                found = sink.table
                return typed_rows(self.lab, found.column_names, found.to_pylist(), ["id"], select)
            except Exception:
                if time.monotonic() > deadline or sink.manifest == manifest:
                    raise

    def assert_known(self, states: Mapping[str, str]) -> None:
        del states

    def assert_clean(self, targets: Sequence[str]) -> None:
        for target in targets:
            assert self._sink(target).unnamed == set()

    def _sink(self, target: str) -> FilesSink:
        return FilesSink(self.lab, Path(target.removeprefix("file://")))


@dataclass
class Tables:
    """In ClickHouse, behind a wire."""

    lab: Lab
    client: ClickHouse  # past the wire
    wire: Wire
    server: Server | None  # one that may be killed
    database: str = "faults"
    modes: Sequence[str] = ("full", "incremental", "live")

    def __post_init__(self) -> None:
        self.client.run(f"CREATE DATABASE {self.database}")
        url = SecretStr(f"http://127.0.0.1:{self.wire.port}")
        self.lab.configure(clickhouse_url=url, allowed_clickhouse_tables=[f"{self.database}.*"])

    def target(self, name: str) -> str:
        return f"ch:{self.database}.{name}"

    def rows(self, target: str, select: str) -> Rows:
        del select
        return ClickMart(self.lab, target, self.client).rows(["id"])

    def assert_known(self, states: Mapping[str, str]) -> None:
        query = f"SELECT name, engine FROM system.tables WHERE database = '{self.database}'"
        tables: dict[str, str] = dict(map(tuple, self.client.rows(query)))
        sets = {name for name, engine in tables.items() if engine == "Merge"}
        assert {f"{self.database}.{name}" for name in sets} <= states.keys(), "a set that nobody knows of"
        writing = Counter(found[1] for name in tables if (found := ROWS_OF.fullmatch(name)) and found[1] in sets)
        assert writing == Counter(sets), "one epoch may write to each set"

    def assert_clean(self, targets: Sequence[str]) -> None:
        query = f"SELECT name FROM system.tables WHERE database = '{self.database}' AND engine = 'View'"
        views = {name for (name,) in self.client.rows(query)}
        assert views == {target.partition(".")[2] for target in targets}

    def restart(self) -> None:
        """Killed, and started where it was."""
        assert self.server is not None
        self.server.kill()
        self.server.start()


@contextmanager
def placed(lab: Lab, folder: Path) -> Iterator[dict[str, Place]]:
    """Those that are to be had, by the name that the loop gives them."""
    places: dict[str, Place] = {"lake": Lake(lab, folder / "lake"), "files": Files(lab, folder / "files")}
    if not clickhouse.PYTHON.exists():
        sys.stderr.write("no ClickHouse in these rounds: its engine is not set up: make ready-clickhouse\n")
        yield places
        return
    with clickhouse.running(folder / "clickhouse") as server, connected(server.url) as client:
        parts = urlsplit(server.url)
        with wired(Wire((str(parts.hostname), int(parts.port or 0)))) as wire:
            yield places | {"tables": Tables(lab, client, wire, server)}

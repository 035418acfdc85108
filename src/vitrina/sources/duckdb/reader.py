"""Reading a lake by DuckDB: an instance in this process for each reader, closed with it."""

import json
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from threading import Event, Timer
from typing import Any, Self

import duckdb

from vitrina.domain.errors import ConfigError, RetryableError
from vitrina.domain.findings import Finding
from vitrina.sources.arrow.reader import ArrowSource, Shaped
from vitrina.sources.arrow.text import wrapped
from vitrina.sources.duckdb.guard import check_one_select, judge
from vitrina.sources.duckdb.place import Instance, Lake, first_line, identifier, literal
from vitrina.sources.duckdb.shapes import shape
from vitrina.sources.duckdb.tables import Views, list_tables, take_sight
from vitrina.sources.sight import Seen, Sight
from vitrina.sources.source import Abilities, Address, Estimate

WIDTH = 100  # bytes of a row, by a guess


@dataclass(frozen=True)
class DuckReader(ArrowSource):
    """One instance; its tables are the file's, or views over the folder's files."""

    lake: Lake
    instance: Instance
    seconds: float  # that a query may take
    views: Views
    is_lost: bool = False

    @property
    def conn(self) -> duckdb.DuckDBPyConnection:
        """Of the instance."""
        return self.instance.conn

    def close(self) -> None:
        self.instance.close()

    def cancel(self) -> None:
        self.conn.interrupt()

    def within(self, seconds: float) -> Self:
        return replace(self, seconds=seconds)

    def version(self) -> str:
        return f"DuckDB {duckdb.__version__}"

    def judge(self, select: str, *, schemas: Collection[str], functions: Collection[str] = ()) -> list[Finding]:
        del schemas
        with self._asking(select):
            return judge(self.conn, select, functions)

    def shape(self, select: str) -> Shaped:
        with self._asking(select):
            check_one_select(self.conn, select)
            found = self.conn.sql(select)
            return shape(select, found.columns, found.types)

    def window(self, select: str, cursor: str, value: str | None) -> str:
        if value is None:
            return select
        with self._asking(select):
            found = self.conn.sql(select)
            type_ = dict(zip(found.columns, found.types, strict=True))[cursor]
        name = identifier(cursor)
        reached = f"{name} >= CAST({literal(value)} AS {type_}) OR {name} IS NULL"
        return f"SELECT * FROM {wrapped(select)} AS vitrina_q WHERE {reached}"

    def estimate(self, select: str) -> Estimate:
        with self._asking(select):
            rows = self.conn.execute(f"EXPLAIN (FORMAT JSON) SELECT * FROM {wrapped(select)} AS vitrina_q").fetchall()
        return Estimate(_cardinality(json.loads(rows[0][1])), WIDTH)

    def batches(self, query: str, size: int) -> Iterator[Any]:
        with self._asking(query):
            yield from self.conn.sql(query).to_arrow_reader(size)

    def sight(self, schemas: Collection[str], capturer: str | None, setting: str) -> Sight:
        obstacles = super().sight(schemas, capturer, setting).obstacles
        with self._asking(""):
            return take_sight(self.conn, self.views, obstacles)

    def tables(self, schemas: Collection[str], limit: int) -> Seen:
        del schemas
        with self._asking(""):
            return list_tables(self.conn, self.views, limit)

    @contextmanager
    def _asking(self, select: str) -> Iterator[None]:
        """The tables that it names are there; it ends when its time is up, or somebody cancels it."""
        late = Event()

        def stop() -> None:
            late.set()
            self.conn.interrupt()

        timer = Timer(self.seconds, stop)
        timer.daemon = True
        timer.start()
        try:
            if select:
                self.views.make(self.conn, select)
            yield
        except duckdb.Error as error:
            raise self._translated(error, late) from error
        finally:
            timer.cancel()

    def _translated(self, error: duckdb.Error, late: Event) -> Exception:
        said = first_line(error)
        if isinstance(error, duckdb.InterruptException):
            how = f"took longer than {self.seconds:.0f} s" if late.is_set() else "was cancelled"
            return RetryableError(f"reading {self.name} {how}")
        if isinstance(error, duckdb.OutOfMemoryException):
            return ConfigError(
                f"{self.name} has too little memory: {said}", "allow it more in its address: ?memory=1GB"
            )
        if isinstance(error, duckdb.PermissionException):
            return ConfigError(
                f"{self.name} may not read that: {said}", "name the folder in its address: ?files=/path/"
            )
        if isinstance(error, duckdb.IOException | duckdb.FatalException | duckdb.InternalException):
            return RetryableError(f"{self.name} could not be read: {said}")
        return ConfigError(f"the query fails in DuckDB: {said}")


def open_reader(address: Address, abilities: Abilities) -> DuckReader:
    """An instance of its own."""
    lake = Lake.parse(address.url)
    abilities = replace(abilities, gives_windows=not lake.is_folder)  # files may come late; a database has one writer
    seconds = address.settings.statement_timeout_seconds
    return DuckReader(address.name, abilities, lake, lake.open(address.settings), seconds, Views.of(lake))


def _cardinality(plan: Any) -> float:
    """Of the topmost operator that tells it."""
    for node in plan if isinstance(plan, list) else [plan]:
        told = node.get("extra_info", {}).get("Estimated Cardinality")
        if told is not None:
            return float(str(told).lstrip("~"))
        if found := _cardinality(node.get("children", [])):
            return found
    return 0.0

"""Reading by Spark Connect: the query is computed there, and its rows come as batches of Arrow.

Every text is sent as a relation, in parentheses, and never as a statement: Spark executes a statement as soon as it
sees one.
"""

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from threading import Event, Timer
from typing import Any, Self

import grpc
from pyspark.errors import PySparkException
from pyspark.errors.exceptions.base import (
    AnalysisException,
    ArithmeticException,
    DateTimeException,
    IllegalArgumentException,
    NumberFormatException,
    ParseException,
    SparkRuntimeException,
    UnsupportedOperationException,
)

from vitrina.domain.errors import ConfigError, DatabaseLost, RetryableError, VitrinaError
from vitrina.domain.findings import Finding
from vitrina.settings import Settings
from vitrina.sources.arrow.reader import ArrowSource, Shaped
from vitrina.sources.arrow.text import wrapped
from vitrina.sources.engine import Engine, Errand
from vitrina.sources.source import Abilities, Address, Estimate
from vitrina.sources.spark.asking import CLOSED, END_SECONDS, SECONDS, SILENT, hang_up, is_told
from vitrina.sources.spark.client import DefaultPolicy, RuntimeConf, SparkConnectClient, StructType, proto
from vitrina.sources.spark.guard import judge
from vitrina.sources.spark.merging import quoted
from vitrina.sources.spark.pieces import KeptResult, keep, record_batches
from vitrina.sources.spark.sessions import PINNED
from vitrina.sources.spark.shapes import shape
from vitrina.transforms.frames import Batch

WIDTH = 100  # bytes of a row, by a guess
TRIES = 3  # of a request: who is longer away than that is waited for by the runner
FAULTS = (AnalysisException, ParseException, ArithmeticException, DateTimeException, IllegalArgumentException,
          NumberFormatException, UnsupportedOperationException, SparkRuntimeException)  # fmt: skip
ROWS = re.compile(r"rowCount=([\d.E+]+)")
SIZE = re.compile(r"sizeInBytes=([\d.]+) ?(B|[KMGTPE]iB)")
UNITS = {unit: 1024**n for n, unit in enumerate(["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"])}
ABSURD = 1e13  # rows
AWAY = {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED}
GONE = (
    "SESSION_NOT_FOUND",
    "SESSION_CLOSED",
    "SESSION_CHANGED",
    "INVALID_HANDLE",
    "SparkContext was shut down",
    "RETRIES_EXCEEDED",
)


@dataclass(frozen=True)
class SparkReader(ArrowSource):
    """One session."""

    client: SparkConnectClient
    seconds: float  # that a query may take
    app: Settings
    url: str = field(repr=False)
    lost: Event = field(default_factory=Event)
    cancelled: Event = field(default_factory=Event)

    @property
    def is_lost(self) -> bool:
        return self.lost.is_set()

    def close(self) -> None:
        if not self.is_lost:  # the server forgets a session that nobody uses
            is_told(self.client.release_session)
        hang_up(self.client)
        self.client.close()

    def cancel(self) -> None:
        self.cancelled.set()
        self._interrupt()

    def _interrupt(self) -> None:
        if not is_told(self.client.interrupt_all):
            self._lose()

    def _lose(self) -> None:
        self.lost.set()
        hang_up(self.client)

    def within(self, seconds: float) -> Self:
        return replace(self, seconds=seconds)

    def version(self) -> str:
        with self._asking():
            return f"Spark {self.client._analyze(method='spark_version').spark_version}"

    def judge(self, select: str, *, schemas: Collection[str], functions: Collection[str] = ()) -> list[Finding]:
        del schemas
        with self._asking():
            return judge(select, self._explained(select, "extended"), functions)

    def shape(self, select: str) -> Shaped:
        with self._asking():
            schema = self.client.schema(_plan(f"SELECT * FROM {wrapped(select)} AS vitrina_q"))
        assert isinstance(schema, StructType)
        return shape(select, schema)

    def estimate(self, select: str) -> Estimate | None:
        with self._asking():
            told = self._explained(select, "cost")
        return _estimate(told)

    def engine(self, errand: Errand) -> Engine:
        from vitrina.sources.spark.sessions import engine_of

        return engine_of(self.url, self.app, self.name, errand, self._reading)

    @contextmanager
    def _reading(self, session: Any, select: str, key: Sequence[str]) -> Iterator[str]:
        del session, key
        shaped = self.shape(select)
        names = ", ".join(f"c{n} AS {quoted(column.name)}" for n, column in enumerate(shaped.columns))
        yield f"SELECT {names} FROM {wrapped(shaped.query)}"

    def batches(self, query: str, size: int) -> Iterator[Any]:
        """Of what the cluster keeps; as big as the server makes them."""
        del size
        with self._asking() as check:
            kept = self._kept(query)
            if kept is None:
                yield from record_batches(self.client, _plan(query).root)
                return
            try:
                yield from kept.batches(check)
            finally:
                if not self.is_lost:
                    kept.forget()

    def first_rows(self, select: str, limit: int) -> Iterator[Batch]:
        """Nothing is kept for these: they are computed alone."""
        from vitrina.sources.arrow.values import text_batches

        shaped = self.shape(select)
        limited = f"SELECT * FROM {wrapped(shaped.query)} AS vitrina_l LIMIT {limit:d}"
        with self._asking():
            yield from text_batches(record_batches(self.client, _plan(limited).root), shaped.columns, limit)

    def _kept(self, query: str) -> KeptResult | None:
        """None: an engine that keeps nothing, and gives a result as slowly as it is read (Sail)."""
        try:
            return keep(self.client, query)
        except UnsupportedOperationException:
            return None

    def _explained(self, select: str, mode: str) -> str:
        return self.client.explain_string(_plan(f"SELECT * FROM {wrapped(select)} AS vitrina_q"), mode)

    @contextmanager
    def _asking(self) -> Iterator[Callable[[], None]]:
        """It ends when its time is up, or somebody cancels it; between two questions nothing is under way that could be
        interrupted, so there what is given is to be called."""
        late, ended = Event(), Event()

        def stop() -> None:
            late.set()
            self._interrupt()
            if not ended.wait(END_SECONDS):
                self._lose()

        def check() -> None:
            if late.is_set() or self.cancelled.is_set():
                raise RetryableError(f"reading {self.name} {self._why(late)}")

        timer = Timer(self.seconds, stop)
        timer.daemon = True
        timer.start()
        try:
            yield check
        except (PySparkException, grpc.RpcError) as error:
            raise self._translated(error, late) from error
        except ValueError as error:
            if CLOSED not in str(error):
                raise
            raise self._translated(error, late) from error
        finally:
            ended.set()
            timer.cancel()

    def _why(self, late: Event) -> str:
        return f"took longer than {self.seconds:.0f} s" if late.is_set() else "was cancelled"

    def _translated(self, error: Exception, late: Event) -> VitrinaError:
        said = " ".join(str(error).split("\n\nJVM stacktrace")[0].split())
        if self.is_lost:  # we hung up
            return DatabaseLost(f"{self.name} has gone: {SILENT}")
        if _is_away(error):
            self.lost.set()
            return DatabaseLost(f"{self.name} has gone: {said[:300]}")
        if late.is_set():
            return RetryableError(f"reading {self.name} {self._why(late)}")
        if isinstance(error, FAULTS):
            return ConfigError(f"the query fails in Spark: {said[:1000]}")
        return RetryableError(f"{self.name} could not be read: {said[:1000]}")


def _estimate(told: str) -> Estimate | None:
    """Of the plan's first line, which is the whole; lines below it are of its parts. A product of guesses is none."""
    whole = next((line for line in told.splitlines() if "Statistics(" in line), "")
    if rows := ROWS.search(whole):
        guess = float(rows[1])
    elif size := SIZE.search(whole):
        guess = float(size[1]) * UNITS[size[2]] / WIDTH
    else:
        return None
    return Estimate(guess, WIDTH) if guess < ABSURD else None


def open_reader(address: Address, abilities: Abilities) -> SparkReader:
    """A session of its own, which knows what was settled here."""
    try:
        client = SparkConnectClient(address.url)
    except (PySparkException, ValueError, AttributeError) as error:
        raise ConfigError("the address of a source in Spark cannot be read", "write sc://host:15002") from error
    client.set_retry_policies([DefaultPolicy(max_retries=TRIES)])
    seconds, settings = address.settings.statement_timeout_seconds, address.settings
    reader = SparkReader(address.name, abilities, client, seconds, settings, address.url)
    try:
        first = reader.within(SECONDS)
        first.version()
        with first._asking():
            _settle(client, settings)
    except BaseException:
        hang_up(client)
        client.close()
        raise
    return reader


def _settle(client: SparkConnectClient, settings: Settings) -> None:
    conf = RuntimeConf(client)
    for name, value in settings.spark_session.items():
        conf.set(name, value)
    for name, value in PINNED.items():
        with suppress(PySparkException):  # an engine that does not know it goes by the guard's words alone
            conf.set(name, value)


def _plan(query: str) -> proto.Plan:
    """A relation, which can do nothing but give rows."""
    return proto.Plan(root=proto.Relation(sql=proto.SQL(query=query)))


def _is_away(error: Exception) -> bool:
    if isinstance(error, grpc.RpcError):
        return getattr(error, "code", lambda: None)() in AWAY
    return any(word in str(error) for word in GONE) or _is_away_inside(error)


def _is_away_inside(error: Exception) -> bool:
    cause = error.__cause__ or error.__context__
    return isinstance(cause, grpc.RpcError) and _is_away(cause)

"""Where a runner's connections come from: the warehouse as the runner, a source as the reader."""

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from psycopg import sql

from vitrina.domain.errors import ConfigError, DatabaseLost
from vitrina.domain.latency import Latencies
from vitrina.domain.pipeline import WAREHOUSE
from vitrina.domain.source_refusals import SourceRefusal
from vitrina.meta.db import SEARCH_PATH, TEMP_FILES, Connection, cancel, connect, stall_limit
from vitrina.neighbours import Neighbours
from vitrina.settings import Settings
from vitrina.sources.registry import kind_of
from vitrina.sources.source import Address, Source, lack

if TYPE_CHECKING:
    from vitrina.sources.postgres.reader import PostgresReader

Cancel: TypeAlias = Callable[[], None]


def tell_nobody(_: Cancel) -> None:
    """No lambda: connections are handed to other processes."""


@dataclass(frozen=True)
class Connections:
    """Conninfo strings by role, and how sessions are set up."""

    warehouse: str
    reader: str
    listen: str
    sources: Mapping[str, str]
    settings: Settings
    captures: Mapping[str, str] = field(default_factory=dict)
    capture_owners: Mapping[str, str] = field(default_factory=dict)
    neighbours: Neighbours = field(default_factory=Neighbours, compare=False)  # how they answer this process
    latencies: Latencies = field(default_factory=Latencies, compare=False)  # of what came to the marts of this process
    opened: Callable[[Cancel], None] = tell_nobody  # told of each session how what it does is cancelled

    def load(self) -> None:
        """What reading the warehouse needs, before a run waits for it."""
        kind_of(self.reader).load()

    def open_warehouse(self, name: str) -> Connection:
        """A session of the runner's role."""
        return self._told(connect(self.warehouse, name))

    def open_listener(self) -> Connection:
        """A session for LISTEN, past any pooler."""
        return self._told(connect(self.listen, "listen"))

    @contextmanager
    def open_both(self, name: str, source: str) -> Iterator[tuple[Connection, Source]]:
        """A session of the runner's role and a reader, signed in to side by side: a server takes as long for each."""
        aside = ThreadPoolExecutor(1, "connecting")
        opening = aside.submit(self.open_warehouse, name)
        aside.shutdown(wait=False)  # the thread ends with that: a follower may need its sessions for hours
        try:
            with self.resolve_reader(source) as reader, opening.result() as conn:
                yield conn, reader
        finally:
            if opening.exception() is None:  # the source may have failed before anybody came to use it
                opening.result().close()

    @contextmanager
    def resolve_reader(self, source: str) -> Iterator[Source]:
        """A source, open: the warehouse itself, or another by its name and the kind of its address."""
        with self.neighbours.asking(source):
            opened = self._open(source)
        with closing(opened):
            try:
                yield opened
            except DatabaseLost as error:
                if opened.is_lost:  # this one, and not the warehouse
                    self.neighbours.lose(source, error.message)
                    error.neighbour = source
                raise

    @contextmanager
    def read_warehouse(self) -> Iterator["PostgresReader"]:
        """The warehouse as the reader, for who has to do with the marts there."""
        from vitrina.sources.postgres.reader import PostgresReader

        with self.resolve_reader(WAREHOUSE) as reader:
            assert isinstance(reader, PostgresReader)
            yield reader

    def resolve_capture(self, source: str) -> str:
        """How whoever captures a source's changes signs in: past any pooler."""
        default = self.listen if source == WAREHOUSE else self._source(source)
        if not kind_of(default).abilities.is_capturable:
            raise lack(source, "is_capturable")
        return self.captures.get(source, default)

    def resolve_capture_owner(self, source: str) -> str:
        """How whoever makes publications and triggers signs in; where nobody else is named, who captures."""
        captures = self.resolve_capture(source)
        return self.capture_owners.get(source, captures)

    def _open(self, source: str) -> Source:
        local = source == WAREHOUSE
        url = self.reader if local else self._source(source)
        opened = kind_of(url).open(Address(source, url, local, self.reading, self.settings))
        self.opened(opened.cancel)
        return opened

    def _told(self, conn: Connection) -> Connection:
        self.opened(partial(cancel, conn))
        return conn

    def _source(self, name: str) -> str:
        if name not in self.sources:
            known = ", ".join([WAREHOUSE, *self.sources])
            raise ConfigError.of(SourceRefusal.NO_SOURCE, name=name, known=known, variable=name.upper())
        return self.sources[name]

    @property
    def reading(self) -> dict[str, str]:
        """Settings of transactions that read the user's SELECT."""
        return self._common | {
            "search_path": self._path,
            "work_mem": self.settings.find_work_mem,
            "cursor_tuple_fraction": "1",  # a cursor is read to its end
            "parallel_tuple_cost": "0.001",  # a comparison drops nearly all rows before they reach the leader
        }

    @property
    def comparing(self) -> dict[str, str]:
        """Settings of transactions in which statements of our own read much."""
        return self.reading | {"search_path": SEARCH_PATH}

    @property
    def writing(self) -> dict[str, str]:
        """Settings of fenced transactions; the SELECT within them finds its names by `etl.read_as_reader`."""
        memory = {"work_mem": self.settings.write_work_mem} if self.settings.write_work_mem else {}
        return self._common | memory | {"vitrina.search_path": self._path}

    @property
    def fence_timeout(self) -> str:
        """How long a transaction may stall at its fence: the server ends it before its lease is up.

        Not before the fence: there, the session that writes is idle for as long as the source takes.
        """
        return stall_limit(self.settings.lease_seconds)

    @property
    def _path(self) -> str:
        """Where the user's SELECT finds names without a schema."""
        path = ["pg_catalog", *self.settings.search_path, "pg_temp"]
        return ", ".join(sql.Identifier(name).as_string(None) for name in path)

    @property
    def _common(self) -> dict[str, str]:
        return {
            "statement_timeout": f"{int(self.settings.statement_timeout_seconds * 1000)}ms",
            "lock_timeout": f"{int(self.settings.lock_timeout_seconds * 1000)}ms",
            # A batch is many small index scans; at the default of 4 they become bitmap scans, 3 to 8 times slower.
            "random_page_cost": "1.1",
            "jit": "off",
            TEMP_FILES: self.settings.temp_file_limit,
        }

"""The control plane's way to its databases: a pool of meta-store sessions, and readers for looking at sources."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from psycopg.rows import dict_row
from psycopg_pool import ConnectionPool, PoolTimeout

from vitrina.control.problems import Unavailable
from vitrina.meta.db import Connection, Session, check_conninfo, transaction, translated
from vitrina.settings import Settings
from vitrina.sources.connections import Connections


@dataclass
class ControlPlane:
    """Shared by all requests of a process."""

    api: str
    connections: Connections
    patience: float = 5.0  # seconds that a request waits for a session
    pool: ConnectionPool[Session] = field(init=False)

    def __post_init__(self) -> None:
        self.pool = ConnectionPool(
            check_conninfo(self.api),  # the pool would log it
            connection_class=Session,
            kwargs={
                "autocommit": True,
                "row_factory": dict_row,
                "application_name": "vitrina api",
                "prepare_threshold": None,
            },
            min_size=1,
            max_size=16,
            timeout=self.patience,
            reconnect_timeout=self.patience,  # then the next request tries: a database that is back is found at once
            open=False,
            check=ConnectionPool.check_connection,
        )

    @property
    def settings(self) -> Settings:
        """Of this process."""
        return self.connections.settings

    @contextmanager
    def session(self) -> Iterator[Connection]:
        """A session of the meta-store; a ConfigError, RetryableError or DatabaseLost for what it says."""
        with translated():
            try:
                with self.pool.connection() as conn:
                    yield conn
            except PoolTimeout as error:
                raise Unavailable("the meta-store does not answer", "look at its server, then try again") from error

    @contextmanager
    def snapshot(self) -> Iterator[Connection]:
        """Several questions about one moment."""
        with self.session() as conn, conn.transaction():
            conn.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            yield conn

    @contextmanager
    def transaction(self, actor: str) -> Iterator[Connection]:
        """One change: with its audit row, whole or not at all, under the caller's name."""
        local = {"lock_timeout": "5s", "statement_timeout": "30s", "vitrina.actor": actor}
        local["idle_in_transaction_session_timeout"] = "30s"  # a process that stands still keeps no pipeline locked
        with self.session() as conn, transaction(conn, local):
            yield conn

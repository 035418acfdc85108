"""What a follower sees of the change log: slices of changes, and when there are more."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime

from psycopg import sql

from vitrina.capture import log
from vitrina.domain.errors import ConfigError
from vitrina.engine.pieces import unnested
from vitrina.meta.db import Connection
from vitrina.meta.repos.captures import Capture, CaptureRepo
from vitrina.sources.connections import Connections
from vitrina.sql.describe import Column


@dataclass(frozen=True)
class Slice:
    """Changes of a few transactions, by relation."""

    told: Mapping[str, log.RelationChanges]
    last_id: int
    key_in_row: Mapping[str, Sequence[Column]]

    @property
    def changes(self) -> int:
        """How many."""
        return sum(told.changes for told in self.told.values())

    @property
    def committed_at(self) -> datetime | None:
        """Of the oldest change: the slice is as late as that."""
        return min((told.committed_at for told in self.told.values()), default=None)

    def upheaval(self) -> str:
        """The relation of which no single rows are told; empty as a rule."""
        return next((told.relation for told in self.told.values() if told.upheaval), "")

    def images(self, relation: str) -> sql.Composed:
        """Old and new rows of a relation, as what can stand after FROM; or the keys of them, each once."""
        told = self.told[relation]
        if told.keys:
            pairs = zip(told.keys, self.key_in_row[relation], strict=True)
            arrays = [sql.SQL("{}::{}[]").format(sql.Literal(array), column.sql_type) for array, column in pairs]
            return unnested(arrays, [column.name for column in self.key_in_row[relation]])
        table = sql.Identifier(*relation.split(".", 1))
        # With a limit, for the planner: it takes a function for 100 rows, and would read whole tables for them.
        text = "(SELECT * FROM jsonb_populate_recordset(NULL::{}, {}::jsonb) LIMIT {})"
        return sql.SQL(text).format(table, sql.Literal(told.images), sql.Literal(told.rows))


@dataclass(frozen=True)
class Feed:
    """The log of one source, through sessions of its own: a step's transaction would see it as of its beginning."""

    source: str
    conn: Connection
    listener: Connection

    @classmethod
    @contextmanager
    def open(cls, connections: Connections, source: str) -> Iterator["Feed"]:
        """For the length of a run."""
        with connections.open_warehouse("follow") as conn, connections.open_listener() as listener:
            yield cls(source, conn, listener)

    def tip(self) -> log.Tip:
        """Where the log stands."""
        return log.tip(self.conn, self.source)

    def capture(self) -> Capture:
        """How the source is captured."""
        found = CaptureRepo(self.conn).find(self.source)
        if found is None:
            remedy = f"vitrina capture install --source {self.source}"
            raise ConfigError(f"the changes of source {self.source!r} are not captured", remedy)
        return found

    def read(
        self,
        after_id: int,
        columns: Mapping[str, Sequence[str]],
        limit: int,
        key_in_row: Mapping[str, Sequence[Column]],
    ) -> Slice | None:
        """The next changes of these relations, with the columns that matter; None if the log no longer has them all."""
        keys = {relation: [column.name for column in found] for relation, found in key_in_row.items()}
        try:
            told, last_id = log.read_slice(self.conn, self.source, after_id, limit, columns, keys)
        except log.Behind:
            return None
        if self.tip().log_start - 1 > after_id:
            return None
        return Slice({one.relation: one for one in told}, last_id, key_in_row)

    def newest(self, relations: Sequence[str]) -> int:
        """The last change of any of these relations."""
        return CaptureRepo(self.conn).newest(self.source, relations)

    def now(self) -> datetime:
        """By the meta-store's clock, as every time that is kept."""
        row = self.conn.execute("SELECT clock_timestamp() AS now").fetchone()
        assert row is not None
        at: datetime = row["now"]
        return at

    def wait(self, seen: log.Tip, seconds: float) -> log.Tip:
        """Until there is more, or the time is up."""
        return log.wait(self.listener, self.conn, seen, seconds)

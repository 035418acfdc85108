"""What a follower sees of the change log: slices of changes, and when there are more."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

from psycopg import sql
from psycopg.rows import DictRow

from vitrina.adapters.captures import log
from vitrina.adapters.captures.changes import REWRITTEN, TRUNCATED
from vitrina.adapters.connections import Connections
from vitrina.domain.errors import ConfigError
from vitrina.meta.db import Connection
from vitrina.meta.repos.captures import Capture, CaptureRepo


@dataclass(frozen=True)
class Slice:
    """Changes of a few transactions, in the order of their commits."""

    changes: Sequence[DictRow]
    last_id: int

    @cached_property
    def relations(self) -> dict[str, list[DictRow]]:
        """The changes by relation."""
        found: dict[str, list[DictRow]] = {}
        for change in self.changes:
            found.setdefault(change["relation"], []).append(change)
        return found

    @property
    def committed_at(self) -> datetime | None:
        """Of the oldest change: the slice is as late as that."""
        return min((change["committed_at"] for change in self.changes), default=None)

    def upheaval(self) -> str:
        """The relation of which no single rows are told; empty as a rule."""
        return next((c["relation"] for c in self.changes if c["op"] in (TRUNCATED, REWRITTEN)), "")

    def images(self, relation: str) -> sql.Composed:
        """Old and new rows of a relation, as what can stand after FROM."""
        changes = self.relations[relation]
        images = (image for change in changes for image in (change["old_image"], change["new_image"]))
        texts = dict.fromkeys(image for image in images if image)  # old and new often say the same of what matters
        rows = sql.Literal(f"[{','.join(texts)}]")
        table = sql.Identifier(*relation.split(".", 1))
        # With a limit, for the planner: it takes a function for 100 rows, and would read whole tables for them.
        text = "(SELECT * FROM jsonb_populate_recordset(NULL::{}, {}::jsonb) LIMIT {})"
        return sql.SQL(text).format(table, rows, sql.Literal(len(texts)))

    def lacks(self, relation: str, columns: Sequence[str]) -> bool:
        """Whether some row was told without one of these columns: a large value that did not change, as a rule."""
        changes = [change for change in self.relations[relation] if not change["whole"]]
        texts = [image for change in changes for image in (change["old_image"], change["new_image"]) if image]
        return any(not json.loads(text).keys() >= set(columns) for text in texts)


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

    def read(self, after_id: int, columns: Mapping[str, Sequence[str]], limit: int) -> Slice | None:
        """The next changes of these relations, with the columns that matter; None if the log no longer has them all."""
        try:
            found = Slice(*log.read_slice(self.conn, self.source, after_id, list(columns), limit, columns))
        except log.Behind:
            return None
        return found if self.tip().log_start - 1 <= after_id else None

    def now(self) -> datetime:
        """By the meta-store's clock, as every time that is kept."""
        row = self.conn.execute("SELECT clock_timestamp() AS now").fetchone()
        assert row is not None
        at: datetime = row["now"]
        return at

    def wait(self, seen: log.Tip, seconds: float) -> log.Tip:
        """Until there is more, or the time is up."""
        return log.wait(self.listener, self.conn, seen, seconds)

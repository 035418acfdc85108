"""What a follower sees of the change log: slices of changes, and when there are more."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta

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
    """The log of one source, through a session of its own: a step's transaction would see it as of its beginning."""

    source: str
    conn: Connection

    @classmethod
    @contextmanager
    def open(cls, connections: Connections, source: str) -> Iterator["Feed"]:
        """For the length of a run."""
        with connections.open_warehouse("follow") as conn:
            yield cls(source, conn)

    def tip(self) -> log.Tip:
        """Where the log stands."""
        return log.tip(self.conn, self.source)

    def reaches_back_to(self, after_id: int) -> bool:
        """Whether what comes after an id is still in the log."""
        return log.tip(self.conn, self.source).log_start - 1 <= after_id

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
        if not self.reaches_back_to(after_id):
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


@dataclass
class KnownChanges:
    """What a slice tells of one relation, with these columns of it; None: nothing."""

    columns: set[str]
    changes: log.RelationChanges | None


@dataclass
class Moment:
    """Where the log stood when somebody looked last, and what was read of it since."""

    tip: log.Tip | None = None
    at: float = 0.0  # monotonic
    told: dict[tuple[int, str, tuple[str, ...]], KnownChanges] = field(default_factory=dict)
    columns: dict[str, set[str]] = field(default_factory=dict)  # that any of them wants


@dataclass(frozen=True)
class SharedFeed(Feed):
    """The log of one source, for many followers on one thread: one of them looks, and what one of them has read of it
    the others need not read."""

    moment: Moment = field(default_factory=Moment)

    def look(self) -> log.Tip:
        """Where the log stands now: for all, until somebody looks again."""
        moment = self.moment
        moment.tip, moment.at = log.tip(self.conn, self.source), time.monotonic()
        moment.told.clear()
        return moment.tip

    def tip(self) -> log.Tip:
        return self.moment.tip or self.look()

    def newest(self, relations: Sequence[str]) -> int:
        recent = self.tip().recent
        return max((recent.get(relation, 0) for relation in relations), default=0)

    def now(self) -> datetime:
        return self.tip().now + timedelta(seconds=time.monotonic() - self.moment.at)

    def read(
        self,
        after_id: int,
        columns: Mapping[str, Sequence[str]],
        limit: int,
        key_in_row: Mapping[str, Sequence[Column]],
    ) -> Slice | None:
        """As far as somebody has looked. Whoever is far behind reads alone."""
        upto = self.tip().last_id
        if upto - after_id > limit:
            return super().read(after_id, columns, limit, key_in_row)
        keys = {relation: tuple(column.name for column in key_in_row.get(relation, ())) for relation in columns}
        if not self._have_read(after_id, columns, keys, limit, upto):
            return None
        found = [self.moment.told[after_id, relation, keys[relation]] for relation in columns]
        if any(one.changes and one.changes.lacks for one in found):
            return super().read(after_id, columns, limit, key_in_row)  # of a column that only others want, perhaps
        told = {one.changes.relation: one.changes for one in found if one.changes}
        return Slice(told, upto, key_in_row)

    def _have_read(
        self,
        after_id: int,
        columns: Mapping[str, Sequence[str]],
        keys: dict[str, tuple[str, ...]],
        limit: int,
        upto: int,
    ) -> bool:
        """Read what nobody has read yet, with the columns that any of them wants; False if it is no longer there."""
        moment = self.moment
        for relation, names in columns.items():
            moment.columns.setdefault(relation, set()).update(names)
        wanted = {
            relation: sorted(moment.columns[relation])
            for relation, names in columns.items()
            if not (told := moment.told.get((after_id, relation, keys[relation]))) or not told.columns >= set(names)
        }
        if not wanted:
            return True
        own = {relation: keys[relation] for relation in wanted if keys[relation]}
        try:
            found, _ = log.read_slice(self.conn, self.source, after_id, limit, wanted, own, upto, self.tip())
        except log.Behind:
            return False
        by_relation = {one.relation: one for one in found}
        for relation, names in wanted.items():
            moment.told[after_id, relation, keys[relation]] = KnownChanges({*names}, by_relation.get(relation))
        return True

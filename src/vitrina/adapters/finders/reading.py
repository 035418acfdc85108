"""How a follower reads the query for some keys: the way that the planner finds cheapest, for one key and for many."""

from collections.abc import Sequence
from functools import cached_property

from psycopg import sql

from vitrina.adapters.finders.work import Work
from vitrina.adapters.job import execute
from vitrina.meta.db import Connection
from vitrina.sql.live import Tie
from vitrina.sql.live.recompute import Recompute, Way, choose_recompute, inside, outside, ways

COMMA = sql.SQL(", ")


class Reading:
    """Ways to read one query; without a choice, as the mart's first comparison would."""

    def __init__(self, work: Work, ties: Sequence[Tie], conn: Connection) -> None:
        """Chosen by keys that the mart has; a mart without any says nothing."""
        self.work = work
        self.conn = conn
        self.ways = _ways(work, ties)
        self.for_one = self._choose(1)

    @cached_property
    def for_many(self) -> Recompute:
        """Found out when there are many: most bursts have few keys, and planning for thousands takes its time."""
        return self._choose(self.work.job.rows_at_once)

    @property
    def why_not(self) -> str:
        """Why reading some keys is no cheaper than reading everything; empty as a rule."""
        return self.for_one.reason

    def query(self, keys: int, args: sql.Composable | None = None) -> sql.Composed:
        """For about so many keys, which come as $1 or written out."""
        way = (self.for_one if keys <= self.work.job.rows_at_once // 2 else self.for_many).way(keys)
        return way.query if args is None else way.write(args)

    def _choose(self, keys: int) -> Recompute:
        sample = _sample(self.work, keys, self.conn)
        if not sample:
            return Recompute({keys: self.ways[0]})
        reader = self.work.job.reader
        return choose_recompute(
            lambda query, args: reader.cost(query, args)[0], self.ways, self.work.query.whole(), {keys: sample}
        )


def _ways(work: Work, ties: Sequence[Tie]) -> list[Way]:
    """Of what is read: where documents are built from the query, a restriction inside goes into the query itself."""
    job, key = work.job, work.mart.key

    def within(args: sql.Composable) -> sql.Composed:
        restricted = inside(job.plan.select, job.columns, key, ties, args)
        return outside(job.writer.read(restricted, job.columns)[0], job.columns, key, args)

    found = ways(job.select, job.columns, key)
    return [*found, Way("inside", within)] if inside(job.plan.select, job.columns, key, ties) else found


def _sample(work: Work, size: int, conn: Connection) -> list[str | None]:
    names = [sql.SQL("array_agg(m.{})::text").format(sql.Identifier(name)) for name in work.mart.key]
    text = "SELECT ARRAY[{}] AS args FROM (SELECT * FROM {} LIMIT {}) AS m"
    query = sql.SQL(text).format(COMMA.join(names), work.mart.identifier, sql.Literal(size))
    row = execute(conn, query).fetchone()
    args: list[str | None] = row["args"] if row else []
    return args if args and args[0] is not None else []

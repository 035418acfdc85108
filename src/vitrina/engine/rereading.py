"""How the query is read for some keys: the cheapest of several ways, by the planner's costs."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from psycopg import sql

from vitrina.engine.job import ask
from vitrina.engine.work import Work
from vitrina.meta.db import Connection
from vitrina.sql.live.recompute import PARAMETER, Recompute, Way, choose_recompute, inside, outside, ways
from vitrina.sql.live.ties import Tie

FEW, MANY = 1, 5_000  # keys, for which a way is chosen
EMPTY = 0  # without any key in the mart there is nothing to choose by
KEEP_SECONDS = 600.0  # a choice holds for this long: tables grow, and bursts are many
COMMA = sql.SQL(", ")
_chosen: dict[UUID, tuple[str, float, Recompute]] = {}  # by pipeline: for which meaning, until when


@dataclass(frozen=True)
class Rereading:
    """The ways of one query, and which of them to take."""

    work: Work
    ties: Sequence[Tie]
    recompute: Recompute

    @classmethod
    def choose(cls, work: Work, ties: Sequence[Tie], meaning: str, conn: Connection) -> "Rereading":
        """By what reading a few keys of the mart would cost now; `meaning` changes when the query means otherwise."""
        known, until, recompute = _chosen.get(work.job.pipeline_id, ("", 0.0, Recompute({})))
        if known != meaning or time.monotonic() > until:
            recompute = _choose(work, ties, conn)
            if recompute.ways.keys() - {EMPTY}:
                _keep(work.job.pipeline_id, meaning, recompute)
        return cls(work, ties, recompute)

    def query(self, keys: int) -> sql.Composed:
        """For about so many keys, which are given in $1: one array literal a key column."""
        return self.recompute.way(keys).query

    def query_with(self, args: Sequence[str | None], keys: int) -> sql.Composed:
        """The same with the keys written out, for COPY, which takes no parameters."""
        written = sql.SQL("{}::text[]").format(sql.Literal(list(args)))
        name = self.recompute.way(keys).name
        return next(way.query for way in _ways(self.work, self.ties, written) if way.name == name)


def _keep(pipeline_id: UUID, meaning: str, recompute: Recompute) -> None:
    """One choice a pipeline; those that hold no longer go, since the pipeline may be gone too."""
    now = time.monotonic()
    for other, (_, until, _) in list(_chosen.items()):
        if until < now:
            _chosen.pop(other, None)
    _chosen[pipeline_id] = (meaning, now + KEEP_SECONDS, recompute)


def _choose(work: Work, ties: Sequence[Tie], conn: Connection) -> Recompute:
    reader, found = work.job.reader, _ways(work, ties, PARAMETER)
    samples = {size: args for size in (FEW, MANY) for args in [_some_keys(work, size, conn)] if args[0] is not None}
    if not samples:
        return Recompute({EMPTY: found[0]})
    return choose_recompute(lambda query, args: reader.cost(query, args)[0], found, work.query.whole(), samples)


def _ways(work: Work, ties: Sequence[Tie], args: sql.Composable) -> list[Way]:
    """Restrictions around what is read, and one put into the user's own SELECT before documents are built from it."""
    job, key = work.job, work.mart.key
    found = ways(job.select, job.columns, key, (), args)
    restricted = inside(job.plan.select, job.columns, key, ties, args)
    if restricted:
        select, columns = job.writer.read(restricted, job.columns)
        found.append(Way("inside", outside(select, columns, key, args)))
    return found


def _some_keys(work: Work, size: int, conn: Connection) -> list[str | None]:
    names = [sql.Identifier(name) for name in work.mart.key]
    arrays = COMMA.join(sql.SQL("array_agg(k.{})::text").format(name) for name in names)
    text = sql.SQL("SELECT ARRAY[{}] AS args FROM (SELECT {} FROM {} LIMIT {}) AS k")
    [row] = ask(conn, work.mart, text.format(arrays, COMMA.join(names), work.mart.identifier, sql.Literal(size)))
    return list(row["args"])

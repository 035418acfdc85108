"""Keys that differed when a range was read, until it is known whether a change explains it.

A row differs, and the mart has every change up to its position. Whatever was visible when the row was read is in the
log up to some later id. If no change between the two touches the key, the query gave the same for it at the position
already: the mart was wrong. If one does, the key is converged with that change, and nothing is said.
"""

import time
from dataclasses import dataclass, field
from typing import Any

from psycopg import sql

from vitrina.capture.moments import Moment
from vitrina.engine.job import execute, fetch
from vitrina.engine.live.ranges import KeyRange
from vitrina.engine.mart import Mart
from vitrina.engine.pieces import COMMA, unnested
from vitrina.meta.db import Connection
from vitrina.meta.repos.captures import Capture

NAMED = 5
PATIENCE_SECONDS = 30.0  # for the log to come to where a range was read; a capture that stands still is no proof


@dataclass
class Suspects:
    """Of one range: arrays, one a key column, in the mart's types."""

    range: KeyRange
    rows: int
    args: list[str | None]
    count: int
    moment: Moment
    until: int | None = None  # the id that the follower has to have reached, once it is known
    deadline: float = field(default_factory=lambda: time.monotonic() + PATIENCE_SECONDS)

    def look_at(self, capture: Capture) -> None:
        """Has the log come to the moment at which the range was read?"""
        if self.until is None and self.moment.is_passed(capture):
            self.until = capture.last_id

    def explain(self, conn: Connection, touched: sql.Composable) -> None:
        """A change touches these keys: what they differ in is its business."""
        mart = self.range.mart
        text = "SELECT ARRAY[{}] AS args, count(*) AS keys FROM {} AS s WHERE NOT EXISTS (SELECT FROM {} AS t WHERE {})"
        arrays = COMMA.join(sql.SQL("array_agg(s.{})::text").format(sql.Identifier(name)) for name in mart.key)
        left = sql.SQL(text).format(arrays, as_keys(mart, self.args), touched, mart.same_key("s", "t"))
        row = fetch(conn, left)
        self.args, self.count = list(row["args"]), int(row["keys"])

    def named(self, conn: Connection) -> list[dict[str, Any]]:
        """A few of them, for people."""
        mart = self.range.mart
        shown = COMMA.join(sql.SQL("s.{0}::text AS {0}").format(sql.Identifier(name)) for name in mart.key)
        text = sql.SQL("SELECT {} FROM {} AS s LIMIT {}").format(shown, as_keys(mart, self.args), sql.Literal(NAMED))
        return execute(conn, text).fetchall()


def as_keys(mart: Mart, args: list[str | None]) -> sql.Composed:
    """Keys in arrays, as what can stand after FROM."""
    typed = [sql.SQL("{}::{}[]").format(sql.Literal(a), sql.SQL(mart.types[k]))
             for k, a in zip(mart.key, args, strict=True)]  # fmt: skip
    return unnested(typed, mart.key)

"""What a run changes, a few rows of it, with what stood there before and after: for people, where it is asked for.

One statement tells both: what it gives back of the rows that it writes is new, and what it reads of the mart is old.
"""

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from psycopg import sql

from vitrina.domain.wording import Json
from vitrina.engine.pieces import COMMA, column_of, shown

RENEWED_SECONDS = 3600.0  # a long run, and who follows for ever, tells of each hour
MOST_COLUMNS = 20  # of a row
CUT = "… ("  # in a value that is longer than is shown


@dataclass
class Changes:
    """Of one claim. They are taken, step by step, by whoever commits."""

    most: int
    key: tuple[str, ...] = ()
    kept: Counter[bool] = field(default_factory=Counter)  # of rows that are written, and of rows that are removed
    waiting: list[dict[str, Json]] = field(default_factory=list)
    since: float = field(default_factory=time.monotonic)

    @property
    def left(self) -> int:
        """So many more are wanted, of the one or the other."""
        if time.monotonic() - self.since >= RENEWED_SECONDS:
            self.kept, self.since = Counter(), time.monotonic()
        return self.most - min(self.kept[True], self.kept[False])

    def add(self, row: Mapping[str, Any]) -> None:
        """What a statement has told."""
        for before, after in [*(row.get("changed") or ()), *(row.get("removed") or ())]:
            if self.kept[after is None] < self.most:
                self.kept[after is None] += 1
                self.waiting.append(_change(self.key, before, after))

    def forget(self) -> None:
        """What was told was not committed."""
        self.kept.subtract(change["after"] is None for change in self.waiting)
        self.waiting = []

    def take(self) -> list[Json]:
        """Those since they were taken last."""
        found: list[Json] = [*self.waiting]
        self.waiting = []
        return found


def _change(
    key: Sequence[str], before: Mapping[str, str | None] | None, after: Mapping[str, str | None] | None
) -> dict[str, Json]:
    """The key, and of a row that stays only the columns that differ, also where that is beyond the cut."""
    whole = after or before or {}
    names = [name for name in whole if name not in key]
    if before is not None and after is not None:
        differing = [name for name in names if before[name] != after[name]]
        names = differing or [name for name in names if CUT in (after[name] or "")]
    sides = [side and {name: side[name] for name in names[:MOST_COLUMNS]} for side in (before, after)]
    return {"key": {name: whole[name] for name in key}, "before": sides[0], "after": sides[1]}


def image(alias: str, names: Sequence[str]) -> sql.Composed:
    """A row of an alias as text, by column."""
    values = COMMA.join(shown(column_of(alias, name)) for name in names)
    text = "pg_catalog.jsonb_object({}::text[], ARRAY[{}]::text[])"
    return sql.SQL(text).format(sql.Literal(list(names)), values)


def changed(mart: sql.Composable, same_key: sql.Composable, key: str, names: Sequence[str], most: int) -> sql.Composed:
    """So many of the rows in `put`, each with what the mart had in its place as the statement began, if anything."""
    text = """,
        (SELECT pg_catalog.jsonb_agg(pg_catalog.jsonb_build_array(CASE WHEN m.{} IS NOT NULL THEN {} END, {}))
         FROM (SELECT * FROM put LIMIT {}) AS p LEFT JOIN {} AS m ON {}) AS changed"""
    sides = image("m", names), image("p", names)
    return sql.SQL(text).format(sql.Identifier(key), *sides, sql.Literal(most), mart, same_key)


def removed(names: Sequence[str], most: int) -> sql.Composed:
    """So many of the rows in `gone`."""
    text = """,
        (SELECT pg_catalog.jsonb_agg(pg_catalog.jsonb_build_array({}, NULL))
         FROM (SELECT * FROM gone LIMIT {}) AS g) AS removed"""
    return sql.SQL(text).format(image("g", names), sql.Literal(most))

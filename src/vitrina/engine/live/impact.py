"""From a slice of changes to the keys of the mart that they touch."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256
from typing import TypeAlias

from psycopg import sql

from vitrina.capture.identity import identity_columns
from vitrina.domain.errors import ConfigError
from vitrina.domain.findings import Code
from vitrina.domain.reasons import Reason
from vitrina.domain.wording import Because
from vitrina.engine.filling import copy_across
from vitrina.engine.job import write
from vitrina.engine.live.feed import Slice
from vitrina.engine.query import QueryText
from vitrina.engine.rereading import Rereading
from vitrina.engine.stage import KeySegment
from vitrina.engine.work import Work
from vitrina.meta.db import Connection, transaction
from vitrina.meta.repos.captures import Capture
from vitrina.sources.source import Source
from vitrina.sql.describe import Column
from vitrina.sql.live import LiveView, Occurrence, understand
from vitrina.sql.tree import rewritten_tree

COMMA = sql.SQL(", ")
Keys: TypeAlias = tuple[list[str | None], int]
"""Arrays, one a key column, and how many keys; more than a transaction takes means that they are not in the arrays."""


@dataclass(frozen=True)
class Impact:
    """What a change of each table means for one mart, as its source is captured."""

    work: Work
    view: LiveView
    meaning: str  # of the query; another one: a view or function that it reads through was replaced
    reading: Rereading

    @classmethod
    def of(cls, work: Work, capture: Capture, conn: Connection) -> "Impact":
        """The query understood; a table whose old rows are not told well enough refreshes everything."""
        reader, plan = work.job.reader, work.job.plan
        view = understand(*reader.catalogue, plan.select, work.mart.key, plan.impact)
        if capture.kind == "wal":
            known = identity_columns(reader.catalogue.conn, view.tables)
            view = replace(view, occurrences=tuple(as_captured(o, known.get(o.table, ())) for o in view.occurrences))
        meaning = _meaning(reader, plan.select)
        return cls(work, view, meaning, Rereading.choose(work, view.ties, meaning, conn))

    @property
    def tables(self) -> tuple[str, ...]:
        """That have to be captured."""
        return self.view.tables

    @cached_property
    def columns(self) -> dict[str, list[str]]:
        """Of each table, those that decide which keys a change touches: nothing else of an image is looked at."""
        found: dict[str, set[str]] = {table: set() for table in self.tables}
        for occurrence in self.view.occurrences:
            found[occurrence.table] |= set(occurrence.columns)
        return {table: sorted(names) for table, names in found.items()}

    @cached_property
    def key_in_row(self) -> dict[str, list[Column]]:
        """The tables of whose changes only the key is wanted: which columns that is, in the order of the mart's key."""
        uses = Counter(occurrence.table for occurrence in self.view.occurrences)
        told = {o.table: dict(zip(o.key, o.key_in_row, strict=True)) for o in self.view.occurrences if o.key_in_row}
        whole = {table: columns for table, columns in told.items() if columns.keys() == set(self.work.mart.key)}
        return {t: [columns[k] for k in self.work.mart.key] for t, columns in whole.items() if uses[t] == 1}

    def why_everything(self, found: Slice) -> Because | None:
        """Why a slice may touch any key; None when it touches those that can be told."""
        upheaval = found.upheaval()
        if upheaval:
            return Reason.UPHEAVAL.of(table=upheaval)
        if not self.work.mart.pushable:
            return Reason.KEY_OF_ANOTHER_TYPE.of()
        if self.reading.recompute.reason:
            return self.reading.recompute.reason
        for occurrence in self._concerned(found):
            if occurrence.verdict == "everything":
                return occurrence.reason
            if found.told[occurrence.table].lacks:
                return Reason.LARGE_VALUE_UNTOLD.of(table=occurrence.table)
        return None

    def keys_of(self, found: Slice, limit: int) -> tuple[Keys, str]:
        """The keys that a slice touches, as far as they are few; or why it may touch any.

        An impact query also reads rows that the query itself leaves out, and may fail on one of them.
        """
        if why := self.why_everything(found):
            return ([], 0), why
        try:
            return self.few_keys(found, limit), ""
        except ConfigError as error:
            return ([], 0), Reason.KEYS_UNTOLD.of(error=error.message)

    def few_keys(self, found: Slice, limit: int) -> Keys:
        """The keys as arrays, if there are no more than `limit` and they are whole; else a count above it."""
        if any(self._is_partial(occurrence) for occurrence in self._concerned(found)):
            return [], limit + 1
        if len(found.told) == 1 and (told := next(iter(found.told.values()))).keys:
            return list(told.keys), told.rows
        names = [sql.SQL("array_agg(k.{})::text").format(sql.Identifier(name)) for name in self.work.mart.key]
        text = "SELECT ARRAY[{}] AS args, count(*) AS keys FROM ({} LIMIT {}) AS k"
        query = sql.SQL(text).format(COMMA.join(names), self._whole_keys(found), sql.Literal(limit + 1))
        row = self.work.job.reader.fetch(query)[0]
        return list(row["args"]), int(row["keys"])

    def keep_keys(self, found: Slice, keys: KeySegment, conn: Connection) -> None:
        """All of them, in a segment; one may come twice."""
        reader = self.work.job.reader
        if any(not self._is_partial(occurrence) for occurrence in self._concerned(found)):
            kept = sql.SQL("SELECT 'u'::\"char\", k.* FROM ({}) AS k").format(self._whole_keys(found))
            copy_across(reader, kept, keys, conn)
        for occurrence in self._concerned(found):
            if self._is_partial(occurrence):
                self._keep_expanded(occurrence, found, keys, conn)

    def _concerned(self, found: Slice) -> Iterator[Occurrence]:
        return (occurrence for occurrence in self.view.occurrences if occurrence.table in found.told)

    def _is_partial(self, occurrence: Occurrence) -> bool:
        return set(occurrence.key) != set(self.work.mart.key)

    def _whole_keys(self, found: Slice) -> sql.Composed:
        """Each key once, in the mart's types."""
        mart = self.work.mart
        selects = [
            sql.SQL("SELECT {} FROM ({}) AS i").format(
                self._cast("i", mart.key), occurrence.impact(found.images(occurrence.table))
            )
            for occurrence in self._concerned(found)
            if not self._is_partial(occurrence)
        ]
        return sql.SQL("SELECT DISTINCT * FROM ({}) AS u").format(sql.SQL(" UNION ALL ").join(selects))

    def _cast(self, alias: str, names: Sequence[str]) -> sql.Composed:
        types = self.work.mart.types
        values = [
            sql.SQL("CAST({}.{} AS {}) AS {}").format(
                sql.SQL(alias), sql.Identifier(name), sql.SQL(types[name]), sql.Identifier(name)
            )
            for name in names
        ]
        return COMMA.join(values)

    # ── parts of keys ────────────────────────────────────────────────────────────────────────────────────────

    def _keep_expanded(self, occurrence: Occurrence, found: Slice, keys: KeySegment, conn: Connection) -> None:
        """Only a part of the key is told: every key of the query and of the mart with that part is touched."""
        part = tuple(name for name in self.work.mart.key if name in occurrence.key)
        names = [sql.SQL("array_agg(DISTINCT i.{})::text").format(sql.Identifier(name)) for name in part]
        if len(part) > 1:
            names = [sql.SQL("array_agg(i.{})::text").format(sql.Identifier(name)) for name in part]
        text = sql.SQL("SELECT ARRAY[{}] AS args FROM ({}) AS i").format(
            COMMA.join(names), occurrence.impact(found.images(occurrence.table))
        )
        args = self.work.job.reader.fetch(text)[0]["args"]
        if args[0] is None:
            return
        job = self.work.job
        query = QueryText(job.select, job.columns, part).with_args(args).by_keys()
        kept = sql.SQL("SELECT 'u'::\"char\", {} FROM ({}) AS q").format(self._cast("q", self.work.mart.key), query)
        copy_across(job.reader, kept, keys, conn)
        self._keep_from_mart(part, list(args), keys, conn)

    def _keep_from_mart(self, part: Sequence[str], args: list[str], keys: KeySegment, conn: Connection) -> None:
        mart = self.work.mart
        arrays = [
            sql.SQL("($1::text[])[{}]::{}[]").format(sql.SQL(str(number)), sql.SQL(mart.types[name]))
            for number, name in enumerate(part, 1)
        ]
        text = "INSERT INTO {} (vitrina_kind, {}) SELECT 'u', {} FROM {} AS m WHERE ({}) IN (SELECT * FROM unnest({}))"
        columns = COMMA.join(map(sql.Identifier, mart.key))
        wanted = COMMA.join(sql.SQL("m.{}").format(sql.Identifier(name)) for name in part)
        parts = (keys.identifier, columns, columns, mart.identifier, wanted, COMMA.join(arrays))
        write(conn, mart, sql.SQL(text).format(*parts), [args])


def _meaning(reader: Source, select: str) -> str:
    """What a query means, in brief."""
    with transaction(*reader.catalogue, read_only=True) as conn:
        return sha256(rewritten_tree(conn, select).encode()).hexdigest()[:16]


def as_captured(occurrence: Occurrence, known: Sequence[str]) -> Occurrence:
    """The verdict, given the columns whose old values the source tells."""
    missing = sorted(set(occurrence.columns) - set(known))
    if occurrence.verdict == "everything" or not missing:
        return occurrence
    data = {"table": occurrence.table, "columns": missing}
    return replace(occurrence, code=Code.OLD_VALUE_UNTOLD, data=data, key=(), columns=(), key_in_row=())

"""Reading a Postgres source: always in READ ONLY transactions, as the reader."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import islice
from typing import Any, Self

import psycopg
from psycopg import sql
from psycopg.rows import dict_row

from vitrina.domain.findings import Finding
from vitrina.domain.positions import Place
from vitrina.meta.db import (
    Connection,
    cancel,
    describe_prepared,
    fetch_all,
    prepare,
    transaction,
    translated,
)
from vitrina.meta.repos.clock import Clock
from vitrina.sources.postgres.continuity import take_place, why_behind
from vitrina.sources.postgres.granting import naming_grants
from vitrina.sources.postgres.horizon import SQL as HORIZON
from vitrina.sources.postgres.horizon import take_horizon
from vitrina.sources.postgres.sight import list_tables, take_sight
from vitrina.sources.sight import Seen, Sight
from vitrina.sources.source import Catalogue, Estimate, Horizon, Source
from vitrina.sql.dependencies import SETTINGS
from vitrina.sql.describe import Column, describe
from vitrina.sql.guard import check_select
from vitrina.sql.reads import relations_read
from vitrina.sql.vet import called
from vitrina.transforms import Row
from vitrina.transforms.frames import Batch
from vitrina.transforms.rows import python_forms, register_loaders


@dataclass(frozen=True)
class PostgresReader(Source):
    """One session at a source: it does all that `Source` names."""

    conn: Connection
    settings: Mapping[str, str]

    @property
    def is_lost(self) -> bool:
        return self.conn.broken

    @property
    def catalogue(self) -> Catalogue:
        return Catalogue(self.conn, self.settings)

    def close(self) -> None:
        self.conn.close()

    def cancel(self) -> None:
        cancel(self.conn)

    def version(self) -> str:
        return str(fetch_all(self.conn, "SELECT current_setting('server_version') AS version")[0]["version"])

    def judge(self, select: str, *, schemas: Collection[str], functions: Collection[str] = ()) -> list[Finding]:
        plain = check_select(select, schemas)
        with naming_grants(self.conn, self.name):
            return called(self.conn, self.settings, plain, schemas=schemas, functions=functions)

    def reads(self, select: str) -> list[str]:
        return relations_read(self.conn, self.settings, select)

    def describe(self, select: str) -> list[Column]:
        with self._reading():
            return describe(self.conn, select)

    def estimate(self, select: str) -> Estimate:
        plan = self.plan(sql.SQL(select))
        return Estimate(plan["Plan Rows"], plan["Plan Width"])

    def rows(self, select: str, size: int) -> Iterator[Batch]:
        return self.text_batches(sql.SQL(select), size)

    def sight(self, schemas: Collection[str], capturer: str | None, setting: str) -> Sight:
        return take_sight(self.conn, schemas, capturer, setting)

    def tables(self, schemas: Collection[str], limit: int) -> Seen:
        return list_tables(self.conn, schemas, limit)

    def own_settings(self) -> dict[str, str]:
        """What changes results and is this role's own: a statement of another role that lends the query its session, to
        write what it gives, has to run with the same."""
        if not self.abilities.is_local:
            return {}
        rows = fetch_all(self.conn, "SELECT n, current_setting(n) AS v FROM unnest(%s::text[]) AS n", [list(SETTINGS)])
        return {row["n"]: row["v"] for row in rows}

    def within(self, seconds: float) -> Self:
        return replace(self, settings={**self.settings, "statement_timeout": f"{int(seconds * 1000)}ms"})

    def plan(self, query: sql.Composable, args: Sequence[str | None] = ()) -> dict[str, Any]:
        text = (sql.SQL("EXPLAIN (FORMAT JSON) ") + query).as_bytes(self.conn)
        with self._reading():
            row = self._execute(text, args).fetchone()
        assert row is not None
        plan: dict[str, Any] = row["QUERY PLAN"][0]["Plan"]
        return plan

    def cost(self, query: sql.Composable, args: Sequence[str | None] = ()) -> tuple[float, float]:
        plan = self.plan(query, args)
        return plan["Total Cost"], plan["Plan Rows"]

    @contextmanager
    def copy_out(self, query: sql.Composable, copy_format: str) -> Iterator[psycopg.Copy]:
        command = sql.SQL("COPY ({}\n) TO STDOUT (FORMAT {})").format(query, sql.SQL(copy_format))
        with self._reading():
            self._refuse_several(command)
            with self.conn.cursor().copy(command) as copy:
                yield copy

    def text_batches(self, query: sql.Composable, size: int) -> Iterator[Batch]:
        with self._reading():
            names, types = self._described(query)
        with self.copy_out(query, "text") as copy:
            lines = iter(copy)
            while some := list(islice(lines, size)):
                yield Batch.joined(names, types, some)

    def fetch(self, query: sql.Composable, args: Sequence[str | None] = ()) -> list[Row]:
        with self._reading(), python_forms():
            return self._execute(query.as_bytes(self.conn), args).fetchall()

    # ── how far its rows are final ───────────────────────────────────────────────────────────────────────────

    def horizon(self, margin: timedelta) -> Horizon:
        return take_horizon(self.conn, margin)

    def naive(self, at: datetime) -> str:
        return str(fetch_all(self.conn, HORIZON["naive_bound"], {"at": at})[0]["bound"])

    def now(self) -> datetime:
        at: datetime = fetch_all(self.conn, HORIZON["clock"])[0]["now"]
        return at

    def place(self, clock: Clock) -> Place:
        return take_place(self.conn, clock)

    def why_behind(self, before: Place, now: Place) -> str:
        return why_behind(now, before, is_local=self.abilities.is_local)

    # ── reading ──────────────────────────────────────────────────────────────────────────────────────────────

    def _execute(self, query: bytes, args: Sequence[str | None]) -> psycopg.RawCursor[Row]:
        # Parameters, or binary results, mean the extended protocol, which takes one statement only.
        cursor = psycopg.RawCursor(self.conn, row_factory=dict_row)
        register_loaders(cursor.adapters)
        return cursor.execute(query, [list(args)] if args else None, binary=not args)

    def _described(self, query: sql.Composable) -> tuple[list[str], list[int]]:
        prepare(self.conn, query.as_bytes(self.conn))
        result = describe_prepared(self.conn)
        every = range(result.nfields)
        return [(result.fname(n) or b"").decode() for n in every], [result.ftype(n) for n in every]

    def _refuse_several(self, command: sql.Composed) -> None:
        """COPY goes by the simple protocol, which would run several statements; preparing it takes one only."""
        prepare(self.conn, command.as_bytes(self.conn))

    @contextmanager
    def _reading(self) -> Iterator[None]:
        with naming_grants(self.conn, self.name), translated(), transaction(self.conn, self.settings, read_only=True):
            yield

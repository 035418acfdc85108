"""A mart as the engine sees it: a keyed relation of the warehouse that fits its query."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field

import psycopg
from psycopg import sql

from vitrina.engine.holding import held
from vitrina.engine.sealing import Seal
from vitrina.engine.stage import copy_in
from vitrina.meta.db import Connection
from vitrina.sql.describe import Column, operator

STAMP = "updated_at"  # a mart-only column of this name says when a row was last written
VARYING = re.compile(r"((?:character|bit) varying)\(\d+\)")


@dataclass(frozen=True)
class Mart:
    """A mart that fits its query: `columns` are written, in the mart's types, the rest is left alone."""

    schema: str
    table: str
    key: tuple[str, ...]
    columns: tuple[Column, ...]  # the query's columns that are written
    types: Mapping[str, str]  # of the mart
    collations: Mapping[str, str | None]
    stamped: bool
    pushable: bool  # keys compare the same way in the query and in the mart
    operators: Mapping[str, str] = field(default_factory=dict)  # the schema of a column's `=`, unless pg_catalog
    seal: Seal | None = None  # of a mart that brings code of somebody's own along
    watched: "Wanted | None" = None  # of one that brings none, and belongs to somebody else: code may be added
    is_new: bool = False  # this run has made it
    is_asked_by_row: bool = False  # statements tell the keys that they wrote, for checks

    @property
    def identifier(self) -> sql.Identifier:
        """Its name, quoted."""
        return sql.Identifier(self.schema, self.table)

    def equals(self, column: str) -> sql.Composed:
        """The `=` of a column, by its schema: by name alone, somebody else's might fit better."""
        return operator(self.operators.get(column, "pg_catalog"), "=")

    def same_key(self, left: str, right: str) -> sql.Composed:
        """Whether two aliases have the same key."""
        return sql.SQL(" AND ").join(
            sql.SQL("{}.{} {} {}.{}").format(sql.SQL(left), name, self.equals(k), sql.SQL(right), name)
            for k in self.key
            for name in [sql.Identifier(k)]
        )

    def takes(self, columns: Sequence[Column]) -> bool:
        """Whether rows of these columns can go into it as they are: nothing is cast, left out or stamped."""
        same = all(self.types[c.name] == c.type for c in self.columns)
        return same and tuple(columns) == self.columns and not self.stamped and self.seal is None

    @contextmanager
    def copy_in(self, conn: Connection, copy_format: str) -> Iterator[psycopg.Copy]:
        """COPY into the columns that are written."""
        names = [c.name for c in self.columns]
        with self.held(conn), copy_in(conn, self.identifier, names, copy_format) as copy:
            yield copy

    def held(self, conn: Connection) -> AbstractContextManager[None]:
        """For a statement: of a mart of somebody else's, no code is added to it meanwhile."""
        return held(conn, self.watched.target, self.watched.trusted) if self.watched else nullcontext()

    def cast(self, column: str, value: sql.Composable, query_type: str) -> sql.Composable:
        """A value of the query in the type (and, for keys, the collation) of the mart.

        Never to a shorter text: an explicit cast would cut silently where the INSERT itself refuses.
        """
        mart_type = self.types[column]
        if mart_type != query_type:
            value = sql.SQL("CAST({} AS {})").format(value, sql.SQL(without_length(mart_type)))
        collation = self.collations.get(column)
        if collation and column in self.key:
            value = sql.SQL("({} COLLATE {})").format(value, sql.SQL(collation))
        return value


@dataclass(frozen=True)
class Wanted:
    """What a pipeline wants of its mart."""

    target: str
    columns: Sequence[Column]
    key: Sequence[str]
    on_drift: str
    unwritten: Sequence[str] = ()  # columns that an existing mart may lack: the cursor
    written_before: Mapping[str, str] = field(default_factory=dict)  # columns of earlier runs, and their types
    trusted: Sequence[str] = ()  # roles whose code may run as the mart is written
    scratch: str = ""  # what the names of the run's scratch tables end with


def without_length(type_: str) -> str:
    """A type that takes values of any length."""
    return VARYING.sub(r"\1", type_)

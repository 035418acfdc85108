"""Filling a stage, or an empty mart: bytes from COPY to COPY, or rows through the transforms."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

import psycopg
from psycopg import sql

from vitrina.adapters.documents import write_json, write_json_array
from vitrina.adapters.job import Job
from vitrina.adapters.readers.postgres import PostgresReader
from vitrina.meta.db import Connection
from vitrina.sql.describe import Column
from vitrina.transforms import Row

JSON_TYPES = {"json": write_json, "jsonb": write_json, "json[]": write_json_array, "jsonb[]": write_json_array}


class Target(Protocol):
    """A table that takes COPY."""

    @property
    def columns(self) -> tuple[Column, ...]:
        """With their types."""
        ...

    def copy_in(self, conn: Connection, copy_format: str) -> AbstractContextManager[psycopg.Copy]:
        """COPY into them."""
        ...


def copy_across(reader: PostgresReader, query: sql.Composable, target: Target, conn: Connection) -> int:
    """Stream a query's result into a table without looking at it; how many rows.

    Binary where both sides read the same bytes: one server, or types that every server has.
    """
    same_bytes = reader.is_local or all(c.builtin for c in target.columns)
    copy_format = "binary" if same_bytes else "text"
    with reader.copy_out(query, copy_format) as rows_out, target.copy_in(conn, copy_format) as rows_in:
        for block in rows_out:
            rows_in.write(block)
    return max(rows_in.cursor.rowcount, 0)


def transform_across(job: Job, query: sql.Composable, target: Target, conn: Connection) -> tuple[int, int]:
    """Read rows, put them through the transforms a batch at a time, and write what comes out; how many were what."""
    assert job.transformer is not None
    read = 0
    with target.copy_in(conn, "text") as copy:
        for rows in job.reader.batches(query, job.batch_size):
            job.check()
            read += len(rows)
            write_rows(copy, job.transformer.apply(rows), job.transformer.columns)
    return read, max(copy.cursor.rowcount, 0)


def write_rows(copy: Any, rows: list[Row], columns: Sequence[Column]) -> None:
    """Rows as COPY text; what goes into a json column is written as JSON."""
    writers = {c.name: JSON_TYPES[c.type] for c in columns if c.type in JSON_TYPES}
    names = [c.name for c in columns]
    for row in rows:
        values = row | {name: write(row[name]) for name, write in writers.items()} if writers else row
        copy.write_row([values[name] for name in names])

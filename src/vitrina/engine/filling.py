"""Filling a stage, or an empty mart: bytes from COPY to COPY, or rows, through the transforms if there are any."""

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

import psycopg
from psycopg import sql

from vitrina.domain.errors import ConfigError
from vitrina.engine.job import Job
from vitrina.meta.db import SEARCH_PATH, Connection
from vitrina.sources.source import Source
from vitrina.sql.describe import Column
from vitrina.transforms.frames import Batch

FIND_AS_THE_QUERY = """SELECT set_config('search_path', coalesce(current_setting('vitrina.search_path', true),
                                                                current_setting('search_path')), true)"""
COLUMN = re.compile(r"line \d+, column (.+?)(?:: .*)?$", re.DOTALL)  # in the context of an error of COPY
FIND_AS_EVER = "SELECT set_config('search_path', %s, true)"


class Target(Protocol):
    """A table that takes COPY."""

    @property
    def columns(self) -> tuple[Column, ...]:
        """With their types."""
        ...

    def copy_in(self, conn: Connection, copy_format: str) -> AbstractContextManager[psycopg.Copy]:
        """COPY into them."""
        ...


def copy_across(reader: Source, query: sql.Composable, target: Target, conn: Connection) -> int:
    """Stream a query's result into a table without looking at it; how many rows.

    Binary where both sides read the same bytes: one server, or types that every server has.
    """
    same_bytes = reader.abilities.is_local or all(c.builtin for c in target.columns)
    copy_format = "binary" if same_bytes else "text"
    with (
        reader.copy_out(query, copy_format) as rows_out,
        _read_as_written(conn, copy_format),
        target.copy_in(conn, copy_format) as rows_in,
    ):
        for block in rows_out:
            rows_in.write(block)
    return max(rows_in.cursor.rowcount, 0)


@contextmanager
def _read_as_written(conn: Connection, copy_format: str) -> Iterator[None]:
    """As text, names of objects (regclass and the like) are written as the query finds them, and have to be found so
    again. COPY calls nothing but input functions, so nobody's code is found there."""
    if copy_format != "text":
        yield
        return
    conn.execute(FIND_AS_THE_QUERY)
    yield
    conn.execute(FIND_AS_EVER, [SEARCH_PATH])


def copy_blocks(job: Job, target: Target, conn: Connection) -> int:
    """All that a source gives in the form of COPY, of the types of the target; how many rows. A value that the server
    refuses is told of by its column."""
    try:
        with target.copy_in(conn, "binary") as copy:
            for block in job.reader.blocks(job.select):
                job.check()
                copy.write(block)
    except (psycopg.DataError, ConfigError) as error:
        raise _of_column(error) from error
    return max(copy.cursor.rowcount, 0)


def _of_column(error: Exception) -> Exception:
    cause = error if isinstance(error, psycopg.DataError) else error.__cause__
    if not isinstance(cause, psycopg.DataError) or not (found := COLUMN.search(cause.diag.context or "")):
        return error
    said = f"column {found[1]} has a value that Postgres refuses: {cause.diag.message_primary}"
    return ConfigError(said, "filter it out, or convert it in the query")


def write_across(job: Job, batches: Iterable[Batch], target: Target, conn: Connection) -> tuple[int, int]:
    """Write rows a batch at a time, through the transforms if there are any; how many were read and written."""
    with target.copy_in(conn, "text") as copy:
        read = job.transforming.stream(copy, batches) if job.transforming else _write(copy, batches, job.check)
    return read, max(copy.cursor.rowcount, 0)


def _write(copy: psycopg.Copy, batches: Iterable[Batch], check: Callable[[], None]) -> int:
    read = 0
    for batch in batches:
        check()
        copy.write(batch.text)
        read += batch.size
    return read

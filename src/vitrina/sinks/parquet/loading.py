"""A load: all rows of the query, as COPY sends them, into files; and what tells them apart into the shadow beside."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import psycopg
import pyarrow as pa
import pyarrow.csv
from psycopg import sql

from vitrina.engine.job import execute
from vitrina.engine.mart import Mart
from vitrina.engine.query import QueryText
from vitrina.engine.stage import copy_in
from vitrina.meta.db import Connection, translated
from vitrina.sinks.documents.statements import HASH
from vitrina.sinks.documents.statements import VERSION as VERSION_COLUMN
from vitrina.sinks.parquet.parsing import Text, with_more
from vitrina.sinks.parquet.writer import VERSION, RowWriter
from vitrina.sources.source import Source

CHUNK_BYTES = 2_000_000  # of text, that is read while the one before becomes a part of a file
UNKEYED, KEYED = "ALTER TABLE {} DROP CONSTRAINT {}", "ALTER TABLE {} ADD PRIMARY KEY ({})"
UNSEEN = pyarrow.csv.WriteOptions(include_header=False)


class Files(Protocol):
    """What becomes of the rows."""

    def add(self, rows: Any) -> None:
        """Some of them."""

    def close(self) -> Sequence[Any]:
        """The files, once all are in."""


@dataclass(frozen=True)
class RowLoader:
    """See `Loader`. The reader's session, the runner's and a thread for files work at once; a few chunks are held."""

    writer: RowWriter
    types: Any  # of the columns, as Arrow
    open_files: Callable[[], AbstractContextManager[Files]]
    reaching: Callable[[], AbstractContextManager[None]]

    def load(self, reader: Source, query: QueryText, mart: Mart, conn: Connection, check: Callable[[], None]) -> int:
        """Everything; how many rows."""
        statement = self.writer.statements(mart).streamed(query)
        with (
            reader.copy_out(statement, "csv") as rows,
            _shadow(mart, conn) as shadow,
            self.open_files() as files,
            ThreadPoolExecutor(1, "files") as aside,
        ):
            chunks = _chunks(rows, check)
            for lines in _one_ahead(aside, (partial(self._keep, files, mart, chunk) for chunk in chunks)):
                shadow.write(lines)
            self.writer.changes.files += aside.submit(self._close, files).result()
        return max(shadow.cursor.rowcount, 0)

    def _keep(self, files: Files, mart: Mart, chunk: bytes) -> Any:
        """Some rows; what the shadow is to know of them, as CSV."""
        beside = [f"vitrina_key_{number}" for number in range(len(mart.key))]
        text = Text(chunk, is_records=False)
        shape = self.writer.shape
        rows, more = with_more(shape, text, shape.names, self.types, [*beside, HASH])
        with self.reaching():
            files.add(rows)
        return _as_csv(more)

    def _close(self, files: Files) -> Any:
        with self.reaching():
            return files.close()


def _chunks(rows: Iterable[bytes | bytearray | memoryview], check: Callable[[], None]) -> Iterator[bytes]:
    """Whole rows, many at a time."""
    some = bytearray()
    for row in rows:
        some += row
        if len(some) >= CHUNK_BYTES:
            check()
            yield bytes(some)
            some.clear()
    if some:
        yield bytes(some)


def _one_ahead(aside: ThreadPoolExecutor, calls: Iterable[Callable[[], Any]]) -> Iterator[Any]:
    """What calls give, one after the other, while the next is put together."""
    running = None
    for call in calls:
        given = running.result() if running else None
        running = aside.submit(call)
        if given is not None:
            yield given
    if running:
        yield running.result()


@contextmanager
def _shadow(mart: Mart, conn: Connection) -> Iterator[psycopg.Copy]:
    """COPY into the shadow, which is empty; its keys, in whatever order they come, are sorted once, at the end."""
    names = sql.SQL(", ").join(map(sql.Identifier, mart.key))
    with translated():
        execute(conn, sql.SQL(UNKEYED).format(mart.identifier, sql.Identifier(f"{mart.table}_pkey")))
        with copy_in(conn, mart.identifier, [*mart.key, HASH, VERSION_COLUMN], "csv") as copy:
            yield copy
        execute(conn, sql.SQL(KEYED).format(mart.identifier, names))


def _as_csv(table: Any) -> Any:
    """With the version that all rows have."""
    out = pa.BufferOutputStream()
    versions = pa.repeat(pa.scalar(VERSION), table.num_rows)
    pyarrow.csv.write_csv(table.append_column(VERSION_COLUMN, versions), out, UNSEEN)
    return out.getvalue().to_pybytes()

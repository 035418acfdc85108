"""Rows from what Postgres sent, and as COPY takes them; without a connection, in the process that transforms them."""

import gc
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from uuid import UUID

import psycopg
from psycopg._copy_base import format_row_text  # what Copy.write_row calls; there is no other way without a session
from psycopg.adapt import AdaptersMap, Dumper, Loader, Transformer
from psycopg.pq import Format

from vitrina.domain.errors import ConfigError
from vitrina.meta.db import translated
from vitrina.sql.describe import Column
from vitrina.transforms import Row
from vitrina.transforms.exact_json import JsonLoader, write_json, write_json_array
from vitrina.transforms.frames import Batch, Values

JSON_TYPES = {"json": write_json, "jsonb": write_json, "json[]": write_json_array, "jsonb[]": write_json_array}


class TextLoader(Loader):
    """A value as Postgres writes it: for types that Python would round or refuse."""

    def load(self, data: bytes | bytearray | memoryview) -> str:
        """The text itself."""
        return bytes(data).decode()


class HexDumper(Dumper):
    """Bytes as Postgres writes them: without a session the driver does as servers of old did."""

    oid = psycopg.adapters.types["bytea"].oid

    def dump(self, obj: bytes | bytearray | memoryview) -> bytes:
        """The text."""
        return b"\\x" + bytes(obj).hex().encode()


class UUIDDumper(Dumper):
    """As the driver does it, in less than half the time."""

    oid = psycopg.adapters.types["uuid"].oid

    def dump(self, obj: UUID) -> bytes:
        """The text."""
        return obj.int.to_bytes(16, "big").hex().encode()


def register_loaders(adapters: AdaptersMap) -> None:
    """How a transform sees values where that is not as the driver gives them."""
    adapters.register_loader("interval", TextLoader)
    for type_ in ("json", "jsonb"):
        adapters.register_loader(type_, JsonLoader)


class _Adapting:
    """A session's way with values, without the session: ours have the settings that the driver takes for granted."""

    connection: Any = None

    def __init__(self) -> None:
        self.adapters = AdaptersMap(psycopg.adapters)
        register_loaders(self.adapters)
        for type_ in (bytes, bytearray, memoryview):
            self.adapters.register_dumper(type_, HexDumper)
        self.adapters.register_dumper(UUID, UUIDDumper)


@contextmanager
def python_forms() -> Iterator[None]:
    """A value that Python cannot hold, such as the date infinity, is the query's to cast."""
    try:
        yield
    except psycopg.DataError as error:
        if error.sqlstate:
            raise
        raise ConfigError(f"a value has no Python form: {error}", "cast its column to text") from error


@contextmanager
def uncollected() -> Iterator[None]:
    """While rows are made or written, which leaves nothing behind, nobody looks for what they might have left."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def load_rows(batch: Batch | Values) -> list[Row]:
    """As a transform sees them."""
    names = batch.names
    with uncollected(), python_forms():
        # there is a loader for each name, and to be strict would take a tenth of the time again
        return [dict(zip(names, row)) for row in _loaded(batch)]  # noqa: B905


def load_values(batch: Batch | Values) -> Sequence[Sequence[Any]]:
    """The values of each row."""
    with uncollected(), python_forms():
        return [*_loaded(batch)]


def _loaded(batch: Batch | Values) -> Iterable[Sequence[Any]]:
    if isinstance(batch, Values):
        return batch.rows
    adapting = Transformer(_Adapting())
    adapting.set_loader_types(batch.types, Format.TEXT)
    return map(adapting.load_sequence, batch.values())


def format_values(rows: Iterable[Sequence[Any]], columns: Sequence[Column]) -> bytearray:
    """Rows as COPY text; what goes into a json column is written as JSON."""
    writers = {n: JSON_TYPES[c.type] for n, c in enumerate(columns) if c.type in JSON_TYPES}
    text, adapting = bytearray(), Transformer(_Adapting())
    with uncollected(), translated():
        for row in _written(rows, writers) if writers else rows:
            format_row_text(row, adapting, text)
    return text


def _written(rows: Iterable[Sequence[Any]], writers: Mapping[int, Callable[[Any], Any]]) -> Iterator[list[Any]]:
    for row in rows:
        values = [*row]
        for n, write in writers.items():
            values[n] = write(values[n])
        yield values

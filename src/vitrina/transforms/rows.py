"""Rows from what Postgres sent, and as COPY takes them; without a connection, in the process that transforms them."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg._copy_base import format_row_text  # what Copy.write_row calls; there is no other way without a session
from psycopg.adapt import AdaptersMap, Loader, Transformer
from psycopg.pq import Format

from vitrina.domain.errors import ConfigError
from vitrina.meta.db import translated
from vitrina.sql.describe import Column
from vitrina.transforms import Row
from vitrina.transforms.exact_json import JsonLoader, write_json, write_json_array
from vitrina.transforms.frames import Batch, Values, fields

JSON_TYPES = {"json": write_json, "jsonb": write_json, "json[]": write_json_array, "jsonb[]": write_json_array}


class TextLoader(Loader):
    """A value as Postgres writes it: for types that Python would round or refuse."""

    def load(self, data: bytes | bytearray | memoryview) -> str:
        """The text itself."""
        return bytes(data).decode()


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


@contextmanager
def python_forms() -> Iterator[None]:
    """A value that Python cannot hold, such as the date infinity, is the query's to cast."""
    try:
        yield
    except psycopg.DataError as error:
        if error.sqlstate:
            raise
        raise ConfigError(f"a value has no Python form: {error}", "cast its column to text") from error


def load_rows(batch: Batch | Values) -> list[Row]:
    """As a transform sees them."""
    names = batch.names
    if isinstance(batch, Values):
        return [dict(zip(names, row, strict=True)) for row in batch.rows]
    adapting = Transformer(_Adapting())
    adapting.set_loader_types(batch.types, Format.TEXT)
    load = adapting.load_sequence
    with python_forms():
        return [dict(zip(names, load(fields(line)), strict=True)) for line in batch.lines]


def format_rows(rows: list[Row], columns: Sequence[Column]) -> bytearray:
    """Rows as COPY text; what goes into a json column is written as JSON."""
    writers = {c.name: JSON_TYPES[c.type] for c in columns if c.type in JSON_TYPES}
    names = [c.name for c in columns]
    text, adapting = bytearray(), Transformer(None)
    with translated():
        for row in rows:
            values = row | {name: write(row[name]) for name, write in writers.items()} if writers else row
            format_row_text([*map(values.__getitem__, names)], adapting, text)
    return text

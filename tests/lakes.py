"""Lakes for tests: made by DuckDB, read by sources."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import duckdb
from pydantic import SecretStr

from tests.support import Lab


def write_lake(path: Path, *statements: str) -> Path:
    """A database file; closed, so that others may open it."""
    with duckdb.connect(str(path)) as conn:
        for statement in statements:
            conn.execute(statement)
    return path


def export(lake: Path, folder: Path, tables: Sequence[str]) -> Path:
    """Its tables as files of a folder: schema/table.parquet."""
    with duckdb.connect(str(lake), read_only=True) as conn:
        for table in tables:
            schema, name = table.split(".")
            (folder / schema).mkdir(parents=True, exist_ok=True)
            conn.execute(f"COPY {table} TO '{folder / schema / name}.parquet'")
    return folder


def know(lab: Lab, name: str, url: str) -> None:
    """A source of this name, for whoever opens the lab's connections."""
    settings = lab.connections.settings
    sources = {**settings.sources, name: SecretStr(url)}
    settings = settings.model_copy(update={"sources": sources})
    urls = {each: one.get_secret_value() for each, one in sources.items()}
    lab.connections = replace(lab.connections, sources=urls, settings=settings)


@contextmanager
def held(lake: Path) -> Iterator[None]:
    """Somebody writes to it: an open database file lets nobody else in."""
    with duckdb.connect(str(lake)) as conn:
        conn.execute("CREATE OR REPLACE TABLE held AS SELECT 1")
        yield

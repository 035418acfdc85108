"""What is known of DuckDB before it is imported."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from vitrina.domain.errors import ConfigError
from vitrina.domain.refusals import Refusal
from vitrina.sources.arrow.extra import of_extra
from vitrina.sources.arrow.text import check_text
from vitrina.sources.source import Abilities, Address, Kind, Source

ABILITIES = Abilities(gives_blocks=True, gives_windows=True)


def open_duckdb(address: Address) -> Source:
    """An instance of its own, in this process."""
    with of_extra("duckdb"):
        from vitrina.sources.duckdb.reader import open_reader
    return open_reader(address, ABILITIES)


def tables_of(select: str) -> list[str]:
    """By its own parser, as schema.table; none where that is not installed."""
    try:
        import duckdb
    except ModuleNotFoundError:
        return []
    with duckdb.connect(":memory:") as conn:
        row = conn.execute("SELECT json_serialize_sql(?)", [select]).fetchone()
    with of_depth():
        return sorted(set(_tables(json.loads(row[0]) if row else None)))


@contextmanager
def of_depth() -> Iterator[None]:
    """A parsed query is looked through as deep as Python goes."""
    try:
        yield
    except RecursionError as error:
        raise ConfigError.of(Refusal.NESTED_TOO_DEEPLY) from error


def _tables(node: Any) -> Iterator[str]:
    if isinstance(node, dict) and node.get("type") == "BASE_TABLE":
        yield ".".join(name for name in (node["schema_name"], node["table_name"]) if name)
    for child in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from _tables(child)


def shown(url: str) -> str:
    """Where it is: there are no secrets in it, and what stands after the path is for its reader."""
    return url.partition("?")[0]


DUCKDB = Kind(("duckdb",), ABILITIES, open_duckdb, check_text, shown, tables_of)

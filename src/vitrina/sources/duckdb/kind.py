"""What is known of DuckDB before it is imported."""

import re
from urllib.parse import urlsplit

from vitrina.sources.arrow.extra import of_extra
from vitrina.sources.arrow.text import check_text
from vitrina.sources.source import Abilities, Address, Kind, Source

ABILITIES = Abilities(gives_blocks=True)
QUOTED = re.compile(r'"((?:[^"]|"")*)"|([^".]+)')


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
        try:
            names = conn.get_table_names(select, qualified=True)
        except duckdb.Error:
            return []
    return sorted(".".join(quoted or plain for quoted, plain in QUOTED.findall(name)) for name in names)


def shown(url: str) -> str:
    """Where it is: there are no secrets in it, and what stands after the path is for its reader."""
    return f"duckdb://{urlsplit(url).path}"


DUCKDB = Kind(("duckdb",), ABILITIES, open_duckdb, check_text, shown, tables_of)

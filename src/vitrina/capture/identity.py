"""Which old values the WAL tells of a changed row: those of its replica identity."""

from collections.abc import Sequence

from vitrina.meta.db import Connection, fetch_all, queries

SQL = queries("capture_source")


def identity_columns(conn: Connection, tables: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """By table; of a partitioned one, those that all its partitions tell."""
    rows = fetch_all(conn, SQL["identity"], {"tables": list(tables)})
    found: dict[str, set[str]] = {}
    for row in rows:
        columns = set(row["columns"])
        found[row["name"]] = found[row["name"]] & columns if row["name"] in found else columns
    return {name: tuple(sorted(columns)) for name, columns in found.items()}

"""The tables of a lake: a database file's own, or a folder's Parquet files, each as a view while it is asked for."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb

from vitrina.domain.errors import ConfigError
from vitrina.domain.findings import Finding
from vitrina.domain.source_refusals import SourceRefusal
from vitrina.sources.duckdb.kind import tables_of
from vitrina.sources.duckdb.parquet import SUFFIX, files_below, rows_of
from vitrina.sources.duckdb.place import Lake, identifier
from vitrina.sources.sight import Schema, Seen, Sight

MAIN = "main"
COLUMNS = """
SELECT schema_name, table_name, is_view,
       list({'name': column_name, 'type': data_type, 'comment': comment} ORDER BY column_index)
FROM (SELECT c.*, v.view_name IS NOT NULL AS is_view FROM duckdb_columns() c
      LEFT JOIN duckdb_views() v
      ON (v.database_oid, v.schema_name, v.view_name) = (c.database_oid, c.schema_name, c.table_name)
      WHERE NOT c.internal AND c.database_name = current_database())
GROUP BY ALL ORDER BY ALL LIMIT ?
"""


@dataclass(frozen=True)
class Views:
    """Of a folder; of a file there are none to make."""

    folder: Path | None
    made: dict[tuple[str, str], tuple[str, str]] = field(default_factory=dict)  # without case: as the files have it

    @classmethod
    def of(cls, lake: Lake) -> "Views":
        """None is made yet."""
        return cls(lake.path if lake.is_folder else None)

    def make(self, conn: duckdb.DuckDBPyConnection, select: str) -> None:
        """Those that a query names, as far as there are files for them."""
        if self.folder is None:
            return
        for name in tables_of(select):
            schema, _, table = name.rpartition(".")
            self._make(conn, schema or MAIN, table)

    def make_all(self, conn: duckdb.DuckDBPyConnection, limit: int) -> list[tuple[str, str]]:
        """So many, by name. What comes back are those that no query could read either."""
        refused = []
        for schema, table in list(self._found())[:limit]:
            try:
                self._make(conn, schema, table)
            except ConfigError:
                refused.append((schema, table))
        return refused

    def _make(self, conn: duckdb.DuckDBPyConnection, schema: str, table: str) -> None:
        assert self.folder is not None
        name, files = (schema, table), self._files(schema, table)
        made = self.made.get((schema.lower(), table.lower()))
        if not files or made == name:
            return
        if made:
            raise ConfigError.of(SourceRefusal.DUCKDB_CASE, one=".".join(made), other=".".join(name))
        rows = rows_of(conn, files)
        conn.execute(f"CREATE SCHEMA IF NOT EXISTS {identifier(schema)}")
        relation = f"{identifier(schema)}.{identifier(table)}"
        conn.execute(f"CREATE OR REPLACE VIEW {relation} AS SELECT * FROM {rows}")
        self.made[schema.lower(), table.lower()] = name

    def _files(self, schema: str, table: str) -> Sequence[Path]:
        """Names are those of files: nothing that leads out of the folder is one."""
        assert self.folder is not None
        if {schema, table} & {"", ".", ".."} or "/" in schema + table:
            return []
        base = self.folder if schema == MAIN else self.folder / schema
        if (base / (table + SUFFIX)).is_file():
            return [base / (table + SUFFIX)]
        return sorted(files_below(base / table))

    def _found(self) -> Iterator[tuple[str, str]]:
        if self.folder is None:
            return
        for entry in sorted(self.folder.iterdir()):
            if entry.suffix == SUFFIX:
                yield MAIN, entry.stem
            elif entry.is_dir() and any(entry.glob(f"*{SUFFIX}")):
                yield from sorted((entry.name, each.stem) for each in entry.iterdir() if each.suffix == SUFFIX)
            elif entry.is_dir():
                yield from sorted((entry.name, each.name) for each in entry.iterdir() if _holds_files(each))


def take_sight(conn: duckdb.DuckDBPyConnection, views: Views, obstacles: Mapping[str, Sequence[Finding]]) -> Sight:
    """Its schemas, whatever they are called."""
    seen = list_tables(conn, views, 10_000)
    counts: dict[str, int] = {}
    for table in seen.tables:
        counts[table["schema"]] = counts.get(table["schema"], 0) + 1
    return Sight(None, [Schema(name, True, True, count, 0) for name, count in counts.items()], obstacles)


def list_tables(conn: duckdb.DuckDBPyConnection, views: Views, limit: int) -> Seen:
    """With their columns, in types of DuckDB."""
    refused = views.make_all(conn, limit + 1)
    rows = conn.execute(COLUMNS, [limit + 1]).fetchall()
    made = views.folder is not None
    tables = [
        _table(schema, name, "view" if is_view and not made else "table", columns)
        for schema, name, is_view, columns in rows
    ]
    tables += [_table(schema, name, "table", None) for schema, name in refused]
    return Seen(tables[:limit], len(tables) > limit)


def _table(schema: str, name: str, kind: str, columns: Sequence[Any] | None) -> dict[str, Any]:
    """One that cannot be read has no columns."""
    return {"schema": schema, "name": name, "kind": kind, "readable": columns is not None, "rows": None,
            "comment": None, "key": [], "columns": columns or []}  # fmt: skip


def _holds_files(folder: Path) -> bool:
    return next(files_below(folder), None) is not None

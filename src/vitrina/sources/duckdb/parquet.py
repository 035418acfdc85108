"""The Parquet files of one table: which they are, and that one column has one type in all of them."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb

from vitrina.domain.errors import ConfigError
from vitrina.sources.duckdb.place import literal

SUFFIX = ".parquet"
UNFINISHED = (".", "_")  # so begin the names of what writers have not committed, and of what they keep for themselves
WIDENS = [{"TINYINT", "SMALLINT", "INTEGER", "BIGINT"}, {"FLOAT", "DOUBLE"}]  # the widest holds values of all exactly
SCHEMAS = """
SELECT min(file_name), columns
FROM (SELECT file_name, list({{'name': name, 'type': duckdb_type, 'children': coalesce(num_children, 0)}}
                             ORDER BY column_id) AS columns
      FROM parquet_schema({files}) GROUP BY file_name)
GROUP BY columns ORDER BY 1
"""


def files_below(folder: Path) -> Iterator[Path]:
    """However deep."""
    for path in folder.glob(f"**/*{SUFFIX}"):
        if path.is_file() and not any(part.startswith(UNFINISHED) for part in path.relative_to(folder).parts):
            yield path


def rows_of(conn: duckdb.DuckDBPyConnection, files: Sequence[Path]) -> str:
    """What reads them all, each column by its name; a ConfigError where values of one would be rounded or cut."""
    listed = "[" + ", ".join(literal(_pattern(path)) for path in files) + "]"
    if len(files) > 1:
        _check_types(conn.execute(SCHEMAS.format(files=listed)).fetchall())
    return f"read_parquet({listed}, union_by_name = true)"


def _pattern(path: Path) -> str:
    """A path is a pattern there: one that matches nothing else."""
    return "".join(f"[{char}]" if char in "[*?" else char for char in str(path))


def _check_types(schemas: Sequence[tuple[str, Any]]) -> None:
    seen: dict[str, dict[str, str]] = {}
    for file, columns in schemas if len(schemas) > 1 else ():
        for name, type_ in _columns(columns):
            seen.setdefault(name.lower(), {}).setdefault(type_, file)
    for name, types in seen.items():
        if len(types) > 1 and not any(types.keys() <= group for group in WIDENS):
            told = ", and ".join(f"{type_} in {file}" for type_, file in types.items())
            raise ConfigError(
                f"column {name} is {told}", "write the files in one type, or read each by read_parquet with a cast"
            )


def _columns(nodes: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """Those of the file itself: behind each stand the nodes that it consists of."""
    inside = 0
    for node in nodes[1:]:
        if not inside:
            yield node["name"], node["type"]
        inside += node["children"] - (1 if inside else 0)

"""The demo's tables, as files of a lake."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.support import Lab
from vitrina.sources.arrow.forms import FORMS

TABLES = """
    SELECT format('%I.%I', n.nspname, c.relname) AS name, array_agg(a.attname::text ORDER BY a.attnum) AS columns,
           array_agg(format_type(a.atttypid, a.atttypmod) ORDER BY a.attnum) AS types
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
    WHERE n.nspname IN ('content', 'ugc') AND c.relkind = 'r' GROUP BY 1
"""


def export_cinema(lab: Lab, folder: Path, *, uuids: bool = True) -> Path:
    """Each as schema/table.parquet, with its own types; where an engine has no type for uuids, they are texts."""
    for name, columns, types in lab.sql(TABLES):
        schema, table = name.split(".")
        (folder / schema).mkdir(parents=True, exist_ok=True)
        rows = lab.sql(f"SELECT {', '.join(columns)} FROM {name}")
        given = list(zip(*rows, strict=True)) or [()] * len(columns)
        arrays = [_array(type_, values, uuids) for type_, values in zip(types, given, strict=True)]
        pq.write_table(pa.table(arrays, names=columns), folder / schema / f"{table}.parquet")
    return folder


def _array(type_: str, values: Any, uuids: bool) -> Any:
    if type_ == "uuid":
        return pa.array([str(value) for value in values]) if not uuids else pa.array(values, pa.uuid())
    if type_.startswith("numeric("):
        precision, scale = type_.removeprefix("numeric(").removesuffix(")").split(",")
        return pa.array(values, pa.decimal128(int(precision), int(scale)))
    form = FORMS.get(type_, pa.string())
    return pa.array(
        [None if value is None else str(value) for value in values] if form == pa.string() else values, form
    )

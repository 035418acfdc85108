"""Reads tables of Iceberg: `python read.py`, then a line of JSON for each question, and a line with the rows for each.

By programs that know nothing of Vitrina, and none of its code. A question is `{"by": "duckdb", "metadata": FILE}`, or
`{"by": "trino", "port": PORT, "statement": SQL}`. What JSON has no word for is text.
"""

import json
import sys
from collections.abc import Callable, Iterable
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from uuid import UUID

Rows = Iterable[dict[str, Any]]


def by_duckdb(metadata: str) -> Rows:
    """By its extension for Iceberg, which comes as a package."""
    import duckdb

    db = duckdb.connect(config={"autoinstall_known_extensions": False})
    for name in ("avro", "iceberg"):
        spec = find_spec(f"duckdb_extension_{name}")
        assert spec
        assert spec.origin
        [extension] = Path(spec.origin).parent.glob(f"extensions/*/{name}.duckdb_extension")
        db.execute(f"LOAD '{extension}'")
    found = db.execute("SELECT * FROM iceberg_scan(?)", [metadata])
    assert found.description
    names = [column[0] for column in found.description]
    return [dict(zip(names, row, strict=True)) for row in found.fetchall()]


def by_polars(metadata: str) -> Rows:
    """By its own reader of Parquet; pyiceberg tells it the files."""
    import polars

    rows: Rows = polars.scan_iceberg(metadata, reader_override="native").collect().to_dicts()
    return rows


def by_daft(metadata: str) -> Rows:
    """Likewise."""
    import daft
    from pyiceberg.table import StaticTable

    rows: Rows = daft.read_iceberg(StaticTable.from_metadata(metadata)).to_pylist()
    return rows


def by_clickhouse(metadata: str) -> Rows:
    """By its engine, in this process; told the metadata that counts, since it would take the newest that is there."""
    from chdb.state import connect

    folder, _, file = metadata.removeprefix("file://").partition("/metadata/")
    table = f"icebergLocal('{folder}', SETTINGS iceberg_metadata_file_path = 'metadata/{file}')"
    said = "output_format_json_quote_decimals = 1, output_format_json_quote_64bit_integers = 0"
    with closing(connect(":memory:")) as engine:
        text = engine.query(f"SELECT * FROM {table} SETTINGS {said}", "JSONEachRow").bytes()  # noqa: S608 (ours)
    return [json.loads(line) for line in text.splitlines()]


def by_trino(port: int, statement: str) -> Rows:
    """By a catalogue of its own, which is asked where the table is."""
    from trino.dbapi import connect

    with connect(host="127.0.0.1", port=port, user="reader") as conn:
        cursor = conn.cursor()
        cursor.execute(statement)
        names = [column[0] for column in cursor.description or ()]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


BY: dict[str, Callable[..., Rows]] = {
    "duckdb": by_duckdb,
    "polars": by_polars,
    "daft": by_daft,
    "clickhouse": by_clickhouse,
    "trino": by_trino,
}


def shown(value: Any) -> Any:
    """As JSON; whoever has no type for a UUID has its bytes."""
    if isinstance(value, list):
        return [shown(each) for each in value]
    if isinstance(value, bytes):
        return str(UUID(bytes=value)) if len(value) == 16 else f"\\x{value.hex()}"
    return value if isinstance(value, bool | int | str | None) else str(value)


def answered(question: dict[str, Any]) -> dict[str, Any]:
    """Its rows, or what is wrong."""
    try:
        rows = BY[question.pop("by")](**question)
        return {"rows": [{name: shown(value) for name, value in row.items()} for row in rows]}
    except Exception as error:  # for whoever asked
        return {"error": f"{type(error).__name__}: {error}"}


if __name__ == "__main__":
    for line in sys.stdin:
        sys.stdout.write(json.dumps(answered(json.loads(line))) + "\n")
        sys.stdout.flush()

"""The floors of bench/sinks.py, each in a process of its own: `python -m bench.to_sink KIND CONNINFO FOLDER URL`."""

import json
import sys
import time
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
from pyiceberg.catalog.sql import SqlCatalog

COPY = "COPY (SELECT id, title, rating, kind, at AT TIME ZONE 'UTC' AS at FROM content.event) TO STDOUT (FORMAT csv)"
TYPES = {
    "id": pa.int64(),
    "title": pa.string(),
    "rating": pa.decimal128(4, 1),
    "kind": pa.int64(),
    "at": pa.timestamp("us"),
}
MADE = (
    "CREATE TABLE bench.floor (id Int64, title String, rating Decimal(4, 1), kind Int64, at DateTime64(6, 'UTC'))"
    " ENGINE = MergeTree ORDER BY id"
)


def rows(conninfo: str) -> bytes:
    """The query's, as text."""
    with psycopg.connect(conninfo) as conn, conn.cursor().copy(COPY) as copy:
        return b"".join(copy)


def table(text: bytes) -> Any:
    """As Arrow."""
    options = pyarrow.csv.ConvertOptions(column_types=TYPES)
    names = pyarrow.csv.ReadOptions(column_names=[*TYPES])
    return pyarrow.csv.read_csv(pa.BufferReader(text), read_options=names, convert_options=options)


def to_lake(conninfo: str, folder: Path) -> None:
    """pyiceberg's append, by a catalogue in a file."""
    folder.mkdir(parents=True)
    catalog = SqlCatalog("floor", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}")
    catalog.create_namespace("bench")
    found = table(rows(conninfo))
    catalog.create_table("bench.event", schema=found.schema).append(found)


def to_files(conninfo: str, folder: Path) -> None:
    """One file."""
    folder.mkdir(parents=True)
    pyarrow.parquet.write_table(table(rows(conninfo)), folder / "event.parquet")


def to_clickhouse(conninfo: str, url: str) -> None:
    """One INSERT of what Postgres gives."""
    with httpx.Client(trust_env=False, timeout=600) as http:
        http.post(url, content=MADE.encode()).raise_for_status()
        insert = "INSERT INTO bench.floor FORMAT CSV"
        http.post(url, params={"query": insert}, content=rows(conninfo)).raise_for_status()


def main(kind: str, conninfo: str, folder: str, url: str = "") -> None:
    """Import is not counted."""
    started = time.perf_counter()
    if kind == "clickhouse":
        to_clickhouse(conninfo, url)
    else:
        {"lake": to_lake, "files": to_files}[kind](conninfo, Path(folder) / "floor")
    sys.stdout.write(json.dumps({"seconds": time.perf_counter() - started}) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])

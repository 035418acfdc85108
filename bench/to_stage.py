"""Vitrina's way of a Parquet file into a typed stage: batches of Arrow as a binary COPY, as of every source by Arrow.

Arguments: where Postgres is, the file, the table. Prints how long it took, imports and connections not counted.
"""

import json
import sys
import time

import psycopg
import pyarrow.parquet as pq
from psycopg import sql

from vitrina.sources.arrow.encoding import blocks
from vitrina.sql.describe import Column

ROWS = 8_192
COLUMNS = [
    Column("id", "bigint"),
    Column("film_id", "uuid"),
    Column("title", "text"),
    Column("rating", "numeric(4,1)"),
    Column("score", "double precision"),
    Column("at", "timestamp without time zone"),
]


def main(uri: str, file: str, table: str) -> None:
    """One transaction, as a step of a run is."""
    names = sql.SQL(", ").join(sql.SQL("{} {}").format(c.identifier, c.sql_type) for c in COLUMNS)
    stage = sql.Identifier(table)
    with psycopg.connect(uri) as conn:
        source = pq.ParquetFile(file)
        began, processor = time.perf_counter(), time.process_time()
        conn.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(stage))
        conn.execute(sql.SQL("CREATE UNLOGGED TABLE {} ({})").format(stage, names))
        with conn.cursor().copy(sql.SQL("COPY {} FROM STDIN (FORMAT binary)").format(stage)) as copy:
            for block in blocks(source.iter_batches(ROWS), COLUMNS):
                copy.write(block)
        conn.commit()
        took = {"seconds": time.perf_counter() - began, "processor": time.process_time() - processor}
        print(json.dumps(took))


if __name__ == "__main__":
    main(*sys.argv[1:])

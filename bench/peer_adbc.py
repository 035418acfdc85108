"""ADBC's own ingest of a Parquet file into a table of Postgres. Runs in the peers' environment.

Arguments: where Postgres is, the file, the table. Prints how long it took, imports and connections not counted.
"""

import json
import sys
import time

import adbc_driver_postgresql.dbapi
import pyarrow.parquet as pq

ROWS = 8_192


def main(uri: str, file: str, table: str) -> None:
    """Batch after batch, as the file gives them."""
    with adbc_driver_postgresql.dbapi.connect(uri) as conn, conn.cursor() as cursor:
        source = pq.ParquetFile(file)
        began, processor = time.perf_counter(), time.process_time()
        batches = source.iter_batches(ROWS)
        cursor.execute(f"DROP TABLE IF EXISTS {table}")
        first = next(batches)
        cursor.adbc_ingest(table, first, mode="create")
        cursor.execute(f"ALTER TABLE {table} SET UNLOGGED")
        for batch in batches:
            cursor.adbc_ingest(table, batch, mode="append")
        conn.commit()
        took = {"seconds": time.perf_counter() - began, "processor": time.process_time() - processor}
        print(json.dumps(took))


if __name__ == "__main__":
    main(*sys.argv[1:])

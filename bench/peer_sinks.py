"""dlt into a folder: tables of Iceberg, merged by key, or files of Parquet, which it can only replace.

Runs in the peers' environment. Arguments, as JSON: see `main`. Prints how many seconds the run took.
"""

import json
import sys
import time
from typing import Any

import dlt
from dlt.sources.sql_database import sql_table

CHUNK = 100_000
WAYS: dict[str, Any] = {
    "iceberg": {
        "write_disposition": {"disposition": "merge", "strategy": "upsert"},
        "table_format": "iceberg",
        "primary_key": "id",
    },
    "parquet": {"write_disposition": "replace"},
}


def main(source: str, directory: str, url: str, table_format: str) -> None:
    """Import, configuration and the first connections are not counted."""
    destination = dlt.destinations.filesystem(f"file://{url}")
    pipeline = dlt.pipeline("sinks", pipelines_dir=directory, destination=destination, dataset_name="by_dlt")
    resource = sql_table(source, schema="content", table="event", backend="pyarrow", chunk_size=CHUNK)
    resource.apply_hints(**WAYS[table_format])
    pipeline.sync_destination()
    started = time.perf_counter()
    pipeline.run(resource, loader_file_format="parquet")
    print(json.dumps({"seconds": time.perf_counter() - started}))


main(**json.loads(sys.argv[1]))

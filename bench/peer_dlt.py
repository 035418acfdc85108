"""dlt: `sql_table` with the pyarrow backend into Postgres, write disposition merge.

Runs in the peers' environment. Arguments, as JSON: see `main`. Prints how many seconds the run took. Chosen by the
processor time that 200,000 films took: Parquet through ADBC, ahead of CSV with COPY and of INSERT of values; large
chunks; `delete-insert`, a little ahead of `upsert`.
"""

import json
import sys
import time

import dlt
import pyarrow
from dlt.sources.sql_database import sql_table

from functions import FUNCTIONS

CHUNK = 100_000
FORMAT = "parquet"
STRATEGY = "delete-insert"


def main(
    source: str, target: str, directory: str, table: str, columns: list[str], cursor: str | None, function: str | None
) -> None:
    """Import, configuration and the first connections are not counted."""
    schema, name = table.split(".")
    pipeline = dlt.pipeline(
        "bench", pipelines_dir=directory, destination=dlt.destinations.postgres(target), dataset_name="by_dlt"
    )
    resource = sql_table(
        source,
        schema=schema,
        table=name,
        backend="pyarrow",
        chunk_size=CHUNK,
        included_columns=columns,
        incremental=dlt.sources.incremental(cursor) if cursor else None,
        primary_key=columns[0],
        write_disposition={"disposition": "merge", "strategy": STRATEGY},
    )
    if function:
        apply = FUNCTIONS[function]
        resource.add_map(lambda chunk: pyarrow.Table.from_pylist(list(apply(chunk.to_pylist()))))
    pipeline.sync_destination()
    started = time.perf_counter()
    pipeline.run(resource, loader_file_format=FORMAT)
    print(json.dumps({"seconds": time.perf_counter() - started}))


main(**json.loads(sys.argv[1]))

"""The script that users write: rows through Python into `helpers.bulk`, update with doc_as_upsert, 1,000 at a time.

Runs in the peers' environment. Arguments: conninfo, URL, index, SELECT. Prints how many seconds it took.
"""

import json
import sys
import time
from collections.abc import Iterator
from typing import Any

import psycopg
from elasticsearch import Elasticsearch, helpers
from psycopg.rows import dict_row

CHUNK = 1_000


def actions(rows: Any, index: str) -> Iterator[dict[str, Any]]:
    """An update for each row."""
    for row in rows:
        yield {"_op_type": "update", "_index": index, "_id": str(row["film_id"]), "doc": row, "doc_as_upsert": True}


def main(conninfo: str, url: str, index: str, select: str) -> None:
    """Both connections are open before the clock starts."""
    client = Elasticsearch(url, request_timeout=60)
    with psycopg.connect(conninfo, row_factory=dict_row) as conn, conn.cursor("films") as cursor:
        conn.execute("SELECT 1")
        client.cluster.health()
        cursor.itersize = CHUNK
        started = time.perf_counter()
        cursor.execute(select.encode())
        helpers.bulk(client, actions(cursor, index), chunk_size=CHUNK)
        print(json.dumps({"seconds": time.perf_counter() - started}))


main(*sys.argv[1:])

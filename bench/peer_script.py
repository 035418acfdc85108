"""The script that users write: rows through Python into `executemany` of INSERT … ON CONFLICT, 1,000 at a time.

Runs in the peers' environment. Arguments: as JSON, source, target, select, table, key. Prints how many seconds it took.
"""

import json
import sys
import time
from typing import Any

import psycopg
from psycopg import sql

CHUNK = 1_000


def upsert(table: str, columns: list[str], key: str) -> sql.Composed:
    """The statement, with a placeholder for each column."""
    names = [sql.Identifier(name) for name in columns]
    assign = [sql.SQL("{0} = EXCLUDED.{0}").format(sql.Identifier(name)) for name in columns if name != key]
    return sql.SQL("INSERT INTO {} ({}) VALUES ({}) ON CONFLICT ({}) DO UPDATE SET {}").format(
        sql.Identifier(*table.split(".")),
        sql.SQL(", ").join(names),
        sql.SQL(", ").join([sql.Placeholder()] * len(names)),
        sql.Identifier(key),
        sql.SQL(", ").join(assign),
    )


def main(source: str, target: str, select: str, table: str, key: str) -> None:
    """Both connections are open before the clock starts; a commit for each chunk."""
    with psycopg.connect(source) as reading, psycopg.connect(target) as writing, reading.cursor("rows") as cursor:
        reading.execute("SELECT 1")
        writing.execute("SELECT 1")
        started = time.perf_counter()
        cursor.execute(select.encode())
        rows: list[Any] = cursor.fetchmany(CHUNK)
        statement = upsert(table, [column.name for column in cursor.description or ()], key)
        while rows:
            with writing.transaction(), writing.cursor() as written:
                written.executemany(statement, rows)
            rows = cursor.fetchmany(CHUNK)
        print(json.dumps({"seconds": time.perf_counter() - started}))


main(**json.loads(sys.argv[1]))

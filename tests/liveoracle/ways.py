"""Whether every way to read some keys gives what the whole query gives for them."""

import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

from psycopg import sql
from psycopg.rows import tuple_row

from tests.liveoracle.parts import Query
from tests.liveoracle.worlds import DOMAINS, State
from vitrina.meta.db import Connection
from vitrina.sql.describe import Column, describe
from vitrina.sql.live import understand
from vitrina.sql.live.recompute import ways

Rows = Counter[tuple[Any, ...]]


def fill(conn: Connection, state: State) -> None:
    """The real tables as in a state."""
    conn.execute("TRUNCATE o.a, o.b, o.c")
    for table in DOMAINS:
        for row in state[table]:
            conn.execute(sql.SQL("INSERT INTO {} VALUES (%s, %s, %s)").format(sql.Identifier("o", table)), row)


def differing(conn: Connection, query: Query, rng: random.Random) -> str:
    """The way that reads some keys otherwise than the whole query does, or nothing."""
    view = understand(conn, {}, query.select, query.key)
    columns = describe(conn, query.select)
    part = rng.sample(query.key, rng.randint(1, len(query.key)))
    whole = _rows(conn, _written(query.select, columns))
    at = [next(n for n, column in enumerate(columns) if column.name == name) for name in part]
    keys = sorted({tuple(row[n] for n in at) for row in whole if None not in [row[n] for n in at]})
    wanted = set(rng.sample(keys, (len(keys) + 1) // 2))
    expected = Counter({row: many for row, many in whole.items() if tuple(row[n] for n in at) in wanted})
    arrays = [_array(key[n] for key in wanted) for n in range(len(part))]
    args = sql.Literal(arrays) + sql.SQL("::text[]")
    for way in ways(query.select, columns, part, view.ties, args):
        if _rows(conn, _written(way.query.as_string(None), columns)) != expected:
            return way.name
    return ""


def _written(select: str, columns: Sequence[Column]) -> sql.Composed:
    texts = sql.SQL(", ").join(sql.SQL("z.{}::text").format(column.identifier) for column in columns)
    return sql.SQL("SELECT {} FROM ({}) AS z").format(texts, sql.SQL(select))


def _rows(conn: Connection, statement: sql.Composed) -> Rows:
    with conn.cursor(row_factory=tuple_row) as cursor:
        return Counter(cursor.execute(statement, prepare=False).fetchall())


def _array(values: Any) -> str:
    return "{" + ",".join(f'"{value}"' for value in values) + "}"

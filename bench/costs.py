"""What a runner's tick costs the meta-store, by its buffers and by the clock."""

import json
import statistics
import time
from typing import Any
from uuid import uuid4

from vitrina.meta.db import Connection, queries
from vitrina.meta.repos.pipelines import FAR_BEHIND
from vitrina.runner.manager import PipelineManager

# Every statement that a runner repeats while nothing happens.
STATEMENTS = [
    ("requests", "bury"),
    ("pipelines", "unplanned"),
    ("pipelines", "wake_live"),
    ("leases", "claim"),
    ("leases", "expired"),
]
TRIES = 4
PARAMS = {
    "only": None,
    "avoided": ["shop"],
    "owner": uuid4(),
    "runner": "r",
    "seconds": 30,
    "attempts": 3,
    "far": FAR_BEHIND,
}


def tick_costs(conn: Connection, rounds: int = 50) -> dict[str, Any]:
    """Milliseconds of a tick, in the middle, and how many pages each of its statements touches."""
    conn.execute("VACUUM ANALYZE")
    manager, times = PipelineManager(conn), []
    for _ in range(rounds):
        began = time.perf_counter()
        manager.tick()
        times.append((time.perf_counter() - began) * 1000)
    return {"ms": round(statistics.median(times), 2), "buffers": buffers(conn)}


def buffers(conn: Connection) -> dict[str, int]:
    """Pages touched by each statement, by its name; nothing of what they do is kept.

    The least of some tries: a session that begins, or is told by a busy server to forget what it knows, reads pages of
    the catalogue besides, a few hundred."""
    return {
        f"{file}.{name}": min(_touched(conn, queries(file)[name]) for _ in range(TRIES)) for file, name in STATEMENTS
    }


def _touched(conn: Connection, statement: str) -> int:
    with conn.transaction(force_rollback=True):
        row = conn.execute(b"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) " + statement.encode(), PARAMS).fetchone()
    assert row is not None
    plan = row["QUERY PLAN"]
    plan = (json.loads(plan) if isinstance(plan, str) else plan)[0]["Plan"]
    return int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])

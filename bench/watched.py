"""What being watched costs whoever writes: nothing, by the WAL with old keys, with old rows whole, and by triggers."""

import statistics
import subprocess
import tempfile
import time

from bench.changes import captured, wait_until
from bench.processes import cpu_seconds, cpu_seconds_of_family
from bench.report import Measured, Options, Report, Target
from vitrina.embedded.postgres import EmbeddedPostgres
from vitrina.meta.db import Connection

CHANGES = {"tiny": 400, "small": 8_000, "full": 40_000}
CLIENTS = 4
WAYS = {
    "unwatched": (None, "DEFAULT"),
    "WAL, old keys": ("wal", "DEFAULT"),
    "WAL, old rows": ("wal", "FULL"),
    "triggers": ("trigger", "DEFAULT"),
}
UPDATE = """
    \\set id random(1, {rows})
    UPDATE content.events SET price = price + 1 WHERE id = :id;
"""
WAL = "SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')"
POSTMASTER = "SELECT split_part(pg_read_file('postmaster.pid'), E'\\n', 1)::integer"
LAST = "SELECT coalesce(max(last_id), 0) FROM etl.etl_captures"
WHATS = ("changes a second", "server, s", "runner, s", "WAL, kB")


def measure(options: Options) -> Report:
    """A way after the other, each on a server of its own with a runner beside it; what follows is not part of it."""
    changes, measured = CHANGES[options.scale], Measured()
    for way, (kind, identity) in WAYS.items():
        with captured(kind, identity) as (server, conn, process):
            conn.execute(f"INSERT INTO content.events (note) SELECT 'n' FROM generate_series(1, {changes})".encode())
            conn.execute("VACUUM ANALYZE content.events")
            rounds = [_round(server, conn, process.pid, kind, changes) for _ in range(options.times)]
            version = conn.info.parameter_status("server_version") or "?"
        measured |= {f"{way}, {what}": statistics.median(found[what] for found in rounds) for what in WHATS}
    shown = [[way, *(f"{measured[f'{way}, {what}']:,.2f}" for what in WHATS)] for way in WAYS]
    alone = measured["unwatched, changes a second"]
    wal = measured["WAL, old rows, changes a second"] / alone
    targets = [Target.at_least("changes a second, watched by WAL with old rows / unwatched", wal, 0.8)]
    title = f"What being watched costs, {changes:,} single-row transactions of {CLIENTS} clients, per 1,000 changes"
    return Report(title, ["way", *WHATS], shown, targets, measured, {"postgres": version})


def _round(server: EmbeddedPostgres, conn: Connection, runner: int, kind: str | None, changes: int) -> Measured:
    """Processor time until all of it is in the log; rates are the writers' own."""
    postmaster = int(_number(conn, POSTMASTER))
    conn.execute("CHECKPOINT")
    before = cpu_seconds_of_family(postmaster), cpu_seconds(runner), _number(conn, WAL), _number(conn, LAST)
    seconds = _write(server, changes)
    if kind:
        wait_until(conn, LAST, int(before[3]) + changes)
    thousands = changes / 1000
    return {
        "changes a second": changes / seconds,
        "server, s": (cpu_seconds_of_family(postmaster) - before[0]) / thousands,
        "runner, s": (cpu_seconds(runner) - before[1]) / thousands,
        "WAL, kB": (_number(conn, WAL) - before[2]) / 1024 / thousands,
    }


def _write(server: EmbeddedPostgres, changes: int) -> float:
    """So many updates; how long they took."""
    with tempfile.NamedTemporaryFile("w", prefix="vitrina-bench-", suffix=".sql") as script:
        script.write(UPDATE.format(rows=changes))
        script.flush()
        options = ["-n", "-M", "prepared", "-c", str(CLIENTS), "-t", str(changes // CLIENTS), "-f", script.name]
        started = time.monotonic()
        subprocess.run([server.program("pgbench"), *options, server.conninfo()], check=True, capture_output=True)
        return time.monotonic() - started


def _number(conn: Connection, query: str) -> float:
    row = conn.execute(query.encode()).fetchone()
    return float(next(iter(row.values())) if row else 0)

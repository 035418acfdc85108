"""`python -m bench.changes`: how fast changes are captured, and how long after its commit a change is in the log."""

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
from psycopg.conninfo import make_conninfo

from bench.processes import cpu_seconds, memory
from vitrina.bootstrap import Warehouse, set_up
from vitrina.capture.installation import install
from vitrina.demo.settings import allow_cinema
from vitrina.embedded.postgres import EmbeddedPostgres
from vitrina.meta.db import Connection, connect
from vitrina.settings import Settings

TABLE = """
CREATE SCHEMA content;
CREATE TABLE content.events (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, at timestamptz DEFAULT now(),
    title text DEFAULT 'a title of the usual length', price numeric DEFAULT 12.50, note text);
ALTER TABLE content.events REPLICA IDENTITY {identity};
"""


def main() -> None:
    """Both kinds, one after the other."""
    parser = argparse.ArgumentParser(prog="python -m bench.changes")
    parser.add_argument("--kind", choices=["wal", "trigger"], action="append")
    parser.add_argument("--seconds", type=int, default=15)
    parser.add_argument("--rate", type=int, default=1000, help="transactions a second")
    parser.add_argument("--rows", type=int, default=300_000, help="of the large transaction")
    options = parser.parse_args()
    for kind in options.kind or ["wal", "trigger"]:
        with captured(kind) as (server, conn, process):
            idle = memory(process.pid)
            print(f"{kind}: idle {cpu_share(process, 5):.1%} of a core, {idle:.0f} MB")
            latency(server, conn, process, options.rate, options.seconds)
            bulk(conn, process, options.rows)


@contextmanager
def captured(
    kind: str | None, identity: str = "FULL"
) -> Iterator[tuple[EmbeddedPostgres, Connection, "subprocess.Popen[bytes]"]]:
    """A server with its defaults, one table, and a real runner that captures it, if by any kind."""
    home = Path(tempfile.mkdtemp(prefix="vitrina-changes-"))
    home.chmod(0o755)
    server = EmbeddedPostgres(home / "pg")
    server.start()
    conninfo = server.conninfo()
    try:
        with connect(conninfo, "bench") as conn:
            conn.execute(TABLE.format(identity=identity).encode())
            set_up(Warehouse(conninfo, conninfo, None), allow_cinema(Settings(home=home / ".vitrina")))
            if kind:
                install(conn, conn, "warehouse", kind, ["content.events"], "vitrina_capture")
            roles = {"RUNNER_URL": "vitrina_runner", "READER_URL": "vitrina_reader", "CAPTURE_URL": "vitrina_capture"}
            urls = {f"VITRINA_{name}": make_conninfo(conninfo, user=role) for name, role in roles.items()}
            environment = os.environ | urls | {"VITRINA_DATABASE_URL": conninfo, "VITRINA_LOG_FORMAT": "json"}
            process = subprocess.Popen([sys.executable, "-m", "vitrina", "runner"], env=environment, cwd=home)
            try:
                at_work = "etl_captures WHERE caught_up_at IS NOT NULL" if kind else "etl_runners"
                wait_until(conn, f"SELECT count(*) FROM etl.{at_work}", 1)
                yield server, conn, process
            finally:
                process.terminate()
                process.wait()
    finally:
        server.purge()
        shutil.rmtree(home, ignore_errors=True)


def latency(
    server: EmbeddedPostgres, conn: Connection, process: "subprocess.Popen[bytes]", rate: int, seconds: int
) -> None:
    """From a commit to its row in the log, as a follower that is woken sees it."""
    script = Path(tempfile.mkstemp(prefix="vitrina-bench-", suffix=".sql")[1])
    script.write_text("INSERT INTO content.events DEFAULT VALUES;\n")
    options = ["-n", "-c", "4", "-R", str(rate), "-T", str(seconds), "-f", str(script)]
    command = [server.program("pgbench"), *options, server.conninfo()]
    before = cpu_seconds(process.pid)
    load = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    seen: list[float] = []
    with psycopg.connect(server.conninfo(), autocommit=True) as listener:
        listener.execute("LISTEN vitrina_changes")
        last = 0
        while load.poll() is None:
            for _ in listener.notifies(timeout=0.5, stop_after=1):
                pass
            ages, last = read_ages(conn, last)
            seen += ages
    script.unlink()
    used = (cpu_seconds(process.pid) - before) / seconds
    parts = statistics.quantiles(seen, n=100)
    p50, p95, p99 = (f"{parts[n - 1] * 1000:.1f} ms" for n in (50, 95, 99))
    print(f"  {len(seen) / seconds:,.0f} transactions a second for {seconds} s, at {used:.0%} of a core;")
    print(f"  commit to log: p50 {p50}, p95 {p95}, p99 {p99}")


def read_ages(conn: Connection, last: int) -> tuple[list[float], int]:
    """How old the new changes are."""
    ages: list[float] = []
    top = conn.execute("SELECT last_id FROM etl.etl_captures").fetchone()
    assert top is not None
    for segment in conn.execute("SELECT name FROM etl.etl_change_segments ORDER BY first_id").fetchall():
        rows = conn.execute(
            f"SELECT extract(epoch FROM clock_timestamp() - committed_at)::float AS age FROM etl_log.{segment['name']}"
            f" WHERE id > {last} AND id <= {top['last_id']}".encode()
        ).fetchall()
        ages += [row["age"] for row in rows]
    return ages, int(top["last_id"])


def bulk(conn: Connection, process: "subprocess.Popen[bytes]", rows: int) -> None:
    """One large transaction, then one that updates it all."""
    for what, statement in {
        "inserts": f"INSERT INTO content.events (note) SELECT 'n' FROM generate_series(1, {rows})",
        "updates": "UPDATE content.events SET price = price + 1 WHERE note = 'n'",
    }.items():
        row = conn.execute("SELECT last_id FROM etl.etl_captures").fetchone()
        assert row is not None
        conn.execute(statement.encode())
        began = time.monotonic()
        wait_until(conn, "SELECT last_id FROM etl.etl_captures", row["last_id"] + rows)
        took = time.monotonic() - began
        speed = f"{rows / took:,.0f} changes a second"
        print(f"  {rows:,} {what} in one transaction: {speed}, {memory(process.pid):.0f} MB at most")


def wait_until(conn: Connection, query: str, value: int) -> None:
    """Until a number is reached."""
    deadline = time.monotonic() + 300
    while True:
        row = conn.execute(query.encode()).fetchone()
        if row and next(iter(row.values())) >= value:
            return
        if time.monotonic() > deadline:
            raise SystemExit(
                "the capture does not get there: " + str(conn.execute("TABLE etl.etl_captures").fetchone())
            )
        time.sleep(0.02)


def cpu_share(process: "subprocess.Popen[bytes]", seconds: float) -> float:
    """Of one core, over a while."""
    before = cpu_seconds(process.pid)
    time.sleep(seconds)
    return (cpu_seconds(process.pid) - before) / seconds


if __name__ == "__main__":
    main()

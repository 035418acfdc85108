"""`make load`: 10,000 pipelines in the meta-store, 8 runner processes, 200 runs a minute, and people who look on.

Before that, 200 pipelines that are overdue at once: who comes first, and what a claim takes when all slots compete.

Each runner is a real one, with slots, heartbeat and LISTEN; runs are real, of small marts. `ARGS=--seconds=20` is
shorter. The machine's load is written too: on a busy one the times tell little, and the buffers still tell all.
"""

import argparse
import json
import multiprocessing
import os
import platform
import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from socket import IPPROTO_TCP, TCP_NODELAY
from typing import Any
from uuid import uuid4

import httpx
import uvicorn

from bench.costs import tick_costs
from vitrina import bootstrap
from vitrina.control.api.app import create_app
from vitrina.demo.data import load_cinema
from vitrina.demo.settings import allow_cinema
from vitrina.meta.db import Connection, connect
from vitrina.meta.repos.leases import Claim, LeaseRepo
from vitrina.meta.repos.pipelines import PipelineRepo
from vitrina.meta.repos.tokens import TokenRepo
from vitrina.runner.main import Runner
from vitrina.settings import Settings

HOME = Path(__file__).parent / "out" / "load"
RESULTS = Path(__file__).parent / "load.json"
PIPELINES, RUNNERS, PER_MINUTE, CLAIMS = 10_000, 8, 200, 1_000
SLOTS = 2
FILL = """
    INSERT INTO etl.etl_pipelines (name, source_query, target_table, key, schedule_interval)
    SELECT 'mart_' || n, 'SELECT f.id AS film_id, f.title FROM content.film_work f', 'analytics.mart_' || n,
           '{film_id}', '1h'
    FROM generate_series(%s::int, %s::int) AS n
"""
FAR = "UPDATE etl.etl_pipelines SET due_at = now() + interval '1 day'"
SOON = """
    UPDATE etl.etl_pipelines SET due_at = now() + make_interval(secs => 2 + number * 60.0 / %s)
    FROM generate_series(1, %s) AS number WHERE name = 'mart_' || number
"""
LATE = """
    UPDATE etl.etl_pipelines SET due_at = now() - make_interval(secs => 600 - number)
    FROM generate_series(1, %s) AS number WHERE name = 'mart_' || (5000 + number)
"""
REST = "UPDATE etl.etl_pipelines SET status = 'PAUSED' WHERE status = 'RUN_REQUESTED'"
LEFT = """
    SELECT count(*) AS n FROM etl.etl_pipelines
    WHERE status IN ('RUN_REQUESTED', 'RUNNING') OR (status = 'IDLE' AND due_at <= now())
"""
WAITED = """
    SELECT extract(epoch FROM r.started_at - r.due_at)::float AS waited, r.status FROM etl.etl_runs r
    JOIN etl.etl_pipelines p ON p.id = r.pipeline_id WHERE p.name = ANY (%s) ORDER BY r.id
"""
ORDER = """
    SELECT max(abs(by_run - by_due)) AS n FROM (
        SELECT row_number() OVER (ORDER BY r.id) AS by_run, row_number() OVER (ORDER BY r.due_at) AS by_due
        FROM etl.etl_runs r JOIN etl.etl_pipelines p ON p.id = r.pipeline_id WHERE p.name = ANY (%s)) AS numbered
"""
PAGES = {
    "list": "/api/v1/pipelines?limit=50",
    "get": "/api/v1/pipelines/mart_7",
    "status": "/api/v1/pipelines/mart_7/status",
    "runs": "/api/v1/pipelines/mart_7/runs",
}
TARGETS = {
    "claim_p99_ms": 20.0,
    "api_p95_ms": 50.0,
    "double_claims": 0,
    "failed_runs": 0,
    "out_of_order": RUNNERS * SLOTS,
}


def main() -> None:
    """Fill, measure, print, write."""
    parser = argparse.ArgumentParser(prog="make load")
    parser.add_argument("--seconds", type=int, default=90)
    seconds: int = parser.parse_args().seconds
    warehouse = bootstrap.open_warehouse(_settings())
    try:
        with connect(warehouse.owner, "load") as conn:
            load_cinema(conn, films=60, ratings=400)
            bootstrap.set_up(warehouse, _settings())
            measured = _prepare(conn) | {"double_claims": _claims()} | _load(conn, seconds)
    finally:
        assert warehouse.embedded is not None
        warehouse.embedded.purge()
    _show(measured, seconds)


def _settings() -> Settings:
    return allow_cinema(Settings(home=HOME, slots=SLOTS, _env_file=None))  # type: ignore[call-arg]


def _warehouse() -> bootstrap.Warehouse:
    """The one that is running, for a process that joins."""
    server = bootstrap.embedded_server(_settings())
    url = server.conninfo(bootstrap.DATABASE)
    return bootstrap.Warehouse(url, url, server)


def _prepare(conn: Connection) -> dict[str, Any]:
    """Pipelines, and what a tick costs with 100 of them and with all."""
    conn.execute(FILL, [1, 100])
    conn.execute(FAR)
    few = tick_costs(conn)
    conn.execute(FILL, [101, PIPELINES])
    conn.execute(FAR)
    many = tick_costs(conn)
    return {"tick": {f"{count:,} pipelines": costs for count, costs in ((100, few), (PIPELINES, many))}}


# ── claims ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _claims() -> int:
    """How often two of eight processes got the same epoch of the same pipeline, in 1,000 claims of ten pipelines."""
    context = multiprocessing.get_context("spawn")
    with context.Pool(RUNNERS) as pool:
        lists = pool.map(_claim_many, [CLAIMS // RUNNERS] * RUNNERS)
    claims = [tuple(claim) for found in lists for claim in found]
    assert len(claims) >= CLAIMS
    return len(claims) - len(set(claims))


def _claim_many(count: int) -> list[tuple[str, int]]:
    seen: list[tuple[str, int]] = []
    with connect(bootstrap.connections(_warehouse(), _settings()).warehouse, "load") as conn:
        leases, pipelines = LeaseRepo(conn, uuid4(), f"claimer {os.getpid()}", 30), PipelineRepo(conn)
        names = [f"mart_{number}" for number in range(9_001, 9_011)]
        ids = [pipelines.get(name).id for name in names]
        while len(seen) < count:
            for id_ in ids:
                pipelines.request_run(id_)
            if claim := leases.claim():
                seen.append((claim.name, claim.epoch))
                leases.succeed(claim)
    return seen


# ── runs ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _load(conn: Connection, seconds: int) -> dict[str, Any]:
    conn.execute(REST)  # what the claims have left
    conn.execute(FAR)
    soon, late = seconds * PER_MINUTE // 60, 200
    with _processes(_work, RUNNERS) as runners, _processes(_serve, 1) as api:
        token = TokenRepo(conn).create(f"load-{time.time_ns()}", "viewer")
        conn.execute(LATE, [late])
        _wait_until_done(conn)
        began = time.time()
        conn.execute(SOON, [PER_MINUTE, soon])
        answers = _look_on(api[0].recv(), token, seconds)
        _wait_until_done(conn)
    claims = [claim for runner in runners for claim in runner.recv()]
    overdue, steady = ([ms for at, ms in claims if (at >= began) == after] for after in (False, True))
    waited = conn.execute(WAITED, [[f"mart_{n}" for n in range(1, soon + 1)]]).fetchall()
    order = conn.execute(ORDER, [[f"mart_{n}" for n in range(5_001, 5_001 + late)]]).fetchone()
    assert order is not None
    return {
        "runs": len(waited),
        "failed_runs": sum(row["status"] != "SUCCESS" for row in waited),
        "claims": len(steady),
        "claim_p50_ms": round(statistics.median(steady), 2),
        "claim_p99_ms": round(statistics.quantiles(steady, n=100)[98], 2),
        "overdue_claims": len(overdue),
        "overdue_claim_p50_ms": round(statistics.median(overdue), 2),
        "overdue_claim_p99_ms": round(statistics.quantiles(overdue, n=100)[98], 2),
        "waited_seconds_p99": round(statistics.quantiles([row["waited"] for row in waited], n=100)[98], 2),
        "out_of_order": order["n"],
        "api_p95_ms": max(answer["p95"] for answer in answers.values()),
        "api": answers,
    }


@contextmanager
def _processes(work: Any, count: int) -> Iterator[list[Pipe]]:
    context = multiprocessing.get_context("spawn")
    pipes, started = [], []
    for _ in range(count):
        here, there = context.Pipe()
        process = context.Process(target=work, args=(there,))
        process.start()
        pipes.append(here)
        started.append(process)
    try:
        yield pipes
    finally:
        for process in started:
            process.terminate()
        for process in started:
            process.join(30)


def _work(pipe: Pipe) -> None:
    """A real runner; at its end it tells of each claim that gave it a pipeline: when, and how long it took."""
    times: list[tuple[float, float]] = []
    claim = LeaseRepo.claim

    def timed(self: LeaseRepo, only: Any = None, avoided: Sequence[str] = ()) -> Claim | None:
        began = time.perf_counter()
        found = claim(self, only, avoided)
        if found:
            times.append((time.time(), (time.perf_counter() - began) * 1000))
        return found

    LeaseRepo.claim = timed  # type: ignore[method-assign]
    runner = Runner(bootstrap.connections(_warehouse(), _settings()))
    runner.stop_on_signals()
    runner.main_loop()
    pipe.send(times)


def _wait_until_done(conn: Connection, seconds: float = 300) -> None:
    deadline = time.monotonic() + seconds
    while (left := conn.execute(LEFT).fetchone()) and left["n"]:
        assert time.monotonic() < deadline, f"{left['n']} pipelines are still waiting"
        time.sleep(0.5)


# ── people ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _serve(pipe: Pipe) -> None:
    """The API, in a process of its own; it tells where."""
    app = create_app(bootstrap.control_plane(_warehouse(), _settings()))
    config = uvicorn.Config(app, port=0, log_level="warning", timeout_graceful_shutdown=1)
    socket = config.bind_socket()
    socket.setsockopt(IPPROTO_TCP, TCP_NODELAY, 1)  # as when uvicorn binds by itself: no answer waits for an ACK
    pipe.send(f"http://127.0.0.1:{socket.getsockname()[1]}")
    uvicorn.Server(config).run(sockets=[socket])


def _look_on(url: str, token: str, seconds: int) -> dict[str, dict[str, float]]:
    """Ask for each page ten times a second or so, for as long as the load lasts."""
    times: dict[str, list[float]] = {name: [] for name in PAGES}
    deadline = time.monotonic() + seconds
    with httpx.Client(base_url=url, headers={"Authorization": f"Bearer {token}"}, timeout=30) as client:
        client.get("/livez")
        while time.monotonic() < deadline:
            for name, path in PAGES.items():
                began = time.perf_counter()
                client.get(path).raise_for_status()
                times[name].append((time.perf_counter() - began) * 1000)
            time.sleep(0.1)
    return {name: _summary(found) for name, found in times.items()}


def _summary(times: Sequence[float]) -> dict[str, float]:
    cuts = statistics.quantiles(times, n=100)
    return {"p50": round(cuts[49], 1), "p95": round(cuts[94], 1)}


# ── the result ───────────────────────────────────────────────────────────────────────────────────────────────────


def _show(measured: dict[str, Any], seconds: int) -> None:
    for count, costs in measured["tick"].items():
        print(f"a tick with {count}: {costs['ms']:.2f} ms, buffers {costs['buffers']}")
    for name in ("runs", "claim_p50_ms", "waited_seconds_p99", "overdue_claim_p50_ms", "overdue_claim_p99_ms"):
        print(f"{name:20} {measured[name]}")
    for name, target in TARGETS.items():
        met = "yes" if measured[name] <= target else "NO"
        print(f"{name:20} {measured[name]}   at most {target}: {met}")
    print(f"the API: {measured['api']}")
    known = {"date": datetime.now(UTC).date().isoformat(), "python": platform.python_version()}
    known |= {"load": round(os.getloadavg()[0], 1), "pipelines": PIPELINES, "runners": RUNNERS, "seconds": seconds}  # type: ignore[dict-item]
    RESULTS.write_text(json.dumps(known | measured, indent=2) + "\n")


if __name__ == "__main__":
    main()

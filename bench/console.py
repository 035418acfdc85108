"""`make bench-console`: the home page over HTTP, with 1,000 pipelines and 100,000 runs in the meta-store."""

import json
import os
import platform
import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import httpx
import psycopg
import uvicorn

from vitrina import bootstrap
from vitrina.control.api.app import create_app
from vitrina.demo.settings import allow_cinema
from vitrina.meta.repos.sessions import SessionRepo
from vitrina.meta.repos.tokens import TokenRepo
from vitrina.settings import Settings

HOME = Path(__file__).parent / "out" / "console"
RESULTS = Path(__file__).parent / "console.json"
TARGET_MS = 100.0
ROUNDS = 200
PAGES = {
    "home": "/console/",
    "home, sorted by the last run": "/console/?sort=last",
    "home, the stalest first": "/console/?sort=fresh",
    "home, filtered": "/console/?q=mart_1&status=FAILED",
    "home, the last page": "/console/?page=20",
    "live values of the home page": "/console/live/home?once=true&have={have}",
}
FILL = """
    TRUNCATE etl.etl_pipelines CASCADE;
    INSERT INTO etl.etl_pipelines (name, description, source_query, target_table, key, mode, incremental_key,
                                   incremental_id_key, schedule_interval, enabled)
    SELECT 'mart_' || n, 'One of many', 'SELECT f.id AS film_id, f.title FROM content.film_work f',
           'analytics.mart_' || n, '{film_id}', CASE WHEN n % 3 = 0 THEN 'incremental' ELSE 'full' END,
           CASE WHEN n % 3 = 0 THEN 'modified' END, CASE WHEN n % 3 = 0 THEN 'film_id' END, '5m', n % 50 <> 0
    FROM generate_series(1, 1000) AS n;
    INSERT INTO etl.etl_runs (pipeline_id, status, config_version, runner, started_at, finished_at, rows_read,
                              rows_written, batches, error)
    SELECT p.id, CASE WHEN n % 17 = 0 THEN 'FAILED' ELSE 'SUCCESS' END, 1, 'bench',
           now() - make_interval(mins => 5 * (100 - n)), now() - make_interval(mins => 5 * (100 - n), secs => -n),
           10000, n, 3, CASE WHEN n % 17 = 0 THEN 'the source is not there — look at its server' END
    FROM generate_series(1, 100) AS n CROSS JOIN etl.etl_pipelines p;
    UPDATE etl.etl_state SET last_processed_value = now()::text;
    UPDATE etl.etl_pipelines SET status = 'RUNNING' WHERE right(name, 1) = '7';
    UPDATE etl.etl_pipelines SET status = 'FAILED' WHERE right(name, 2) = '17';
    ANALYZE
"""


def main() -> None:
    """Fill, ask, print, write. The machine's load is written too: on a busy one only the processor time tells."""
    settings = allow_cinema(Settings(home=HOME, _env_file=None))  # type: ignore[call-arg]
    warehouse = bootstrap.open_warehouse(settings)
    bootstrap.set_up(warehouse, settings)
    try:
        with psycopg.connect(warehouse.owner, autocommit=True, row_factory=psycopg.rows.dict_row) as conn:
            conn.execute(FILL)
            session = SessionRepo(conn).open(TokenRepo(conn).create(f"bench-{time.time_ns()}", "admin"))
            assert session is not None
            with _serving(warehouse, settings) as url:
                measured = _measure(url, session[0])
    finally:
        assert warehouse.embedded is not None
        warehouse.embedded.stop()
    _show(measured)


@contextmanager
def _serving(warehouse: bootstrap.Warehouse, settings: Settings) -> Iterator[str]:
    app = create_app(bootstrap.control_plane(warehouse, settings))
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="warning", timeout_graceful_shutdown=1))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()


def _measure(url: str, session: str) -> dict[str, dict[str, float]]:
    measured = {}
    with httpx.Client(base_url=url, cookies={"vitrina_session": session}, timeout=60) as client:
        shown = client.get("/console/").text.split('id="row-')[1:]
        have = ",".join(f"row-{row[:36]}:x" for row in shown)
        for name, path in PAGES.items():
            used = time.process_time()
            times = [_time(client, path.format(have=have)) for _ in range(ROUNDS)][10:]
            cuts, used = statistics.quantiles(times, n=100), (time.process_time() - used) / ROUNDS * 1000
            measured[name] = {"p50": round(cuts[49], 1), "p95": round(cuts[94], 1), "cpu": round(used, 1)}
    return measured


def _time(client: httpx.Client, path: str) -> float:
    started = time.perf_counter()
    response = client.get(path)
    assert response.status_code == 200, response.text
    return (time.perf_counter() - started) * 1000


def _show(measured: dict[str, dict[str, float]]) -> None:
    for name, times in measured.items():
        verdict = "yes" if times["p95"] < TARGET_MS else "NO"
        figures = "   ".join(f"{key} {value:6.1f} ms" for key, value in times.items())
        said = f"{figures}   p95 under {TARGET_MS:.0f} ms: {verdict}"
        print(f"{name:32} {said}")
    today, load = datetime.now(UTC).date().isoformat(), os.getloadavg()[0]
    known = {"date": today, "python": platform.python_version(), "load": round(load, 1)}
    RESULTS.write_text(json.dumps(known | {"milliseconds": measured}, indent=2) + "\n")


main()

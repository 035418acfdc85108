"""A runner with a thousand pipelines of which none is due: what it costs to be there."""

import time

from bench.films import RATINGS
from bench.ground import Ground
from bench.processes import cpu_seconds, cpu_seconds_of_family, memory
from bench.report import Measured, Options, Report, Target

FILMS = 2_000
PIPELINES = {"tiny": 100, "small": 1_000, "full": 1_000}
SECONDS = {"tiny": 1, "small": 20, "full": 60}
FILL = """
    INSERT INTO etl.etl_pipelines (name, source_query, target_table, key, schedule_interval)
    SELECT 'idle_' || n, 'SELECT f.id AS film_id, f.title FROM content.film_work f', 'analytics.idle_' || n,
           '{{film_id}}', '0 0 29 2 *'
    FROM generate_series(1, {pipelines}) AS n
"""
# Every pipeline has got its due time, and the runner has beaten twice.
HAS_SETTLED = """
    SELECT EXISTS (SELECT FROM etl.etl_runners WHERE seen_at > started_at)
       AND NOT EXISTS (SELECT FROM etl.etl_pipelines WHERE due_at IS NULL) AS yes
"""
SERVER = "SELECT split_part(pg_read_file('postmaster.pid'), E'\\n', 1)::integer"


def measure(options: Options) -> Report:
    """Processor time of the runner, and of the whole server beside it, over a while."""
    pipelines, seconds = PIPELINES[options.scale], SECONDS[options.scale]
    with Ground.prepared(FILMS, RATINGS) as ground:
        ground.execute(FILL.format(pipelines=pipelines), "VACUUM ANALYZE")
        measured = watch(ground, seconds)
        version = ground.server_version()
    rows = [[name, f"{value:,.2f}"] for name, value in measured.items()]
    targets = [Target.at_most("runner, % of a core", measured["runner, % of a core"], 1.0)]
    title = f"Idle: {pipelines:,} pipelines, nothing due, {seconds} s"
    return Report(title, ["what", "measured"], rows, targets, measured, {"postgres": version})


def watch(ground: Ground, seconds: float) -> Measured:
    """From when the runner has been up for a while: its start is not what is measured."""
    server = int(ground.value(SERVER))
    ground.execute("DELETE FROM etl.etl_runners")
    with ground.runner() as runner:
        ground.wait_until(HAS_SETTLED)
        runner_before, server_before, started = cpu_seconds(runner.pid), cpu_seconds_of_family(server), time.monotonic()
        time.sleep(seconds)
        took = time.monotonic() - started
        ours, theirs = cpu_seconds(runner.pid) - runner_before, cpu_seconds_of_family(server) - server_before
        most = memory(runner.pid)
    assert ground.value("SELECT count(*) FROM etl.etl_runs") == 0, "something was due"
    shares = {"runner, % of a core": 100 * ours / took, "the server beside it, % of a core": 100 * theirs / took}
    return shares | {"runner memory, MB": most}

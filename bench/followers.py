"""Many live marts over the same tables, on one runner: how late each is, what that costs, and what being there does."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from bench.followed import IS_LIVE, Followed, percentile
from bench.live import LATENESS, RATINGS
from bench.processes import cpu_seconds
from bench.report import Measured, Options, Report, Target
from vitrina.demo.data import load_cinema
from vitrina.domain.pipeline import Pipeline
from vitrina.meta.db import Connection
from vitrina.meta.repos.pipelines import PipelineRepo

TABLES = [f"ratings_{n}" for n in range(1, 6)]
MARTS = {"tiny": (2, 5), "small": (10, 100), "full": (10, 100)}
SECONDS = {"tiny": 2, "small": 10, "full": 60}
REST_SECONDS = {"tiny": 1, "small": 20, "full": 60}
RATE = 100  # changes a second, of all tables together
ROWS = 10  # of a film
SELECT = """
    SELECT r.film_id, round(avg(r.rating), 2) AS average, count(*) + {number} AS votes
    FROM ugc.{table} r GROUP BY r.film_id
"""
# One rating each of films that are all different, of one table after the other.
CHANGE = """
    \\set i :i + 1
    \\set k :i * :clients + :client_id
    \\set t :k % 5
    \\set n :k * 10
"""
BRANCH = """
    UPDATE ugc.{table} SET rating = (rating + 1) % 11, modified = now() WHERE id = md5('rating' || :n::text)::uuid;
"""
FOLLOWED = "SELECT count(*) = {count} AS yes FROM etl.etl_pipelines WHERE status = 'FOLLOWING'"
CAUGHT_UP = """
    SELECT NOT EXISTS (SELECT FROM etl.etl_followers f WHERE f.concerned OR f.reason IS NOT NULL) AS yes
"""


def measure(options: Options) -> Report:
    """With few marts, and with many; every change concerns a fifth of them."""
    scale = options.scale
    few, many = MARTS[scale]
    rows = (SECONDS[scale] + 5) * RATE * ROWS * 2
    measured: Measured = {}
    with Followed.started(
        f"followers-{scale}", lambda conn: fill(conn, rows), [f"ugc.{t}" for t in TABLES]
    ) as followed:
        for count in (few, many):
            with following(followed, count) as marts:
                measured |= busy(followed, marts, SECONDS[scale])
                measured |= at_rest(followed, marts, REST_SECONDS[scale])
        version = followed.server_version()
    shown = [[name, f"{value:,.2f}"] for name, value in measured.items()]
    title = f"{few} and {many} live marts over 5 tables, {RATE} changes a second"
    return Report(title, ["what", "measured"], shown, judge(measured, few, many), measured, {"postgres": version})


def judge(measured: Measured, few: int, many: int) -> list[Target]:
    """Latenesses from commit to commit, with the load generator on the same machine."""
    ratio = measured[f"{many} marts, ms of a core for a mart and change"]
    ratio /= measured[f"{few} marts, ms of a core for a mart and change"]
    return [
        Target.at_most(f"{many} marts, p99 ms", measured[f"{many} marts, p99 ms"], 1000.0),
        Target.at_most(f"cost of a mart and change, {many} marts / {few}", ratio, 1.0),
        Target.at_most(f"{many} marts at rest, % of a core", measured[f"{many} marts at rest, % of a core"], 2.0),
    ]


def fill(conn: Connection, rows: int) -> None:
    """Five tables of ratings."""
    with conn.transaction():
        load_cinema(conn, films=1_000, ratings=1_000)
    for table in TABLES:
        conn.execute(RATINGS.format(name=table, rows=rows).encode())
    conn.execute("VACUUM ANALYZE")


@contextmanager
def following(followed: Followed, count: int) -> Iterator[list[tuple[Pipeline, str]]]:
    """So many live marts, with their tables, from when all are followed; compared with their queries, and removed."""
    marts = [(mart(number), TABLES[number % len(TABLES)]) for number in range(count)]
    for pipeline, _ in marts:
        PipelineRepo(followed.db).add(pipeline)
    for pipeline, _ in marts:
        followed.wait_until(IS_LIVE, [pipeline.id])
    followed.wait_until(FOLLOWED.format(count=count))
    followed.execute("VACUUM ANALYZE")
    yield marts
    followed.wait_until(CAUGHT_UP)
    for pipeline, _ in marts:
        followed.check(pipeline)
    followed.execute("DELETE FROM etl.etl_pipelines", *(f"DROP TABLE {p.target_table}" for p, _ in marts))


def mart(number: int) -> Pipeline:
    """Of one of the tables."""
    select = SELECT.format(number=number, table=TABLES[number % len(TABLES)])
    return Pipeline(
        name=f"of_{number}", source_query=select, target_table=f"analytics.of_{number}", key=("film_id",), mode="live"
    )


def busy(followed: Followed, marts: Sequence[tuple[Pipeline, str]], seconds: int) -> Measured:
    """How late each change was in each mart, and what the runner used for one in one."""
    since, count = followed.value("SELECT clock_timestamp()"), len(marts)
    branches = [f"{'if' if n == 0 else 'elif'} :t = {n}\n{BRANCH.format(table=t)}" for n, t in enumerate(TABLES)]
    script = CHANGE + "".join(f"    \\{branch}" for branch in branches) + "    \\endif\n"
    before = cpu_seconds(followed.follower.pid)
    followed.generate(script, RATE, seconds)
    followed.wait_until(CAUGHT_UP)
    time.sleep(1)  # of the capture: what it has not captured yet concerns nobody
    followed.wait_until(CAUGHT_UP)
    used = cpu_seconds(followed.follower.pid) - before
    late = [
        ms
        for pipeline, table in marts
        for ms in followed.values(LATENESS.format(name=table, mart=pipeline.target_table, since=since))
    ]
    return {
        f"{count} marts, p50 ms": percentile(late, 50),
        f"{count} marts, p99 ms": percentile(late, 99),
        f"{count} marts, ms of a core for a mart and change": 1000 * used / len(late),
    }


def at_rest(followed: Followed, marts: Sequence[object], seconds: int) -> Measured:
    """What the runner uses while nothing changes."""
    before = cpu_seconds(followed.follower.pid)
    time.sleep(seconds)
    share = 100 * (cpu_seconds(followed.follower.pid) - before) / seconds
    return {f"{len(marts)} marts at rest, % of a core": share}

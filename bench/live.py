"""Live marts: how long after its commit a change is in the mart, and what it costs.

Each lateness is the time between two commits, of the source's row and of the mart's, as the server stamped them.
"""

import os
import statistics
import time
from dataclasses import dataclass

from bench.followed import Followed, Load, percentile
from bench.report import Measured, Options, Report, Target
from vitrina.demo.data import load_cinema
from vitrina.domain.pipeline import Pipeline
from vitrina.meta.db import Connection

CARD = """
    SELECT f.id AS film_id, f.title, f.rating,
           array_agg(DISTINCT g.name ORDER BY g.name) FILTER (WHERE g.name IS NOT NULL) AS genres
    FROM content.film_work f
    LEFT JOIN content.genre_film_work fg ON fg.film_work_id = f.id
    LEFT JOIN content.genre g ON g.id = fg.genre_id
    GROUP BY f.id
"""
RATINGS = """
    CREATE TABLE ugc.{name} (LIKE ugc.ratings INCLUDING DEFAULTS);
    INSERT INTO ugc.{name} (id, user_id, film_id, rating)
    SELECT md5('rating' || n)::uuid, md5('user' || n % 1000)::uuid, md5('film' || n / 10)::uuid, n % 11
    FROM generate_series(0, {rows} - 1) AS n ORDER BY 1;
    ALTER TABLE ugc.{name} ADD PRIMARY KEY (id), ADD UNIQUE (user_id, film_id), REPLICA IDENTITY FULL;
    CREATE INDEX ON ugc.{name} (film_id);
    CREATE INDEX ON ugc.{name} (modified, id);
"""
# One rating each of films that are all different: no change hides behind a later one.
CHANGE_RATING = """
    \\set i :i + 1
    \\set n (:i * :clients + :client_id) * 10
    UPDATE ugc.{name} SET rating = (rating + 1) % 11, modified = now() WHERE id = md5('rating' || :n::text)::uuid;
"""
LATENESS = """
    SELECT 1000 * extract(epoch FROM pg_xact_commit_timestamp(m.xmin) - pg_xact_commit_timestamp(r.xmin)) AS ms
    FROM ugc.{name} r JOIN {mart} m USING (film_id) WHERE r.modified > '{since}' ORDER BY r.modified
"""
PAGES = """
    SELECT sum(shared_blks_hit + shared_blks_read) AS pages FROM public.pg_stat_statements
    WHERE NOT toplevel AND query LIKE '%FROM ugc.{name} %'
"""

RENAMED = "md5('genre of the benchmark')::uuid"
WIDESPREAD = """
    INSERT INTO content.genre (id, name) VALUES ({genre}, 'Widespread');
    INSERT INTO content.genre_film_work (id, film_work_id, genre_id)
    SELECT md5('link of the benchmark' || id)::uuid, id, {genre} FROM content.film_work ORDER BY id LIMIT {films};
    ALTER TABLE content.genre_film_work REPLICA IDENTITY FULL;
"""


@dataclass(frozen=True)
class Scale:
    """How much of everything."""

    films: int
    renamed: int
    ratings: tuple[int, ...]
    seconds: int  # at 100 changes a second
    open_loop_seconds: int  # at 1,000


SCALES = {
    "tiny": Scale(1_000, 100, (1_000, 10_000), 2, 1),
    "small": Scale(100_000, 10_000, (30_000, 100_000, 300_000), 10, 10),
    "full": Scale(1_000_000, 100_000, (300_000, 1_000_000, 3_000_000), 20, 60),
}


def measure(options: Options) -> Report:
    """Every work with a runner that has been up for a while; each mart is compared with its query at the end."""
    scale = options.scale
    size = SCALES[scale]
    tables = [f"ugc.{table(rows)}" for rows in size.ratings]
    tables += ["content.film_work", "content.genre", "content.genre_film_work"]
    measured: Measured = {"load average before": os.getloadavg()[0]}
    with Followed.started(f"live-{scale}", lambda conn: fill(conn, size), tables) as followed:
        for rows in size.ratings:
            measured |= steady(followed, rows, size.seconds)
        measured["full refresh, s"] = full_refresh(followed, size.ratings[-1])
        measured |= open_loop(followed, size.ratings[-1], size.open_loop_seconds)
        measured |= rename(followed, options.times)
        version = followed.server_version()
    measured["load average after"] = os.getloadavg()[0]
    head = ["work", "measured"]
    return Report(f"Live marts, {scale}", head, _rows(measured), judge(measured, size), measured, {"postgres": version})


def judge(measured: Measured, size: Scale) -> list[Target]:
    """Latenesses in ms, from commit to commit, with the load generator on the same machine."""
    at_most, most = Target.at_most, table(size.ratings[-1])
    ratio = measured[f"{most} pages"] / measured[f"{table(size.ratings[0])} pages"]
    return [
        at_most(f"one rating among {size.ratings[-1]:,}, p50 ms", measured[f"{most} p50"], 15.0),
        at_most(f"one rating among {size.ratings[-1]:,}, p99 ms", measured[f"{most} p99"], 50.0),
        at_most(f"one rating among {size.ratings[-1]:,} after a rest, ms", measured[f"{most} after a rest"], 40.0),
        at_most("pages read for a change, largest / smallest table", ratio, 1.5),
        at_most("1,000 changes a second, p99 ms", measured["open loop p99"], 1000.0),
        at_most(f"genre of {size.renamed:,} films renamed, s", measured["rename"], 10.0),
    ]


def _rows(measured: Measured) -> list[list[str]]:
    return [[name, f"{value:,.2f}"] for name, value in measured.items() if "load average" not in name]


def table(rows: int) -> str:
    """The name of the table with so many ratings."""
    return f"ratings_{rows // 1000}k"


def fill(conn: Connection, size: Scale) -> None:
    """The cinema, a genre that many films have, and ratings, ten a film, in tables of several sizes."""
    with conn.transaction():
        load_cinema(conn, films=size.films, ratings=1_000)
    for rows in size.ratings:
        conn.execute(RATINGS.format(name=table(rows), rows=rows).encode())
    conn.execute(WIDESPREAD.format(genre=RENAMED, films=size.renamed).encode())
    conn.execute("VACUUM ANALYZE")


# ── ratings ──────────────────────────────────────────────────────────────────────────────────────────────────────


def aggregate(rows: int) -> Pipeline:
    """What users think of each film."""
    name = table(rows)
    select = f"""
        SELECT r.film_id, round(avg(r.rating), 2) AS avg_rating, count(*) AS rating_count
        FROM ugc.{name} r
        GROUP BY r.film_id
    """
    target = f"analytics.agg_of_{name}"
    return Pipeline(name=f"agg_of_{name}", source_query=select, target_table=target, key=("film_id",), mode="live")


def steady(followed: Followed, rows: int, seconds: int) -> Measured:
    """100 changes a second among so many ratings; then single ones, that find the follower at rest."""
    name, pipeline = table(rows), aggregate(rows)
    with followed.live(pipeline):
        followed.execute("SELECT public.pg_stat_statements_reset()")
        lates, load = changed(followed, pipeline, rows, 100, seconds)
        pages = float(followed.value(PAGES.format(name=name))) / len(lates)
        single = [lonely(followed, pipeline, rows, number) for number in range(5)]
    figures = {"p50": percentile(lates, 50), "p99": percentile(lates, 99), "worst": max(lates), "pages": pages}
    figures |= {"after a rest": statistics.median(single), "runner, of a core": load.runner_cpu}
    return {f"{name} {what}": value for what, value in (figures | {"load average": load.load_average}).items()}


def open_loop(followed: Followed, rows: int, seconds: int) -> Measured:
    """1,000 changes a second, whether or not they are kept up with."""
    pipeline = aggregate(rows)
    with followed.live(pipeline):
        lates, load = changed(followed, pipeline, rows, 1000, seconds)
    figures = {"changes a second": len(lates) / load.seconds, "p50": percentile(lates, 50)}
    figures |= {"p99": percentile(lates, 99), "worst": max(lates), "runner, of a core": load.runner_cpu}
    return {f"open loop {what}": value for what, value in (figures | {"load average": load.load_average}).items()}


def full_refresh(followed: Followed, rows: int) -> float:
    """What one changed rating costs whoever computes everything again, in seconds."""
    view = "analytics.computed_again"
    followed.execute(f"CREATE MATERIALIZED VIEW {view} AS {aggregate(rows).source_query}", "CHECKPOINT")
    started = time.perf_counter()
    followed.execute(f"REFRESH MATERIALIZED VIEW {view}")
    took = time.perf_counter() - started
    followed.execute(f"DROP MATERIALIZED VIEW {view}")
    return took


def changed(followed: Followed, pipeline: Pipeline, rows: int, rate: int, seconds: int) -> tuple[list[float], Load]:
    """Change ratings for a while; how late each was in the mart, in ms."""
    since = followed.value("SELECT clock_timestamp()::text")
    load = followed.generate(CHANGE_RATING.format(name=table(rows)), rate, seconds)
    return lateness(followed, pipeline, rows, since), load


def lateness(followed: Followed, pipeline: Pipeline, rows: int, since: str) -> list[float]:
    """Of every rating that was changed since then."""
    followed.settle(pipeline, f"ugc.{table(rows)}")
    return followed.values(LATENESS.format(name=table(rows), mart=pipeline.target_table, since=since))


def lonely(followed: Followed, pipeline: Pipeline, rows: int, number: int) -> float:
    """One change, when the follower has gone to rest; in ms."""
    followed.rest(pipeline)
    since = followed.value("SELECT clock_timestamp()::text")
    change = "UPDATE ugc.{} SET rating = (rating + 1) % 11, modified = now() WHERE id = md5('rating' || {})::uuid"
    followed.execute(change.format(table(rows), rows - 10 * (number + 1)))
    [late] = lateness(followed, pipeline, rows, since)
    return late


# ── films ────────────────────────────────────────────────────────────────────────────────────────────────────────


def rename(followed: Followed, times: int) -> Measured:
    """A genre that many films have gets another name."""
    pipeline = Pipeline(
        name="film_card", source_query=CARD, target_table="analytics.film_card", key=("film_id",), mode="live"
    )
    with followed.live(pipeline):
        rounds = [_rename(followed, pipeline, number) for number in range(times)]
    return _medians("rename", rounds)


def _rename(followed: Followed, pipeline: Pipeline, number: int) -> Measured:
    before = followed.value("SELECT coalesce(max(id), 0) FROM etl.etl_run_events")
    followed.execute(f"UPDATE content.genre SET name = 'Widespread {number}' WHERE id = {RENAMED}")
    followed.settle(pipeline, "content.genre")
    end = f"max(pg_xact_commit_timestamp(xmin)) FILTER (WHERE 'Widespread {number}' = ANY (genres))"
    batches = f"FROM etl.etl_run_events WHERE id > {before} AND event = 'applied'"
    return {
        "": followed.since_commit("content.genre", f"id = {RENAMED}", f"SELECT {end} FROM analytics.film_card"),
        " batches": followed.value(f"SELECT count(*) {batches}"),
        " slowest batch, ms": float(followed.value(f"SELECT max((fields ->> 'ms')::float) {batches}") or 0),
        " load average": os.getloadavg()[0],
    }


def _medians(work: str, rounds: list[Measured]) -> Measured:
    return {f"{work}{what}": statistics.median(r[what] for r in rounds) for what in rounds[0]}

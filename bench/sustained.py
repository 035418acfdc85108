"""How many changes a second one live mart keeps up with: single-row transactions, and rows in transactions of 1,000.

An open loop: the generator, on the same cores, commits at its rate whatever becomes of the mart. A rate is kept up with
if it was reached and 99 of 100 changes were in the mart within a second.
"""

import os
from dataclasses import dataclass

from bench.followed import Followed, Load, percentile
from bench.live import CHANGE_RATING, RATINGS, aggregate, lateness, table
from bench.report import Measured, Options, Report, Target
from vitrina.demo.data import load_cinema
from vitrina.meta.db import Connection

LATE = 1000.0  # ms
REACHED = 0.9  # of the rate that was asked for
ROWS = 1_000  # of a transaction in bulk
CHANGE_MANY = """
    \\set i :i + 1
    \\set n (:i * :clients + :client_id) * 1000
    UPDATE ugc.{name} SET rating = (rating + 1) % 11, modified = now()
    WHERE id IN (SELECT md5('rating' || g::text)::uuid FROM generate_series(:n::integer, :n::integer + 999) AS g);
"""


@dataclass(frozen=True)
class Scale:
    """Ratings, how long each rate lasts, and the rates."""

    ratings: int
    seconds: int
    single: tuple[int, ...]
    bulk: tuple[int, ...]  # rows a second


SCALES = {
    "tiny": Scale(20_000, 2, (50,), (2_000,)),
    "small": Scale(300_000, 5, (1_000, 2_500, 5_000), (25_000, 50_000)),
    "full": Scale(3_000_000, 20, (1_000, 2_500, 5_000, 7_500), (25_000, 50_000, 100_000)),
}


def measure(options: Options) -> Report:
    """Rate by rate, until one is not kept up with."""
    size = SCALES[options.scale]
    name = f"ugc.{table(size.ratings)}"
    with Followed.started(f"sustained-{options.scale}", lambda conn: fill(conn, size.ratings), [name]) as followed:
        single, told = limit(followed, size, size.single, 1)
        bulk, of_bulk = limit(followed, size, size.bulk, ROWS)
        version = followed.server_version()
    measured = {"single rows, a second": single, "rows in bulk, a second": bulk} | told | of_bulk
    targets = [
        Target.at_least("single-row transactions a second", single, 5_000.0),
        Target.at_least("rows a second in transactions of 1,000", bulk, 50_000.0),
    ]
    shown = [[what, f"{value:,.2f}"] for what, value in measured.items()]
    title = f"Sustained changes of one live mart, {size.ratings:,} ratings"
    return Report(title, ["what", "measured"], shown, targets, measured, {"postgres": version})


def fill(conn: Connection, ratings: int) -> None:
    """The cinema, and the ratings that change."""
    with conn.transaction():
        load_cinema(conn, films=1_000, ratings=1_000)
    conn.execute(RATINGS.format(name=table(ratings), rows=ratings).encode())
    conn.execute("VACUUM ANALYZE")


def limit(followed: Followed, size: Scale, rates: tuple[int, ...], rows: int) -> tuple[float, Measured]:
    """The highest rate that was kept up with, and what was seen on the way."""
    best, measured = 0.0, Measured()
    pipeline = aggregate(size.ratings)
    with followed.live(pipeline):
        for rate in rates:
            followed.execute("CHECKPOINT")
            since = followed.value("SELECT clock_timestamp()::text")
            script = (CHANGE_RATING if rows == 1 else CHANGE_MANY).format(name=table(size.ratings))
            load = followed.generate(script, rate // rows, size.seconds)
            late = lateness(followed, pipeline, size.ratings, since)
            figures = told(late, load)
            measured |= {f"{rate:,} {'single' if rows == 1 else 'in bulk'}, {what}": v for what, v in figures.items()}
            if figures["p99 ms"] > LATE or figures["a second"] < REACHED * rate:
                break
            best = float(rate)
    return best, measured


def told(late: list[float], load: Load) -> Measured:
    """Of one rate."""
    return {
        "a second": len(late) / load.seconds,
        "p50 ms": percentile(late, 50),
        "p99 ms": percentile(late, 99),
        "runner, of a core": load.runner_cpu,
        "load average": os.getloadavg()[0],
    }

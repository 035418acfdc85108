"""Ratings to what users think of each film, first load: an aggregate, computed and written once."""

from functools import partial

from bench import peers
from bench.contest import Contest, Work
from bench.ground import Ground
from bench.report import Options, Report
from bench.tables import ByHand, ByScript, ByVitrina
from vitrina.domain.pipeline import Pipeline

SCALES = {"tiny": 20_000, "small": 300_000, "full": 3_000_000}
RATINGS_A_FILM = 10
BATCH = 5_000
COLUMNS = "film_id, avg_rating, rating_count"
SELECT = """
    SELECT r.film_id, round(avg(r.rating), 2) AS avg_rating, count(*) AS rating_count
    FROM ugc.ratings r GROUP BY r.film_id
"""
CREATE = f"CREATE TABLE analytics.by_hand AS {SELECT}"
KEY = "ALTER TABLE analytics.by_hand ADD PRIMARY KEY (film_id)"
EMPTY = (f"{CREATE} LIMIT 0", KEY)
VACUUM = "VACUUM ANALYZE ugc.ratings"


def measure(options: Options) -> Report:
    """The floor writes a table that nobody reads yet; Vitrina fills a mart in batches of its own."""
    ratings = SCALES[options.scale]
    with Ground.prepared(ratings // RATINGS_A_FILM, ratings) as ground:
        work = Work("first load", partial(ground.execute, VACUUM), floor="CREATE TABLE AS, then its key", most=1.2)
        floor = ByHand(ground, COLUMNS, (), {work.name: partial(ground.execute, CREATE, KEY)})
        found, skipped = peers.found(options, lambda python: [ByScript(python, ground, SELECT, COLUMNS, EMPTY)])
        contest = Contest(ground, ground.db, SELECT, [work], [floor, _vitrina(ground), *found])
        title = f"{ratings:,} ratings to film_rating_agg, batches of {BATCH:,}"
        return contest.report(title, options.times, peers.pinned(found), skipped)


def _vitrina(ground: Ground) -> ByVitrina:
    name, target = "ratings_by_vitrina", "analytics.ratings_by_vitrina"
    pipeline = Pipeline(name=name, source_query=SELECT, target_table=target, key=("film_id",), batch_size=BATCH)
    return ByVitrina(ground, COLUMNS, pipeline)

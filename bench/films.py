"""Films from one table to a mart on the same server: Vitrina, the statements one would write by hand, and the peers."""

from dataclasses import replace
from functools import partial
from pathlib import Path

from bench import peers
from bench.contest import Contest, Way, Work
from bench.ground import Ground
from bench.report import Options, Report, Target
from bench.tables import ByDlt, ByHand, ByScript, ByVitrina
from vitrina.domain.pipeline import Pipeline

SCALES = {"tiny": 2_000, "small": 100_000, "full": 1_000_000}
RATINGS = 20_000
BATCH = 10_000
COLUMNS = "film_id, title, description, creation_date, rating, type"
TABLE, STORED = "content.film_work", COLUMNS.replace("film_id", "id")
SELECT = """
    SELECT f.id AS film_id, f.title, f.description, f.creation_date, f.rating, f.type FROM content.film_work f
"""
ASSIGN = ", ".join(f"{c} = EXCLUDED.{c}" for c in COLUMNS.split(", ")[1:])
IMAGE = [", ".join(f"{alias}.{c}" for c in COLUMNS.split(", ")) for alias in "ms"]
MERGE = f"""
    MERGE INTO analytics.by_hand m USING ({SELECT}) s ON m.film_id = s.film_id
    WHEN MATCHED AND record_image_ne(ROW({IMAGE[0]}), ROW({IMAGE[1]})) THEN
        UPDATE SET {", ".join(f"{c} = s.{c}" for c in COLUMNS.split(", ")[1:])}
    WHEN NOT MATCHED BY TARGET THEN INSERT ({COLUMNS}) VALUES ({IMAGE[1]})
    WHEN NOT MATCHED BY SOURCE THEN DELETE
"""
INSERT = f"INSERT INTO analytics.by_hand {SELECT} ON CONFLICT (film_id) DO UPDATE SET {ASSIGN}"
EMPTY = (
    f"CREATE TABLE analytics.by_hand AS {SELECT} LIMIT 0",
    "ALTER TABLE analytics.by_hand ADD PRIMARY KEY (film_id)",
)
CHANGE_HALF = "UPDATE content.film_work SET rating = coalesce(rating, 0) + 0.1 WHERE get_byte(uuid_send(id), 0) % 2 = 0"
VACUUM = "VACUUM ANALYZE content.film_work"


def measure(options: Options) -> Report:
    """First load, nothing changed, half of the rows changed; each in turn by hand, by Vitrina and by the peers."""
    films = SCALES[options.scale]
    with Ground.prepared(films, RATINGS) as ground:
        found, skipped = peers.found(options, lambda python: _peers(python, ground))
        contest = Contest(ground, ground.db, SELECT, _works(ground), [_floor(ground), _vitrina(ground), *found])
        title = f"{films:,} films on the same server, batches of {BATCH:,}"
        report = contest.report(title, options.times, peers.pinned(found), skipped)
    again = report.medians["vitrina nothing changed"] / report.medians["vitrina first load"]
    return replace(report, targets=[*report.targets, Target.at_most("nothing changed / first load", again, 0.5)])


def _works(ground: Ground) -> list[Work]:
    vacuum, change = partial(ground.execute, VACUUM), partial(ground.execute, CHANGE_HALF, VACUUM)
    return [
        Work("first load", vacuum, floor="one INSERT … ON CONFLICT", most=0.6, ahead={"dlt": 4.0}),
        Work("nothing changed", floor="one MERGE", most=0.4, ahead={"dlt": 10.0}),
        Work("half changed", change, floor="one MERGE", most=1.2, ahead={"dlt": 3.0}),
    ]


def _floor(ground: Ground) -> ByHand:
    merge = partial(ground.execute, MERGE)
    works = {"first load": partial(ground.execute, INSERT), "nothing changed": merge, "half changed": merge}
    return ByHand(ground, COLUMNS, EMPTY, works)


def _vitrina(ground: Ground) -> ByVitrina:
    name, target = "by_vitrina", "analytics.by_vitrina"
    pipeline = Pipeline(name=name, source_query=SELECT, target_table=target, key=("film_id",), batch_size=BATCH)
    return ByVitrina(ground, COLUMNS, pipeline)


def _peers(python: Path, ground: Ground) -> list[Way]:
    return [ByDlt(python, ground, TABLE, STORED), ByScript(python, ground, SELECT, COLUMNS, EMPTY)]

"""How long the batches of the demo's marts take: what a pause, or another writer of the same rows, has to wait for."""

from bench.followed import percentile
from bench.ground import Ground
from bench.ratings import RATINGS_A_FILM, SCALES
from bench.report import Options, Report, Target
from vitrina.demo.data import load_cinema
from vitrina.domain.pipeline import Pipeline
from vitrina.files import demo_pipelines

BATCH = 5_000
MARTS = {"tiny": 2, "small": None, "full": None}  # how many; None: all
CHANGES = (
    "UPDATE content.film_work SET rating = rating + 0.1, creation_date = creation_date + 1, modified = now()"
    " WHERE get_byte(uuid_send(id), 0) < 32",
    "UPDATE content.person SET birth_date = birth_date + 1, modified = now() WHERE get_byte(uuid_send(id), 0) < 32",
    "UPDATE ugc.ratings SET rating = (rating + 1) % 11, modified = now() WHERE get_byte(uuid_send(film_id), 0) < 32",
    "VACUUM ANALYZE content.film_work, content.person, ugc.ratings",
)
TIMES = """
    SELECT (fields ->> 'ms')::float AS ms FROM etl.etl_run_events
    WHERE run_id = %s AND fields ?| '{rows_written,rows_deleted}' ORDER BY id
"""


def measure(options: Options) -> Report:
    """Each mart loaded, then brought up to date after an eighth of the rows changed; every batch counts once."""
    ratings = SCALES[options.scale]
    marts = demo_pipelines()[: MARTS[options.scale]]
    pipelines = [pipeline.model_copy(update={"batch_size": BATCH}) for pipeline in marts]
    with Ground.prepared(ratings // RATINGS_A_FILM, ratings) as ground:
        for pipeline in pipelines:
            ground.add(pipeline)
        load_cinema(ground.db)  # the cinema is there, but the marts that it comes with are gone
        times = {pipeline.name: batch_times(ground, pipeline) for pipeline in pipelines}
        ground.execute(*CHANGES)
        ground.settle_horizon("content.person")
        for pipeline in pipelines:
            times[pipeline.name] += batch_times(ground, pipeline)
        version = ground.server_version()
    return _report(f"Batches of {BATCH:,}, the demo's marts, {ratings:,} ratings", times, version)


def batch_times(ground: Ground, pipeline: Pipeline) -> list[float]:
    """Of a run, in ms, from the beginning of each transaction to its fence; the mart is compared with its query."""
    took = ground.run(pipeline)
    ground.check(pipeline)
    return [row["ms"] for row in ground.db.execute(TIMES, [took.run])]


def _report(title: str, times: dict[str, list[float]], version: str) -> Report:
    everything = [ms for found in times.values() for ms in found]
    figures = {name: (len(ms), percentile(ms, 50), percentile(ms, 95), max(ms)) for name, ms in times.items()}
    figures["all"] = (len(everything), percentile(everything, 50), percentile(everything, 95), max(everything))
    rows = [
        [name, str(n), f"{p50:.1f}", f"{p95:.1f}", f"{worst:.1f}"] for name, (n, p50, p95, worst) in figures.items()
    ]
    medians = {f"{name} p95, ms": p95 for name, (_, _, p95, _) in figures.items()}
    targets = [Target.at_most("batches of the demo's marts, p95 ms", medians["all p95, ms"], 300.0)]
    head = ["mart", "batches", "p50, ms", "p95, ms", "slowest, ms"]
    return Report(title, head, rows, targets, medians, {"postgres": version})

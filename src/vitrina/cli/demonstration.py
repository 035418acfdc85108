"""What the demo does: the cinema's tables to its marts, on one machine."""

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from threading import Thread
from typing import Any
from uuid import UUID

from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from vitrina import bootstrap
from vitrina.cli.output import console, program, say, say_table
from vitrina.cli.restarting import restart_changed
from vitrina.control.services.freshness import freshness
from vitrina.demo.data import load_cinema
from vitrina.demo.following import (
    LIVE,
    LOOK_SECONDS,
    PATIENCE_SECONDS,
    TABLES,
    capture_cinema,
    choose_film,
    looks_at,
    new_rating,
    renamed_genre,
    wait_until,
    watch,
)
from vitrina.demo.search import search_films
from vitrina.demo.settings import allow_cinema
from vitrina.domain.errors import FatalError, VitrinaError
from vitrina.domain.pipeline import WAREHOUSE, Pipeline, Plan, resolve
from vitrina.domain.positions import FullPosition
from vitrina.embedded.elasticsearch import embedded_elasticsearch
from vitrina.equality import count_differences, count_different_documents
from vitrina.files import demo_pipelines
from vitrina.log import configure_logging
from vitrina.meta.db import Connection, connect
from vitrina.meta.repos.pipelines import PipelineRepo
from vitrina.meta.repos.runs import RunRepo
from vitrina.meta.repos.state import StateRepo
from vitrina.runner.main import Runner
from vitrina.settings import Settings
from vitrina.sinks.elasticsearch.client import Elastic
from vitrina.sinks.registry import abilities_of
from vitrina.sources.connections import Connections

ENDED = ("IDLE", "FOLLOWING", "FAILED", "PAUSED")
COUNTS = ("read", "written", "deleted", "unchanged")


def demonstrate(films: int, ratings: int, *, search: bool, load: bool, verbose: bool) -> None:
    """All of it; a FatalError if a mart differs from its query."""
    settings = allow_cinema(Settings())
    restart_changed(Settings())  # what is up runs the demo's pipelines too
    configure_logging(settings.log_format, logging.INFO if verbose else logging.ERROR)
    if load:
        _load(settings, films, ratings, search=search)
        return
    with _servers(settings) as warehouse, connect(warehouse.owner, "demo") as conn:
        _prepare(conn, warehouse, settings, films, ratings)
        found = _find_search(settings) if search else None
        connections = bootstrap.connections(warehouse, found or settings)
        live = _capture(conn, connections)
        pipelines, chain = _pipelines(live=live, search=found is not None), demo_pipelines("chain")
        _store(conn, pipelines)
        before = _request(conn, pipelines)
        with _runner(connections) as look:
            runs = _run_all(conn, pipelines, before, look) | _run_chain(conn, chain, look)
            pipelines += chain
            equal = _show(connections, pipelines, runs)
            if live and equal:
                equal = _show_live(conn, connections, pipelines)
        _show_sample(conn)
        if found and equal:
            _show_search(found)
    if not equal:
        raise FatalError("a mart differs from its query")


def _load(settings: Settings, films: int, ratings: int, *, search: bool) -> None:
    """Data, captures and pipelines; whoever runs pipelines there does the rest."""
    warehouse = bootstrap.open_warehouse(settings)
    with connect(warehouse.owner, "demo") as conn:
        _prepare(conn, warehouse, settings, films, ratings)
        connections = bootstrap.connections(warehouse, settings)
        live = _capture(conn, connections)
        pipelines = _pipelines(live=live, search=search and connections.settings.elasticsearch_url is not None)
        _store(conn, pipelines + demo_pipelines("chain"))  # these are due after the marts that they read
        _request(conn, pipelines)
    say(f"{len(pipelines)} pipelines are stored and asked to run; see them with: {program()} list")


@contextmanager
def _servers(settings: Settings) -> Iterator[bootstrap.Warehouse]:
    """What is started for the demo is stopped after it; what was running before goes on."""
    postgres, elastic = bootstrap.embedded_server(settings), embedded_elasticsearch(settings)
    ours = [server for server in (elastic, postgres) if not server.is_running()]
    try:
        yield bootstrap.open_warehouse(settings)
    finally:
        stopped = [server for server in ours if server.is_running()]
        for server in stopped:
            server.stop()
        if stopped:
            option = " --search" if elastic in stopped else ""
            names = " and ".join(server.server for server in reversed(stopped))
            said = f"{names} {'are' if option else 'is'} stopped. Next: {program()} up{option}"
            say(f"\n{said} starts {'them' if option else 'it'} with the API and a runner.")


def _find_search(settings: Settings) -> Settings | None:
    """How to reach an Elasticsearch for the demo; None, and what is missing in a line, if there is none to be had."""
    try:
        if not settings.elasticsearch_url and not embedded_elasticsearch(settings).is_running():
            say("starting Elasticsearch; the first time it is fetched, about 100 MB …")
        found = bootstrap.find_search(settings)
        with closing(Elastic(found)) as elastic:
            say(f"Elasticsearch {elastic.version()}, {'as configured' if settings.elasticsearch_url else 'embedded'}")
    except VitrinaError as error:
        say("without Elasticsearch: " + " ".join(str(error).split()))
        return None
    return found


def _prepare(conn: Connection, warehouse: bootstrap.Warehouse, settings: Settings, films: int, ratings: int) -> None:
    row = conn.execute("SELECT version() AS v, to_regclass('content.film_work') IS NULL AS fresh").fetchone()
    assert row is not None
    say(f"{row['v'].split(' on ')[0]}, {'embedded' if warehouse.embedded else 'as configured'}")
    if row["fresh"]:
        say(f"loading the cinema: {films:,} films, {ratings:,} ratings …")
    load_cinema(conn, films=films, ratings=ratings)
    bootstrap.set_up(warehouse, settings)


def _capture(conn: Connection, connections: Connections) -> bool:
    """Whether marts can be live; what is missing in a line, if not."""
    try:
        with connect(connections.resolve_capture(WAREHOUSE), "demo") as captor:
            role = captor.execute("SELECT current_user::text AS role").fetchone()
        assert role is not None
        kind = capture_cinema(conn, role["role"])
    except VitrinaError as error:
        say("without live marts: " + " ".join(str(error).split()))
        return False
    say(f"the changes of {len(TABLES)} tables are captured, by {kind}")
    return True


def _pipelines(*, live: bool, search: bool) -> list[Pipeline]:
    found = demo_pipelines() + (demo_pipelines("live") if live else [])
    indexes = demo_pipelines("indexes") if search else []
    return found + [p if live else p.model_copy(update={"mode": "full"}) for p in indexes]


def _store(conn: Connection, pipelines: list[Pipeline]) -> None:
    known = {stored.id for stored in PipelineRepo(conn).all()}
    for pipeline in pipelines:
        if pipeline.id not in known:
            PipelineRepo(conn).add(pipeline)


@contextmanager
def _runner(connections: Connections) -> Iterator[Callable[[], None]]:
    """At work beside us; what is given raises what it has died of, if it has."""
    runner, died = Runner(connections), list[Exception]()

    def work() -> None:
        try:
            runner.main_loop()
        except Exception as error:
            died.append(error)

    def look() -> None:
        if died:
            raise died[0]

    thread = Thread(target=work, name="runner")
    thread.start()
    try:
        yield look
    finally:
        runner.stopping.set()
        thread.join()


def _request(conn: Connection, pipelines: list[Pipeline]) -> dict[str, int | None]:
    """Ask for a run of each; the run that each had before."""
    before = {p.name: _last_run(conn, p).get("id") for p in pipelines}
    for pipeline in pipelines:
        PipelineRepo(conn).request_run(pipeline.id)
    return before


def _run_all(
    conn: Connection, pipelines: list[Pipeline], before: dict[str, int | None], look: Callable[[], None]
) -> dict[str, dict[str, Any]]:
    repo, out = PipelineRepo(conn), console()
    columns = (TextColumn("{task.description}"), BarColumn(24), TextColumn("{task.fields[said]}"), TimeElapsedColumn())
    with Progress(*columns, console=out, disable=not out.is_terminal) as bars:
        tasks = {p.name: bars.add_task(p.name, total=None, said="waiting") for p in pipelines}
        said: dict[str, str] = {}
        waiting = list(pipelines)
        while waiting:
            look()
            for pipeline in pipelines:
                line, done, total = _progress(conn, pipeline, before[pipeline.name])
                bars.update(tasks[pipeline.name], completed=done, total=total, said=line)
                if said.get(pipeline.name) != line and not out.is_terminal:
                    say(f"{pipeline.name:22} {line}")
                said[pipeline.name] = line
            waiting = [p for p in waiting if repo.get(p.id).status not in ENDED]
            time.sleep(0.05)
    return {p.name: _last_run(conn, p) for p in pipelines}


def _run_chain(conn: Connection, chain: list[Pipeline], look: Callable[[], None]) -> dict[str, dict[str, Any]]:
    """Marts of marts: each is stored once the one before it is there, and due after it from then on."""
    runs: dict[str, dict[str, Any]] = {}
    for link in chain:
        _store(conn, [link])
        runs |= _run_all(conn, [link], _request(conn, [link]), look)
    return runs


def _last_run(conn: Connection, pipeline: Pipeline) -> dict[str, Any]:
    runs = RunRepo(conn).recent(pipeline.id, 1)
    return runs[0] if runs else {}


def _progress(conn: Connection, pipeline: Pipeline, before: int | None) -> tuple[str, int, int | None]:
    """What its run says, how far it is, and of how much; a run of an earlier demo does not count."""
    run = _last_run(conn, pipeline)
    if run.get("id") == before:
        return "waiting", 0, None
    written = run["rows_written"] + run["rows_deleted"]
    if run["status"] != "RUNNING":
        return f"{run['status'].lower()}, {run['rows_read']:,} rows read, {written:,} written", 1, 1
    position = FullPosition.parse((StateRepo(conn).get(pipeline.id) or {}).get("checkpoint") or {})
    return f"{position.phase}, {written:,} rows", position.done or 0, position.of


def _show(connections: Connections, pipelines: list[Pipeline], runs: dict[str, dict[str, Any]]) -> bool:
    """The table; whether every mart equals its query."""
    rows, all_equal = [], True
    for pipeline in pipelines:
        run, plan = runs[pipeline.name], resolve(pipeline)
        different = _differences(connections, plan) if run["status"] == "SUCCESS" else None
        all_equal &= different == 0
        verdict = {0: "yes", None: f"{run['status']}: {run['error']}"}.get(different, f"NO: {different} rows differ")
        took = (run["finished_at"] - run["started_at"]).total_seconds() * 1000
        counts = [run[f"rows_{name}"] for name in COUNTS]
        rows.append([pipeline.name, plan.target, *counts, round(took), verdict])
    say()
    say_table(["pipeline", "target", *COUNTS, "ms", "equal"], rows, (*COUNTS, "ms"))
    say("\nequal: compared with its query after the run, row for row, an index document for document")
    if all_equal and not any(run["rows_written"] or run["rows_deleted"] for run in runs.values()):
        say("nothing had changed, and nothing was rewritten")
    return all_equal


def _differences(connections: Connections, plan: Plan) -> int:
    with connections.resolve_reader(plan.source) as reader:
        if abilities_of(plan.target).is_compared_in_place:
            return count_differences(reader, plan)
        with closing(Elastic(connections.settings)) as elastic:
            return count_different_documents(reader, plan, elastic)


def _show_live(conn: Connection, connections: Connections, pipelines: list[Pipeline]) -> bool:
    """Two small changes of the source, each watched until the live marts have it; whether they are equal after it."""
    film = choose_film(conn)
    stored = [PipelineRepo(conn).get(p.id) for p in pipelines if p.target_table in LIVE]
    stored = [p for p in stored if p.config["mode"] == "live"]
    live = {str(p.target): p.id for p in stored}
    plans = {str(p.target): resolve(Pipeline.parse(p.config)) for p in stored}
    if film is None or not live:
        return True
    named = f"genre {film.genre} is renamed, which {film.films:,} films carry"
    say(f"\nlive: {film.title} gets a new rating; then {named}\n")
    rows = []
    with looks_at(conn, connections.settings, live) as (genres, ratings):
        for change, looks in ((new_rating, ratings), (renamed_genre, genres)):
            with change(conn, film) as make:
                arrived = watch(make, film.id, looks)
            wait_until(looks, film.id, [arrival.before for arrival in arrived])
            rows += [[a.mart, a.before, a.after, round(a.milliseconds)] for a in arrived]
    say_table(["mart", "before", "after", "ms"], rows, ("ms",))
    say("\nms: from the commit to the mart; the first change may have to wake the pipeline. Both are undone by now.")
    _await_following(conn, live)
    return not any(_differences(connections, plan) for plan in plans.values())


def _await_following(conn: Connection, live: dict[str, UUID]) -> None:
    """The film that was looked at may be the first of many; and what an index confirms late would be sent again."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while late := [f.state for f in freshness(conn, list(live.values())).values() if f.state != "following"]:
        if time.monotonic() > deadline:
            raise FatalError(f"live marts do not follow: {', '.join(late)}", "run it again with --verbose")
        time.sleep(LOOK_SECONDS)


def _show_sample(conn: Connection) -> None:
    columns = ["film_id", "title", "rating"]
    rows = conn.execute("SELECT film_id, title, rating FROM analytics.film_dim ORDER BY title LIMIT 5")
    say("\nanalytics.film_dim, the first by title:\n")
    say_table(columns, [[row[name] for name in columns] for row in rows])


def _show_search(settings: Settings) -> None:
    with closing(Elastic(settings)) as elastic:
        total, films = search_films(elastic, "star wars")
    say(f'\nes:film_dim, searched for "star wars": {total:,} films, the best first:\n')
    say_table(["score", "title", "year", "rating", "genres", "director"], films, ("score",))

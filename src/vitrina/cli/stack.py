"""The stack in `$VITRINA_HOME`: Postgres, API and runners in the background, or one runner in the foreground."""

import os
import secrets
import shlex
import shutil
import socket
import subprocess
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated
from uuid import UUID

import typer
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import Conninfo

from vitrina import bootstrap
from vitrina.cli.output import note, program, say
from vitrina.cli.processes import Background, all_of
from vitrina.cli.provisioning import provision, require_sign_ins
from vitrina.cli.restarting import START_SECONDS, restart_changed, start_api, start_runner
from vitrina.cli.roles import count_lacks, require_roles, say_roles
from vitrina.control.services.waiting import waiting
from vitrina.domain.errors import ConfigError, DatabaseLost, FatalError
from vitrina.domain.lifecycle import Status
from vitrina.embedded.elasticsearch import EmbeddedElasticsearch, embedded_elasticsearch
from vitrina.embedded.postgres import EmbeddedPostgres
from vitrina.log import configure_logging
from vitrina.meta.db import Connection, connect, fetch_one, queries
from vitrina.meta.repos.pipelines import PipelineRepo
from vitrina.meta.repos.sessions import SessionRepo
from vitrina.meta.repos.tokens import TokenRepo
from vitrina.settings import DEMO, Settings
from vitrina.spelling import misspelt

if TYPE_CHECKING:
    from vitrina.runner.main import Runner

ENDED = (Status.IDLE, Status.FOLLOWING, Status.PAUSED, Status.FAILED)
db = typer.Typer(help="About the warehouse.", no_args_is_help=True)


def migrate(
    with_secrets: Annotated[
        bool,
        typer.Option("--provision", help="Set the roles' passwords and the API's token to those of the environment."),
    ] = False,
) -> None:
    """Bring the meta-store and the roles up to date; safe to run at any time."""
    settings = Settings()
    warehouse = bootstrap.open_warehouse(settings)
    report = bootstrap.set_up(warehouse, settings)
    say("the meta-store is up to date")
    if not with_secrets:
        count_lacks(report)
    else:
        say_roles(report)
        with connect(warehouse.direct, "provision") as conn:
            for line in provision(conn, settings):
                say(line)
        require_roles(report)


def runner(
    once: Annotated[bool, typer.Option("--once", help="Work off what is due now, then exit.")] = False,
    pipeline: Annotated[
        str | None, typer.Option(help="With --once: run just this one (name or uuid), due or not.")
    ] = None,
    patience: Annotated[
        float, typer.Option(min=0, help="With --pipeline: for how many seconds to wait for a server that is away.")
    ] = 300,
    alive: Annotated[
        bool,
        typer.Option("--alive", help="Run nothing; exit 1 if the meta-store no longer hears of this host's runner."),
    ] = False,
) -> None:
    """Run pipelines in the foreground, until SIGTERM."""
    settings = Settings()
    if settings.transform_modules and not alive:
        from vitrina.transforms.running import begin_worker

        begin_worker(settings)  # it loads what it needs while this process does
    from vitrina.runner.main import Runner  # only here: it takes as long to import as everything else

    configure_logging(settings.log_format)
    if pipeline and not once:
        raise typer.BadParameter("--pipeline goes with --once")
    if alive:
        _require_heard(settings)
        return
    connections = bootstrap.connections(bootstrap.open_warehouse(settings), settings)
    worker = Runner(connections)
    worker.stop_on_signals()
    if not once:
        worker.main_loop()
    elif pipeline is None:
        worker.run_once()
    else:
        _run_just(worker, pipeline, patience)


def up(
    runners: Annotated[int, typer.Option(min=0, max=32, help="How many runner processes.")] = 1,
    port: Annotated[int | None, typer.Option(help="Of the API; default 8765.")] = None,
    postgres_port: Annotated[
        int | None, typer.Option(help="Let the embedded Postgres listen on this port of 127.0.0.1 too.")
    ] = None,
    search: Annotated[
        bool, typer.Option("--search", help="Start an embedded Elasticsearch too, unless ELASTICSEARCH_URL names one.")
    ] = False,
) -> None:
    """Start Postgres, migrate, and start the API and runners in the background; return when the API answers."""
    settings = Settings()
    for given, meant in misspelt():
        note(f"{given} is no setting, and has no effect: {meant} must be meant")
    if search:
        _start_search(settings)
    if postgres_port is not None and not settings.database_url:
        EmbeddedPostgres(settings.home / "postgres", port=postgres_port).start()
    warehouse = bootstrap.open_warehouse(settings)
    count_lacks(bootstrap.set_up(warehouse, settings))
    require_sign_ins(settings)
    _ensure_token(warehouse, settings)
    restart_changed(settings)
    address = start_api(settings, port)
    for number in range(1, runners + 1):
        start_runner(settings, number)
    _await_runners(warehouse, settings)
    _say_search(settings)
    say(f"up: {address}/docs, the token is in {settings.home / 'token'}")
    say(f"console, signed in once with this link, within a quarter of an hour: {_link(warehouse, settings, address)}")
    say("next: " + ", ".join(f"{program()} {command}" for command in ("list", "logs", "psql", "down")))


def down(
    purge: Annotated[bool, typer.Option("--purge", help="Delete the data too.")] = False,
) -> None:
    """Stop the API and the runners, each after its current batch, then Postgres and Elasticsearch."""
    settings = Settings()
    for process in all_of(settings.home):
        process.stop()
    for server in _servers(settings):
        server.purge() if purge else server.stop()
    if purge:
        shutil.rmtree(settings.home / "logs", ignore_errors=True)
        for name in ("token", "url", DEMO):
            (settings.home / name).unlink(missing_ok=True)
    say("down" + (", and the data is gone" if purge else ""))


def logs(
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on as more is written.")] = False,
    lines: Annotated[int, typer.Option("--lines", "-n", help="How many of each.")] = 40,
) -> None:
    """What Postgres, Elasticsearch, the API and the runners in the background say."""
    settings = Settings()
    servers = [settings.home / "postgres" / "log", embedded_elasticsearch(settings).log]
    there = [str(file) for file in (*sorted((settings.home / "logs").glob("*.log")), *servers) if file.exists()]
    if not there:
        raise ConfigError(f"there are no logs in {settings.home}", "start the stack with: vitrina up")
    subprocess.run(["tail", "-n", str(lines), *(["-F"] if follow else []), *there], check=False)


def psql(
    arguments: Annotated[list[str] | None, typer.Argument(metavar="[ARGUMENT…]", help="Passed on to psql.")] = None,
) -> None:
    """Open psql on the warehouse."""
    settings = Settings()
    warehouse = bootstrap.open_warehouse(settings)
    found = warehouse.embedded.program("psql") if warehouse.embedded else shutil.which("psql")
    if not found:
        raise ConfigError("there is no psql on this machine", "install Postgres' client, e.g. postgresql-client")
    shown, hidden = without_password(warehouse.owner)
    os.execve(found, ["psql", shown, *(arguments or [])], os.environ | hidden)


def without_password(conninfo: str) -> tuple[str, dict[str, str]]:
    """What may stand on a command line, which everybody on the machine can see, and the environment beside it."""
    parts = conninfo_to_dict(conninfo)
    password = parts.pop("password", None)
    return make_conninfo("", **parts), {"PGPASSWORD": str(password)} if password else {}


@db.command()
def env() -> None:
    """Print the same as variables for psql, pg_dump and the like; a command line is for everybody to see."""
    given = conninfo_to_dict(bootstrap.open_warehouse(Settings()).owner)
    names = {option.keyword.decode(): option.envvar.decode() for option in Conninfo.get_defaults() if option.envvar}
    for keyword, value in given.items():
        if keyword in names:
            typer.echo(f"export {names[keyword]}={shlex.quote(str(value))}")


@db.command()
def url() -> None:
    """Print how to connect to the warehouse."""
    typer.echo(bootstrap.open_warehouse(Settings()).owner)


def _require_heard(settings: Settings) -> None:
    """A probe: a runner that hangs is to be restarted, one whose meta-store is away for a while is not."""
    try:
        with connect(bootstrap.open_warehouse(settings).owner, "probe") as conn:
            params = {"host": socket.gethostname(), "seconds": 2 * settings.lease_seconds}
            row = fetch_one(conn, queries("runners")["heard"], params)
    except DatabaseLost as error:
        note(f"cannot tell: {error}")
        return
    if not (row and row["yes"]):
        raise FatalError(f"no runner of {socket.gethostname()} has been heard of", "restart it")


def _run_just(worker: "Runner", which: str, patience: float) -> None:
    deadline = datetime.now(UTC) + timedelta(seconds=patience)
    with worker.connections.open_warehouse("once") as conn:
        pipelines = PipelineRepo(conn)
        stored = pipelines.get(which)
        if not stored.enabled:
            raise ConfigError(f"pipeline {stored.name!r} is disabled", "enable it first")
        pipelines.request_run(stored.id)
        worker.run_once(stored.id)
        if pipelines.get(stored.id).status == Status.RUNNING:
            note(f"{stored.name}: another runner has it, waiting for its end")
        while (status := pipelines.get(stored.id).status) not in ENDED and not worker.stopping.wait(0.2):
            if status == Status.RUN_REQUESTED and not _try_again(worker, conn, stored.id, deadline):
                break
    say(f"{stored.name}: {status}")
    if status not in (Status.IDLE, Status.FOLLOWING):  # failed, paused, or we were stopped by a signal
        raise typer.Exit(1)


def _try_again(worker: "Runner", conn: Connection, pipeline_id: UUID, deadline: datetime) -> bool:
    """It waits for somebody, and maybe nobody else is here to go on with it. False: that would take too long."""
    found = waiting(conn, [pipeline_id]).get(pipeline_id)
    if found and found.next_at and found.tries:  # who only does not answer others is asked
        if max(found.next_at, datetime.now(UTC)) > deadline:
            note(f"{found.name} waits for {found.whom}: {found.said}; a runner, or this command again, goes on with it")
            return False
        seconds = max((found.next_at - datetime.now(UTC)).total_seconds(), 0.0)
        note(f"{found.name} waits for {found.whom}, next try in {seconds:.0f} s: {found.said}")
        worker.stopping.wait(seconds)
    if not worker.stopping.is_set():
        replace(worker).run_once(pipeline_id)
    return True


def _servers(settings: Settings) -> list[EmbeddedElasticsearch | EmbeddedPostgres]:
    """Those in `$VITRINA_HOME`, in the order in which they are stopped."""
    elastic = embedded_elasticsearch(settings)
    return [elastic] if settings.database_url else [elastic, bootstrap.embedded_server(settings)]


def _start_search(settings: Settings) -> None:
    """Before the processes that are to know of it: they look for it once, when they start."""
    server = embedded_elasticsearch(settings)
    if settings.elasticsearch_url or server.is_running():
        return
    if any(process.pid for process in all_of(settings.home)):
        raise ConfigError("the stack is up already, without Elasticsearch", "vitrina down, then vitrina up --search")
    say("starting Elasticsearch; the first time it is fetched, about 100 MB …")
    server.start()


def _say_search(settings: Settings) -> None:
    found, server = bootstrap.running_search(settings), embedded_elasticsearch(settings)
    if found.elasticsearch_url and not settings.elasticsearch_url:
        say(f"Elasticsearch: {server.url}, for the indexes {', '.join(found.allowed_es_indexes) or '(none)'}")
    elif not settings.elasticsearch_url and server.exists():
        say(f"Elasticsearch is not running: {program()} down, then {program()} up --search")


def _ensure_token(warehouse: bootstrap.Warehouse, settings: Settings) -> None:
    """An admin token in a file that only we can read, where the command line finds it by itself."""
    file = settings.home / "token"
    with connect(warehouse.owner, "token") as conn:
        tokens = TokenRepo(conn)
        if file.exists() and tokens.find(file.read_text().strip()):
            return
        name = f"local-{secrets.token_hex(3)}"
        settings.home.mkdir(parents=True, exist_ok=True)
        with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as handle:
            handle.write(tokens.create(name, "admin"))


def _await_runners(warehouse: bootstrap.Warehouse, settings: Settings) -> None:
    """Until the meta-store has heard of each: one that ends before says why."""
    waiting = [process for process in all_of(settings.home) if process.name.startswith("runner-")]
    deadline = time.monotonic() + START_SECONDS
    with connect(warehouse.owner, "up") as conn:
        while waiting := [process for process in waiting if not _is_heard(conn, process)]:
            if time.monotonic() > deadline:
                names = ", ".join(process.name for process in waiting)
                note(f"not heard of yet: {names}; see {program()} logs")
                return
            time.sleep(0.1)


def _is_heard(conn: Connection, process: Background) -> bool:
    pid = process.pid
    if pid is None:
        raise process.failure()
    row = fetch_one(conn, queries("runners")["known"], {"name": f"{socket.gethostname()}:{pid}"})
    return bool(row and row["yes"])


def _link(warehouse: bootstrap.Warehouse, settings: Settings, address: str) -> str:
    """What is after the # stays in the browser: no log and no proxy sees it."""
    with connect(warehouse.owner, "token") as conn:
        secret = SessionRepo(conn).link((settings.home / "token").read_text().strip())
    return f"{address}/console/sign-in#{secret}"

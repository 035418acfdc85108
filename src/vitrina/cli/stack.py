"""The stack in `$VITRINA_HOME`: Postgres, API and runners in the background, or one runner in the foreground."""

import os
import secrets
import shlex
import shutil
import socket
import subprocess
import time
from typing import TYPE_CHECKING, Annotated

import httpx
import typer
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import Conninfo
from rich.text import Text

from vitrina import bootstrap
from vitrina.cli.output import note, program, say, say_beside
from vitrina.cli.processes import Background, all_of
from vitrina.cli.provisioning import SIGN_INS, provision
from vitrina.client import is_local
from vitrina.client.transport import needs_certificates
from vitrina.domain.errors import ConfigError, DatabaseLost, FatalError
from vitrina.domain.lifecycle import Status
from vitrina.embedded.elasticsearch import EmbeddedElasticsearch, embedded_elasticsearch
from vitrina.embedded.postgres import EmbeddedPostgres
from vitrina.log import configure_logging
from vitrina.meta import roles as meta_roles
from vitrina.meta.db import connect, fetch_one, queries
from vitrina.meta.repos.pipelines import PipelineRepo
from vitrina.meta.repos.sessions import SessionRepo
from vitrina.meta.repos.tokens import TokenRepo
from vitrina.settings import Settings
from vitrina.transforms.running import begin_worker

if TYPE_CHECKING:
    from vitrina.runner.main import Runner

ENDED = (Status.IDLE, Status.PAUSED, Status.FAILED)
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
    _show_report(report)
    if with_secrets:
        with connect(warehouse.direct, "provision") as conn:
            for line in provision(conn, settings):
                say(line)


def roles() -> None:
    """Create the roles and grant what the settings name; on a server of your own, print how to sign in as each."""
    settings = Settings()
    warehouse = bootstrap.open_warehouse(settings)
    with connect(warehouse.direct, "roles") as conn:
        report = meta_roles.ensure_roles(conn, settings.allowed_source_schemas, settings.mart_schemas)
        _show_report(report)
        if warehouse.embedded or not report.separated:
            note("the roles are up to date" if report.separated else "every process signs in as the owner")
            return
        note("the roles are up to date, each with a new password; put these into the environment or .env:")
        for variable, role in SIGN_INS.items():
            password = secrets.token_urlsafe(24)
            meta_roles.set_password(conn, role, password)
            owner = warehouse.direct if role == meta_roles.CAPTURE else warehouse.owner  # no pooler passes a WAL stream
            conninfo = make_conninfo(owner, user=role, password=password)
            typer.echo(f"{variable}='{conninfo}'")


def runner(
    once: Annotated[bool, typer.Option("--once", help="Work off what is due now, then exit.")] = False,
    pipeline: Annotated[
        str | None, typer.Option(help="With --once: run just this one (name or uuid), due or not.")
    ] = None,
    alive: Annotated[
        bool,
        typer.Option("--alive", help="Run nothing; exit 1 if the meta-store no longer hears of this host's runner."),
    ] = False,
) -> None:
    """Run pipelines in the foreground, until SIGTERM."""
    settings = Settings()
    if settings.transform_modules and not alive:
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
        _run_just(worker, pipeline)


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
    if search:
        _start_search(settings)
    if postgres_port is not None and not settings.database_url:
        EmbeddedPostgres(settings.home / "postgres", port=postgres_port).start()
    warehouse = bootstrap.open_warehouse(settings)
    _show_report(bootstrap.set_up(warehouse, settings))
    _ensure_token(warehouse, settings)
    address = _start_api(settings, port)
    for number in range(1, runners + 1):
        own = _own_port(settings, number)
        Background(settings.home, f"runner-{number}").start("runner", environment=own)
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
        for name in ("token", "url"):
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


def _run_just(worker: "Runner", which: str) -> None:
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
            pass
    say(f"{stored.name}: {status}")
    if status != Status.IDLE:  # failed, paused, or we were stopped by a signal
        raise typer.Exit(1)


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
    if found is not settings:
        say(f"Elasticsearch: {server.url}, for the indexes {', '.join(found.allowed_es_indexes) or '(none)'}")
    elif not settings.elasticsearch_url and server.exists():
        say(f"Elasticsearch is not running: {program()} down, then {program()} up --search")


def _show_report(report: meta_roles.RoleReport) -> None:
    if not report.separated:
        say_beside(
            Text("degraded: ", "yellow"),
            "one role does everything; the reader's role could not be created",
            stderr=True,
        )
    for said in report.notes:
        say_beside(Text("note: ", "yellow"), said, stderr=True)


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


def _link(warehouse: bootstrap.Warehouse, settings: Settings, address: str) -> str:
    """What is after the # stays in the browser: no log and no proxy sees it."""
    with connect(warehouse.owner, "token") as conn:
        secret = SessionRepo(conn).link((settings.home / "token").read_text().strip())
    return f"{address}/console/sign-in#{secret}"


def _own_port(settings: Settings, number: int) -> dict[str, str]:
    """Several runners of one machine: the metrics of each on a port of its own, one after the other."""
    first = settings.runner_metrics_port
    return {"VITRINA_RUNNER_METRICS_PORT": str(first + number - 1)} if first else {}


def _start_api(settings: Settings, port: int | None) -> str:
    api, address = Background(settings.home, "api"), f"http://{settings.host}:{port or settings.port}"
    if api.pid and (settings.home / "url").exists():
        there = (settings.home / "url").read_text()
        if port is not None and there != address:
            raise ConfigError(f"the API is up already, at {there}", "vitrina down, then up again with that port")
        return there
    api.start("serve", "--port", str(port or settings.port))
    deadline = time.monotonic() + 30
    while not _answers(address):
        if api.pid is None or time.monotonic() > deadline:
            api.stop()
            raise ConfigError(f"the API did not start on {address}: {api.last_words()}", "choose another --port")
        time.sleep(0.1)
    (settings.home / "url").write_text(address)
    return address


def _answers(address: str) -> bool:
    try:
        with httpx.Client(trust_env=not is_local(address), verify=needs_certificates(address), timeout=2) as client:
            return client.get(f"{address}/readyz").status_code == 200
    except httpx.HTTPError:
        return False

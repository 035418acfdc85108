"""The stack in `$VITRINA_HOME`: Postgres and runners in the background, or one runner in the foreground."""

import os
import secrets
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Annotated

import typer
from psycopg.conninfo import make_conninfo
from rich.console import Console

from vitrina import bootstrap
from vitrina.domain.errors import ConfigError
from vitrina.embedded import EmbeddedPostgres
from vitrina.log import configure_logging
from vitrina.meta import roles as meta_roles
from vitrina.meta.db import connect
from vitrina.meta.repos.pipelines import PipelineRepo
from vitrina.runner.main import Runner
from vitrina.settings import Settings

out = Console()
database = typer.Typer(help="About the warehouse.", no_args_is_help=True)


def migrate() -> None:
    """Bring the meta-store and the roles up to date; safe to run at any time."""
    settings = Settings()
    report = bootstrap.set_up(bootstrap.open_warehouse(settings), settings)
    out.print("the meta-store is up to date")
    _show_report(report)


def roles() -> None:
    """Create the roles and grant what the settings name; on a server of your own, print how to sign in as each."""
    settings = Settings()
    warehouse = bootstrap.open_warehouse(settings)
    with connect(warehouse.direct, "roles") as conn:
        report = meta_roles.ensure_roles(conn, settings.allowed_source_schemas, settings.mart_schemas)
        _show_report(report)
        if warehouse.embedded or not report.separated:
            return
        for variable, role in (("VITRINA_RUNNER_URL", meta_roles.RUNNER), ("VITRINA_READER_URL", meta_roles.READER)):
            password = secrets.token_urlsafe(24)
            meta_roles.set_password(conn, role, password)
            conninfo = make_conninfo(warehouse.owner, user=role, password=password)
            typer.echo(f"{variable}='{conninfo}'")


def runner(
    once: Annotated[bool, typer.Option("--once", help="Work off what is due now, then exit.")] = False,
    pipeline: Annotated[
        str | None, typer.Option(help="With --once: run just this one (name or uuid), due or not.")
    ] = None,
) -> None:
    """Run pipelines in the foreground, until SIGTERM."""
    settings = Settings()
    configure_logging(settings.log_format)
    if pipeline and not once:
        raise typer.BadParameter("--pipeline goes with --once")
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
    port: Annotated[int | None, typer.Option(help="Let Postgres listen on this port of 127.0.0.1 too.")] = None,
) -> None:
    """Start Postgres, migrate, and start runners in the background."""
    settings = Settings()
    if port is not None and not settings.database_url:
        EmbeddedPostgres(settings.home / "postgres", port=port).start()
    warehouse = bootstrap.open_warehouse(settings)
    _show_report(bootstrap.set_up(warehouse, settings))
    running = _living(settings)
    for number in range(1, runners + 1):
        if number not in running:
            _start_runner(settings, number)
    out.print(
        f"up: Postgres and {max(runners, len(running))} runner(s); `vitrina logs`, `vitrina psql`, `vitrina down`"
    )


def down(
    purge: Annotated[bool, typer.Option("--purge", help="Delete the data too.")] = False,
) -> None:
    """Stop the runners, each after its current batch, then Postgres."""
    settings = Settings()
    for number, pid in _living(settings).items():
        os.kill(pid, signal.SIGTERM)
        _wait_for_end(pid)
        _pid_file(settings, number).unlink(missing_ok=True)
    if not settings.database_url:
        server = bootstrap.embedded_server(settings)
        server.purge() if purge else server.stop()
    if purge:
        shutil.rmtree(settings.home / "logs", ignore_errors=True)
    out.print("down" + (", and the data is gone" if purge else ""))


def logs(
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on as more is written.")] = False,
    lines: Annotated[int, typer.Option("--lines", "-n", help="How many of each.")] = 40,
) -> None:
    """What Postgres and the runners in the background say."""
    settings = Settings()
    files = [str(f) for f in (*sorted((settings.home / "logs").glob("*.log")), settings.home / "postgres" / "log")]
    there = [f for f in files if Path(f).exists()]
    if not there:
        raise ConfigError(f"there are no logs in {settings.home}", "start the stack with: vitrina up")
    subprocess.run(["tail", "-n", str(lines), *(["-F"] if follow else []), *there], check=False)


def psql(
    arguments: Annotated[list[str] | None, typer.Argument(help="Passed on to psql, after --.")] = None,
) -> None:
    """Open psql on the warehouse."""
    settings = Settings()
    warehouse = bootstrap.open_warehouse(settings)
    program = warehouse.embedded.program("psql") if warehouse.embedded else shutil.which("psql")
    if not program:
        raise ConfigError("there is no psql on this machine", "install Postgres' client, e.g. postgresql-client")
    os.execv(program, ["psql", warehouse.owner, *(arguments or [])])


@database.command()
def url() -> None:
    """Print how to connect to the warehouse."""
    typer.echo(bootstrap.open_warehouse(Settings()).owner)


def _run_just(worker: Runner, which: str) -> None:
    with worker.connections.open_warehouse("once") as conn:
        pipelines = PipelineRepo(conn)
        stored = pipelines.get(which)
        if not stored.enabled:
            raise ConfigError(f"pipeline {stored.name!r} is disabled", "enable it first")
        pipelines.request_run(stored.id)
        worker.run_once(stored.id)
        status = pipelines.get(stored.id).status
    out.print(f"{stored.name}: {status}")
    if status == "FAILED":
        raise typer.Exit(1)


def _show_report(report: meta_roles.RoleReport) -> None:
    if not report.separated:
        out.print("[yellow]degraded:[/] one role does everything; the reader's role could not be created")
    for note in report.notes:
        out.print(f"[yellow]note:[/] {note}", highlight=False)


def _start_runner(settings: Settings, number: int) -> None:
    folder = settings.home / "logs"
    folder.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "vitrina", "runner"]
    with open(folder / f"runner-{number}.log", "ab") as file:
        child = subprocess.Popen(command, stdout=file, stderr=file, stdin=subprocess.DEVNULL, start_new_session=True)
    _pid_file(settings, number).write_text(str(child.pid))


def _living(settings: Settings) -> dict[int, int]:
    """The runners in the background, by number; a pid that is somebody else's now does not count."""
    found = {}
    for file in settings.home.glob("runner-*.pid"):
        pid = int(file.read_text() or 0)
        if _is_runner(pid):
            found[int(file.stem.removeprefix("runner-"))] = pid
        else:
            file.unlink(missing_ok=True)
    return found


def _is_runner(pid: int) -> bool:
    listed = subprocess.run(["ps", "-p", str(pid), "-o", "command="], capture_output=True, text=True, check=False)
    return "vitrina" in listed.stdout and "runner" in listed.stdout


def _wait_for_end(pid: int, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while _is_runner(pid):
        if time.monotonic() > deadline:
            raise ConfigError(f"runner {pid} does not end", f"look at `vitrina logs`, or: kill -9 {pid}")
        time.sleep(0.05)


def _pid_file(settings: Settings, number: int) -> Path:
    return settings.home / f"runner-{number}.pid"

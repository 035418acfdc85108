"""Edit capture: what feeds live pipelines. Installed, watched and removed here; runners do the capturing."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, Any

import typer
from rich.text import Text

from vitrina import bootstrap
from vitrina.capture import installation
from vitrina.capture.status import live_tables, report
from vitrina.capture.stream import Stream
from vitrina.capture.taps import TAPS, find_kind
from vitrina.cli.output import Format, Output, Yes, ask, note, say, say_beside, say_fields, say_json, say_table, span
from vitrina.domain.errors import ConfigError
from vitrina.domain.pipeline import WAREHOUSE
from vitrina.meta.db import Connection, connect, fetch_one
from vitrina.meta.repos.captures import Capture, CaptureRepo
from vitrina.settings import Settings

capture = typer.Typer(help="Edit capture, for live pipelines: installed, watched, removed.", no_args_is_help=True)

Source = Annotated[str, typer.Option(help="The warehouse, or a source that the settings name.")]
Tables = Annotated[str | None, typer.Option(help="schema.table,schema.table; default: those of the live pipelines.")]


@dataclass(frozen=True)
class Ends:
    """Both ends of a capture: the meta-store, the source as the owner of its tables, and who captures."""

    meta: Connection
    source: Connection
    conninfo: str

    @property
    def role(self) -> str:
        """Who captures."""
        with connect(self.conninfo, "capture") as conn:
            row = fetch_one(conn, "SELECT current_user::text AS role")
        assert row is not None
        return str(row["role"])


@capture.command("install")
def install(
    source: Source = WAREHOUSE,
    tables: Tables = None,
    kind: Annotated[
        str | None,
        typer.Option(help="wal: read the WAL; trigger: where that is impossible; or what a package brings."),
    ] = None,
    yes: Yes = False,
    output: Output = Format.text,
) -> None:
    """Capture the changes of tables: check the source, show every statement, run them; again to add tables."""
    with _ends(source) as ends:
        found = CaptureRepo(ends.meta).find(source)
        chosen = kind or (found.tap or found.kind if found else "wal")
        setup, tap = find_kind(chosen).setup, None if chosen in TAPS else chosen
        wanted = _split(tables) if tables else live_tables(ends.meta, source)
        plan = installation.plan_install(ends.meta, ends.source, source, setup, wanted, ends.role, tap)
        if setup == "wal":
            _try_replication(ends.conninfo)
        statements = [statement.as_string(ends.source) for statement in plan.statements]
        _show(statements, plan.warnings, output)
        if statements:
            ask(f"run {len(statements)} statements at source {source!r}?", output, yes)
        done = installation.carry_out(ends.meta, ends.source, source, plan)
    _show_installed(done, statements, plan.warnings, output)


@capture.command("status")
def status(
    source: Annotated[str | None, typer.Option(help="Just this one.")] = None, output: Output = Format.text
) -> None:
    """How far each capture is, how far each live pipeline is behind it, and what to worry about."""
    with connect(bootstrap.open_warehouse(Settings()).direct, "capture") as meta:
        found = [c for c in CaptureRepo(meta).all() if source in (None, c.source)]
        reports = [report(meta, each) for each in found]
    if output is Format.json:
        say_json([each | {"findings": [finding.as_json() for finding in each["findings"]]} for each in reports])
        return
    if not reports:
        say("nothing is captured; install with: vitrina capture install")
    for each in reports:
        _show_report(each)


@capture.command("remove")
def remove(
    source: Source = WAREHOUSE,
    tables: Annotated[
        str | None, typer.Option(help="Stop capturing just these; default: all, and leave nothing.")
    ] = None,
    yes: Yes = False,
    output: Output = Format.text,
) -> None:
    """Stop capturing: slot, publication, triggers and log go, here and at the source."""
    with _ends(source) as ends:
        found = CaptureRepo(ends.meta).find(source)
        if found is None:
            raise ConfigError(f"source {source!r} is not captured", "look at: vitrina capture status")
        some = _split(tables) if tables else None
        statements = [s.as_string(ends.source) for s in installation.plan_remove(ends.source, found, some)]
        _show(statements, (), output)
        ask(f"stop capturing {tables or 'all tables of'} source {source!r}?", output, yes)
        installation.remove(ends.meta, ends.source, found, some)
    if output is Format.json:
        say_json({"source": source, "removed": some or list(found.tables), "statements": statements})
    else:
        say(f"the changes of {tables or f'source {source!r}'} are no longer captured")


@contextmanager
def _ends(source: str) -> Iterator[Ends]:
    """At the warehouse we are its owner; elsewhere, whoever captures there."""
    settings = Settings()
    warehouse = bootstrap.open_warehouse(settings)
    conninfo = bootstrap.connections(warehouse, settings).resolve_capture(source)
    with connect(warehouse.direct, "capture") as meta:
        if source == WAREHOUSE:
            yield Ends(meta, meta, conninfo)
        else:
            with connect(conninfo, "capture") as origin:
                yield Ends(meta, origin, conninfo)


def _try_replication(conninfo: str) -> None:
    """The proof that this role may stream, whatever its server calls the right."""
    try:
        stream = Stream(conninfo)
        stream.identify()
    except Exception as error:
        remedy = "ALTER ROLE … REPLICATION for the role that captures (VITRINA_CAPTURE_URL), past any pooler"
        raise ConfigError(f"the role that captures cannot stream the WAL: {error}", remedy) from error
    stream.close()


def _split(tables: str) -> list[str]:
    names = [name.strip() for name in tables.split(",") if name.strip()]
    bare = [name for name in names if "." not in name]
    if bare:
        raise typer.BadParameter(f"{', '.join(bare)}: write schema.table", param_hint="--tables")
    return names


def _show(statements: list[str], warnings: tuple[str, ...], output: Format) -> None:
    for warning in warnings:
        say_beside(Text("warning: ", "yellow"), warning, stderr=True)
    if output is Format.text:
        for statement in statements:
            say(f"{statement};")


def _show_installed(done: Capture, statements: list[str], warnings: tuple[str, ...], output: Format) -> None:
    if output is Format.json:
        kept = {
            "source": done.source,
            "kind": done.kind,
            "tap": done.tap,
            "tables": list(done.tables),
            "slot": done.slot,
        }
        say_json(kept | {"generation": done.generation, "statements": statements, "warnings": list(warnings)})
        return
    say(f"captured by {done.tap or done.kind}: {', '.join(done.tables)}")
    if done.owner is None:
        note("a runner starts capturing within seconds; look at: vitrina capture status")


def _show_report(row: dict[str, Any]) -> None:
    sizes = {name: _bytes(row[name]) for name in ("lag_bytes", "safe_wal_size")}
    say_fields(
        {
            "source": f"{row['source']}, by {row['tap'] or row['kind']}",
            "tables": ", ".join(row["tables"]),
            "runner": row["runner"],
            "lag": None if row["lag_seconds"] is None else f"{span(row['lag_seconds'])}, {sizes['lag_bytes'] or '?'}",
            "safe WAL": sizes["safe_wal_size"],
            "changes": f"{row['last_id']:,}, kept from {row['log_start']:,}",
            "generation": f"{row['generation']} ({row['generation_reason']})",
        }
    )
    if row["pipelines"]:
        cells = [
            [p["name"], p["status"], "compares in full" if p["backlog"] is None else p["backlog"]]
            for p in row["pipelines"]
        ]
        say_table(["pipeline", "status", "behind by"], cells, right=("behind by",))
    for warning in row["warnings"]:
        say_beside(Text("warning: ", "yellow"), warning)


def _bytes(size: int | None) -> str | None:
    return None if size is None else f"{size / 1e6:,.1f} MB"

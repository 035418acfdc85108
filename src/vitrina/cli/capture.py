"""Edit capture: what feeds live pipelines. Installed, watched and removed here; runners do the capturing."""

from collections.abc import Iterator
from contextlib import contextmanager
from textwrap import shorten
from typing import Annotated, Any

import typer
from rich.text import Text

from vitrina import bootstrap
from vitrina.capture import installation
from vitrina.capture.ends import Ends, open_ends
from vitrina.capture.status import live_tables, report
from vitrina.capture.taps import TAPS, find_kind
from vitrina.cli.output import (
    Format,
    Output,
    Yes,
    ask,
    note,
    program,
    say,
    say_beside,
    say_fields,
    say_json,
    say_table,
    span,
)
from vitrina.cli.processes import all_of
from vitrina.domain.errors import ConfigError
from vitrina.domain.pipeline import WAREHOUSE
from vitrina.domain.table_names import split_tables
from vitrina.meta import compatibility
from vitrina.meta.repos.captures import Capture, CaptureRepo, Given
from vitrina.settings import Settings

capture = typer.Typer(help="Edit capture, for live pipelines: installed, watched, removed.", no_args_is_help=True)

Source = Annotated[str, typer.Option(help="The warehouse, or a source that the settings name.")]
Tables = Annotated[str | None, typer.Option(help="schema.table,schema.table; default: those of the live pipelines.")]


Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Show every statement.")]
LINES = 4  # of statements, in a summary
NAMED = 8  # tables


@capture.command("install")
def install(
    source: Source = WAREHOUSE,
    tables: Tables = None,
    kind: Annotated[
        str | None,
        typer.Option(help="wal: read the WAL; trigger: where that is impossible; or what a package brings."),
    ] = None,
    publication: Annotated[
        str | None, typer.Option(help="One that somebody has made for us: checked, and never altered.")
    ] = None,
    slot: Annotated[str | None, typer.Option(help="A replication slot, likewise: read, and never dropped.")] = None,
    verbose: Verbose = False,
    yes: Yes = False,
    output: Output = Format.text,
) -> None:
    """Capture the changes of tables: check the source, show what will be done, do it; again to add tables."""
    with _ends(source) as ends:
        found = CaptureRepo(ends.meta).find(source)
        chosen = kind or (found.tap or found.kind if found else "wal")
        setup, tap = find_kind(chosen).setup, None if chosen in TAPS else chosen
        wanted = _split(tables) if tables else live_tables(ends.meta, source)
        given = Given(publication, slot)
        plan = installation.plan_install(ends.meta, ends.owner, source, setup, wanted, ends.role, tap, given)
        if setup == "wal":
            ends.require_stream(source)
        statements = plan.as_text(ends.owner)
        _show_plan(source, plan, ends, output)
        _show(statements, plan.warnings, output, verbose)
        if statements:
            ask(f"run {len(statements)} statements at source {source!r}?", output, yes)
        done = installation.carry_out(ends.meta, ends.owner, source, plan, ends.streamer)
    _show_installed(done, statements, plan.warnings, output)


@capture.command("status")
def status(
    source: Annotated[str | None, typer.Option(help="Just this one.")] = None, output: Output = Format.text
) -> None:
    """How far each capture is, how far each live pipeline is behind it, and what to worry about."""
    with compatibility.enter(bootstrap.open_warehouse(Settings()).direct, "capture") as meta:
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
    verbose: Verbose = False,
    yes: Yes = False,
    output: Output = Format.text,
) -> None:
    """Stop capturing: slot, publication, triggers and log go, here and at the source."""
    with _ends(source) as ends:
        found = CaptureRepo(ends.meta).find(source)
        if found is None:
            raise ConfigError(f"source {source!r} is not captured", "look at: vitrina capture status")
        some = _split(tables) if tables else None
        statements = [s.as_string(ends.owner) for s in installation.plan_remove(ends.owner, found, some)]
        _show(statements, (), output, verbose)
        ask(f"stop capturing {tables or 'all tables of'} source {source!r}?", output, yes)
        installation.remove(ends.meta, ends.owner, found, some, ends.streamer)
    if output is Format.json:
        say_json({"source": source, "removed": some or list(found.tables), "statements": statements})
    else:
        say(f"the changes of {tables or f'source {source!r}'} are no longer captured")


@contextmanager
def _ends(source: str) -> Iterator[Ends]:
    settings = Settings()
    warehouse = bootstrap.open_warehouse(settings)
    connections = bootstrap.connections(warehouse, settings)
    owner, captures = connections.resolve_capture_owner(source), connections.resolve_capture(source)
    with compatibility.enter(warehouse.direct, "capture") as meta, open_ends(meta, owner, captures) as ends:
        yield ends


def _split(tables: str) -> list[str]:
    try:
        return split_tables(tables)
    except ConfigError as error:
        raise typer.BadParameter(str(error), param_hint="--tables") from None


def _show_plan(source: str, plan: installation.Plan, ends: Ends, output: Format) -> None:
    """Whose rights are used for what, and what is somebody else's."""
    if output is not Format.text:
        return
    say(f"source {source!r}: {len(plan.tables)} tables, by {plan.tap or plan.kind}, captured as {ends.role}")
    given = {"publication": plan.given.publication, "slot": plan.given.slot}
    used = "".join(f"; {what} {name} is used as it is" for what, name in given.items() if name)
    owner, slots = ends.owner.info.user, plan.new_slot and ends.role != ends.owner.info.user
    count = len(plan.statements) - slots
    said = f"{count} statement{'' if count == 1 else 's'}" + (f", and its slot as {ends.role}" if slots else "")
    say(f"to be run as {owner}: {said}{used}")


def _show(statements: list[str], warnings: tuple[str, ...], output: Format, verbose: bool) -> None:
    """The first lines of the first few; all of them only if asked."""
    for warning in warnings:
        say_beside(Text("warning: ", "yellow"), warning, stderr=True)
    if output is not Format.text:
        return
    for statement in statements if verbose else statements[:LINES]:
        say(f"{statement};" if verbose else f"  {shorten(statement, 100, placeholder=' …')}")
    if statements and not verbose:
        more = len(statements) - LINES
        say("  " + (f"… and {more} more; " if more > 0 else "") + "all of it: --verbose")


def _show_installed(done: Capture, statements: list[str], warnings: tuple[str, ...], output: Format) -> None:
    if output is Format.json:
        kept = {
            "source": done.source,
            "kind": done.kind,
            "tap": done.tap,
            "tables": list(done.tables),
            "slot": done.read_slot,
        }
        say_json(kept | {"generation": done.generation, "statements": statements, "warnings": list(warnings)})
        return
    more = f" and {len(done.tables) - NAMED} more" if len(done.tables) > NAMED else ""
    say(f"captured by {done.tap or done.kind}: {', '.join(done.tables[:NAMED])}{more}")
    settings = Settings()
    changed = {name for process in all_of(settings.home) for name in process.changes(settings)}
    if changed:
        note(f"what runs here has other settings than those of now ({', '.join(sorted(changed))}): {program()} up")
    elif done.owner is None:
        note(f"a runner starts capturing within seconds; look at: {program()} capture status")


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

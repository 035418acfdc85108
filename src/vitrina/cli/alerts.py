"""Alerts: whom they are told, how that went, and a test of it."""

import time
from typing import Annotated, Any

import typer

from vitrina.cli.output import Format, Output, Timeout, open_client, say, say_fields, say_json, say_table, when
from vitrina.cli.running import answered

alert = typer.Typer(help="Alerts: whom they are told, the last deliveries, a test.", no_args_is_help=True)
Name = Annotated[str, typer.Argument(metavar="NAME", help="A destination, as VITRINA_ALERTS__NAME__URL names it.")]


@alert.command("list")
def list_destinations(output: Output = Format.text) -> None:
    """List the destinations that runners have: format, place, filters and how the last delivery went."""
    with open_client() as client:
        found = [each.raw for each in client.destinations()]
    if output is Format.json:
        say_json(found)
    elif found:
        headings = ["name", "format", "place", "labels", "events", "last", "waiting", "error"]
        say_table(headings, [_destination(row) for row in found], right=("waiting",))
    else:
        say("no runner has named a destination; set VITRINA_ALERTS__NAME__URL for every runner")


@alert.command("deliveries")
def list_deliveries(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="Just to this destination.")] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=200, help="How many.")] = 20,
    output: Output = Format.text,
) -> None:
    """List the last deliveries, newest first, with what was answered."""
    with open_client() as client:
        found = [each.raw for each in client.deliveries(name, limit)]
    if output is Format.json:
        say_json(found)
    elif found:
        headings = ["at", "destination", "event", "pipeline", "status", "attempts", "error", "answer"]
        say_table(headings, [_delivery(row) for row in found], right=("attempts",))
    else:
        say("nothing has been told yet")


@alert.command("test")
def try_destination(name: Name, timeout: Timeout = 60, output: Output = Format.text) -> None:
    """Have a runner tell a destination that this is a test, and show what it answered; exit 1 if it did not take it."""
    deadline = None if timeout is None else time.monotonic() + timeout
    with open_client() as client:
        result: dict[str, Any] = answered(client, client.ask_test_alert(name), deadline).raw["result"]
    if output is Format.json:
        say_json(result)
    else:
        took = f"after {result['milliseconds']:,.0f} ms"
        delivered = f"yes, {took}" if result["delivered"] else f"no, {took}"
        shown = {"delivered": delivered, "error": result["error"], "answer": result["answer"] or None}
        say_fields({"destination": name} | shown)
    if not result["delivered"]:
        raise typer.Exit(1)


def _destination(row: dict[str, Any]) -> list[Any]:
    last = f"{row['last_status']} {when(row['last_at'])}" if row["last_status"] else None
    error = row["last_error"] if row["known"] else f"no runner has it since {when(row['seen_at'])}"
    filters = [", ".join(row["labels"]), ", ".join(row["events"])]
    return [row["name"], row["format"], row["place"], *filters, last, row["waiting"] or None, error]


def _delivery(row: dict[str, Any]) -> list[Any]:
    names = ("destination", "event", "pipeline", "status", "attempts", "last_error", "answer")
    return [when(row["created_at"]), *(row[name] for name in names)]

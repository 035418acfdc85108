"""Inspection at pipelines and switching them: list, get, status, state, runs, lineage, preview, enable, delete."""

import json
from itertools import islice
from typing import Annotated, Any

import typer

from vitrina.cli.choosing import Labels, Some, Target, chosen, each_of, for_each, one_of, say_each
from vitrina.cli.completing import complete_names
from vitrina.cli.freshness import fresh, live_fields
from vitrina.cli.output import (
    Format,
    Output,
    Which,
    Yes,
    ask,
    open_client,
    say,
    say_fields,
    say_json,
    say_table,
    took,
    when,
)
from vitrina.cli.waits import due, wait_fields
from vitrina.client import ClientError, Pipeline
from vitrina.domain.lifecycle import Status

COUNTS = ("read", "written", "deleted", "unchanged")


def list_(
    status: Annotated[Status | None, typer.Option(help="Only those in this status.")] = None,
    enabled: Annotated[bool | None, typer.Option("--enabled/--disabled", help="Only those.")] = None,
    name: Annotated[str | None, typer.Option(help="Only those whose names contain this.")] = None,
    label: Labels = None,
    output: Output = Format.text,
) -> None:
    """List pipelines: where each stands and where it writes."""
    with open_client() as client:
        found = [row.raw for row in client.pipelines(status=status, enabled=enabled, name=name, labels=label or ())]
    if output is Format.json:
        say_json(found)
    elif found:
        columns = ["name", "status", "mode", "schedule", "next", "live", "labels", "target"]
        say_table(columns, [_listed(row) for row in found])
    else:
        say(
            "no pipelines"
            + (" match" if status or name or label or enabled is not None else "; add one with: vitrina apply")
        )


def get(which: Which, output: Output = Format.text) -> None:
    """Show a pipeline as YAML, ready for a file."""
    with open_client() as client:
        row = client.pipeline(which).raw
    if output is Format.json:
        say_json(row)
        return
    from vitrina.files import dump_pipeline  # only here: it knows what a pipeline is, which takes as long as to ask

    say(f"# {_status(row)}, version {row['version']}")
    say(dump_pipeline(row["config"]).rstrip())


def status(which: Which, target: Target = None, output: Output = Format.text) -> None:
    """Show where a pipeline stands, its last run, and how fresh a live mart is; of several targets each."""
    with open_client() as client:
        rows = [client.status(name).raw for name in each_of(client, one_of(which, target))]
    if output is Format.json:
        say_json(rows[0] if len(rows) == 1 else rows)
        return
    for number, row in enumerate(rows):
        if number:
            say("")
        _say_status(row)


def _say_status(row: dict[str, Any]) -> None:
    run = row["last_run"]
    fields = {"pipeline": row["name"], "status": _status(row), "version": row["version"], "next": due(row)}
    fields["wrong"] = ", ".join(f"{item['kind']}, since {when(item['since'])}" for item in row["incidents"])
    live = live_fields(row["live"]) | wait_fields(row["waits"])
    fields |= {f"check {check['name']}": _check(check) for check in row.get("checks", ())}
    say_fields({name: value or None for name, value in fields.items()} | live | (_run_fields(run) if run else {}))


def state(which: Which, target: Target = None, output: Output = Format.text) -> None:
    """Show a pipeline's checkpoint; for incremental the safe horizon, for live how fresh the mart is."""
    with open_client() as client:
        row = client.state(one_of(which, target)).raw
    if output is Format.json:
        say_json(row)
        return
    checkpoint = row["checkpoint"]
    say_fields(
        {
            "last value": row["last_processed_value"],
            "last id": row["last_processed_id"],
            "checkpoint": json.dumps(checkpoint, ensure_ascii=False) if checkpoint else "none",
            "epoch": row["epoch"],
            "seq": row["seq"],
            "changed": when(row["updated_at"]),
        }
        | _horizon(row["horizon"])
        | live_fields(row["live"])
    )


def runs(
    which: Which,
    target: Target = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="How many.")] = 20,
    output: Output = Format.text,
) -> None:
    """List a pipeline's runs, newest first."""
    with open_client() as client:
        found = [run.raw for run in islice(client.runs(one_of(which, target)), limit)]
    if output is Format.json:
        say_json(found)
    elif found:
        numbers = ("run", "attempt", *COUNTS, "batches")
        say_table(
            ["run", "status", "attempt", "started", "took", *COUNTS, "batches", "error", "remedy", "checks"],
            list(map(_run, found)),
            numbers,
        )
    else:
        say("it has never run; ask for a run with: vitrina run " + which)


def lineage(
    which: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="Just this one.", autocompletion=complete_names)
    ] = None,
    output: Output = Format.text,
) -> None:
    """Show which tables and columns each mart comes from."""
    with open_client() as client:
        name = client.pipeline(which).name if which else None
        found = [row for row in client.get("/lineage") if name in (None, row["pipeline"])]
    if output is Format.json:
        say_json(found)
        return
    for row in found:
        say(f"{row['target'] or row['pipeline']} ← {', '.join(row['tables']) or '?'}")
        if row["error"]:
            say(f"  unknown: {row['error']}")
        width = max((len(column["name"]) for column in row["columns"]), default=0)
        for column in row["columns"]:
            say(f"  {column['name']:{width}} ← {', '.join(column['sources']) or '(computed)'}")


def preview(
    which: Which,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=200, help="How many rows.")] = 20,
    output: Output = Format.text,
) -> None:
    """Show the first rows of a pipeline's query, transforms included; writes nothing."""
    with open_client() as client:
        found = client.preview(which, limit)
    if output is Format.json:
        say_json(found.raw)
        return
    names = [column.name for column in found.columns]
    say_table(names, [[_cell(row[name]) for name in names] for row in found.rows], fold=True)


def enable(which: Some = None, label: Labels = None, output: Output = Format.text) -> None:
    """Let runners take a pipeline."""
    _switch(which, label, True, output)


def disable(which: Some = None, label: Labels = None, output: Output = Format.text) -> None:
    """Let no runner take a pipeline; a run under way ends as it would."""
    _switch(which, label, False, output)


def reload_config(which: Which, output: Output = Format.text) -> None:
    """Let the run under way take the present configuration at its next batch."""
    with open_client() as client:
        version = client.reload_config(which)
    if output is Format.json:
        say_json({"version": version})
    else:
        say(f"{which}: the run takes version {version} at its next batch")


def delete(which: Which, yes: Yes = False, output: Output = Format.text) -> None:
    """Forget a pipeline and its history. The mart stays."""
    with open_client() as client:
        row = client.pipeline(which)
        marts = row.target or ", ".join(row.config.get("targets") or ())
        ask(f"Forget {row.name} and its history? {marts} stays.", output, yes)
        client.delete(str(row.id))
    if output is Format.json:
        say_json({"deleted": row.name, "id": str(row.id), "target": row.target})
    else:
        say(f"{row.name} is forgotten; {marts} stays as it is")


def _switch(which: str | None, labels: list[str] | None, enabled: bool, output: Format) -> None:
    with chosen(which, labels) as (client, names):

        def switch(name: str) -> Pipeline:
            row = client.enable(name) if enabled else client.disable(name)
            if row.config["enabled"] != enabled:
                raise ClientError(f"{row.name} was changed by somebody else meanwhile")
            return row

        done = for_each(names, switch)
        say_each(done, lambda row: f"{row.name} is {'enabled' if enabled else 'disabled'}", which, output)


def _check(check: dict[str, Any]) -> str:
    """How it stands, and what comes of it."""
    effect = "" if check["outcome"] in (None, "kept", "blocked") else ", and is published"
    since = f", since {when(check['since'])}" if check["since"] else ""
    return f"{check['said']}{effect}{since}"


def _status(row: dict[str, Any]) -> str:
    enabled = row["enabled"] if "enabled" in row else row["config"]["enabled"]
    return str(row["status"]) + ("" if enabled else " (disabled)")


def _listed(row: dict[str, Any]) -> list[Any]:
    config = row["config"]
    unscheduled = "continuously" if config["mode"] == "live" else "on request"
    schedule = config["schedule_interval"] or unscheduled
    waits = f", waits for {row['waits']['whom']}" if row["waits"] else ""
    status, live = _status(row) + waits, fresh(row["live"])
    labels = ", ".join(config["labels"])
    target = row["target"] or f"{len(row.get('members', ()))} targets"
    return [row["name"], status, config["mode"], schedule, due(row), live, labels, target]


def _run(run: dict[str, Any]) -> list[Any]:
    numbers = [run[f"rows_{name}"] for name in COUNTS] + [run["batches"]]
    attempt = run["attempt"] if run["attempt"] > 1 else None
    told = [
        f"{check['name']} {check['said']}" for check in run.get("broken_checks", ()) if check["outcome"] != "blocked"
    ]
    wrong = [run["error"], run.get("remedy"), "; ".join(told) or None]
    return [str(run["id"]), run["status"], attempt, when(run["started_at"]), took(run), *numbers, *wrong]


def _run_fields(run: dict[str, Any]) -> dict[str, Any]:
    return {
        "last run": f"{run['status']} {when(run['started_at'])}, took {took(run)}, run {run['id']} on {run['runner']}",
        "rows": ", ".join(f"{run[f'rows_{name}']:,} {name}" for name in COUNTS),
        "error": run["error"],
        "remedy": run.get("remedy"),
    }


def _horizon(horizon: dict[str, Any] | None) -> dict[str, Any]:
    if not horizon:
        return {}
    if "error" in horizon:
        return {"horizon": f"unknown: {horizon['error']}"}
    held = horizon["held_by"]
    by = ", ".join(f"{k} {v}" for k, v in held.items()) if isinstance(held, dict) else held
    return {"horizon": f"{horizon['at'] or 'frozen'}: rows before it are final", "held by": by}


def _cell(value: Any) -> str:
    if value is None:
        return "NULL"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)

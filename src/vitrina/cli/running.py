"""Making pipelines work: run, pause, reconcile, repair."""

import time
from typing import Annotated, Any

import typer

from vitrina.cli.output import (
    Format,
    Output,
    Timeout,
    Which,
    note,
    open_client,
    say,
    say_fields,
    say_json,
    say_table,
    span,
    took,
    when,
)
from vitrina.cli.watching import Patience, Watch, screen
from vitrina.client import Client, ClientError, check_deadline, pipeline_path

Json = dict[str, Any]
Wait = Annotated[bool, typer.Option("--wait", "-w", help="Until it has ended; exit 1 unless it succeeded.")]
AllowDeletes = Annotated[bool, typer.Option("--allow-deletes", help="Let the mass-delete guard pass, this once.")]
KINDS = ("missing", "extra", "different")


def run(
    which: Which,
    wait: Wait = False,
    restart: Annotated[bool, typer.Option("--restart", help="Drop the checkpoint first.")] = False,
    allow_deletes: AllowDeletes = False,
    rebuild: Annotated[bool, typer.Option("--rebuild", help="Write every row of the mart anew, at once.")] = False,
    timeout: Timeout = None,
    output: Output = Format.text,
) -> None:
    """Ask for a run; a paused or failed pipeline goes on."""
    options = {"restart": restart, "allow_deletes": allow_deletes, "rebuild": rebuild}
    _request(which, "run", options, wait, timeout, output)


def repair(
    which: Which, wait: Wait = False, allow_deletes: AllowDeletes = False, timeout: Timeout = None,
    output: Output = Format.text,
) -> None:  # fmt: skip
    """Compare mart and query and converge the keys that differ, whatever the mode."""
    _request(which, "repair", {"allow_deletes": allow_deletes}, wait, timeout, output)


def pause(
    which: Which,
    wait: Annotated[bool, typer.Option("--wait", "-w", help="Until it rests; exit 1 if it does not.")] = False,
    timeout: Timeout = None,
    output: Output = Format.text,
) -> None:
    """Ask for a pause: after the current batch, or at once if it is not running."""
    with open_client() as client:
        answer = client.post(pipeline_path(which, "pause"))
        if wait:
            with screen(answer["name"], output) as shown:
                answer = Watch(client, answer["id"], shown, _deadline(timeout)).until_paused()
    if output is Format.json:
        say_json(answer)
    else:
        say(f"{answer['name']} is {answer['status']}" + ("" if answer.get("changed", True) else " already"))
    if wait and answer["status"] != "PAUSED":
        raise typer.Exit(1)


def reconcile(
    which: Which,
    sample: Annotated[int, typer.Option(min=0, max=1000, help="How many keys of each kind to show.")] = 20,
    control_field: Annotated[
        str | None, typer.Option(help="Whose min and max to compare; default: the cursor, else the key.")
    ] = None,
    last: Annotated[bool, typer.Option("--last", help="Show the last report; compare nothing.")] = False,
    timeout: Timeout = None,
    output: Output = Format.text,
) -> None:
    """Compare a mart with its query, key by key; exit 1 if they differ. Writes nothing."""
    with open_client() as client:
        if last:
            answer = client.get(pipeline_path(which, "reconcile"))
        else:
            body = {"sample": sample} | ({"control_field": control_field} if control_field else {})
            answer = client.post(pipeline_path(which, "reconcile"), body)
        if answer is None:
            raise ClientError(f"{which} was never reconciled", "leave out --last")
        answer = _answered(client, answer, _deadline(timeout))
    report = answer["result"]
    if output is Format.json:
        say_json(answer)
    else:
        _show_report(which, report, answer["finished_at"])
    if not report["equal"]:
        raise typer.Exit(1)


def _request(which: str, action: str, options: Json, wait: bool, timeout: float | None, output: Format) -> None:
    with open_client() as client:
        before = client.get(pipeline_path(which, "status"))
        answer = client.post(pipeline_path(before["id"], action), options)
        _say_unheeded(answer, options)
        if not wait:
            _say_requested(answer, output)
            return
        with screen(answer["name"], output) as shown:
            ended = Watch(client, answer["id"], shown, _deadline(timeout)).until_end(_last_seen(before, answer))
    _say_ended(ended, output)


def _last_seen(before: Json, answer: Json) -> int:
    """The run after which ours comes: the one under way is ours if the request did not start another."""
    last = before["last_run"]
    if not last:
        return 0
    joined = not answer["changed"] or before["status"] == "PAUSE_REQUESTED"
    return int(last["id"]) - (1 if joined and last["status"] == "RUNNING" else 0)


def _say_unheeded(answer: Json, options: Json) -> None:
    named = ", ".join("--" + name.replace("_", "-") for name, given in options.items() if given)
    if named and not answer["changed"]:
        note(f"{answer['name']} was {answer['status']} already: {named} has no effect on that run")


def _say_requested(answer: Json, output: Format) -> None:
    if output is Format.json:
        say_json(answer)
    else:
        say(f"{answer['name']} is {answer['status']}" + ("" if answer["changed"] else " already"))


def _say_ended(run: Json, output: Format) -> None:
    if output is Format.json:
        say_json(run)
    elif run["status"] != "FAILED":
        counts = ", ".join(f"{run[f'rows_{name}']:,} {name}" for name in ("read", "written", "deleted", "unchanged"))
        say(f"{run['name']}: {run['status']} in {took(run)}, rows {counts}")
    if run["status"] == "FAILED":
        raise ClientError(f"{run['name']} FAILED: {run['error']}")
    if run["status"] != "SUCCESS":
        raise typer.Exit(1)


def _answered(client: Client, request: Json, deadline: float | None) -> Json:
    patience = Patience(client)
    while request["status"] not in ("DONE", "FAILED"):
        check_deadline(deadline)
        patience.wait()
        request = client.get(f"/requests/{request['id']}")
    return client.wait_for(request)


def _show_report(which: str, report: Json, finished_at: str) -> None:
    control = report["control"]
    rows: list[list[Any]] = [
        ["rows", report["query_rows"], report["mart_rows"]],
        [f"min {control['field']}", control["query"]["min"], control["mart"]["min"]],
        [f"max {control['field']}", control["query"]["max"], control["mart"]["max"]],
    ]
    say_table(["", "query", "mart"], rows, ("query", "mart"), fold=True)
    said = ", ".join(f"{report[kind]:,} {kind}" for kind in KINDS)
    verdict = "equal" if report["equal"] else f"DIFFERENT: {said}"
    say(f"{which}: {verdict} (compared {when(finished_at)}, in {span(report['seconds'])})")
    say_fields({"settled": report["settled"] or None, "not in the mart": ", ".join(report["lacking_columns"]) or None})
    if report["running"]:
        say("a run was under way meanwhile")
    for kind in KINDS:
        _show_samples(kind, report)
    if not report["equal"]:
        say(f"put it right with: vitrina repair {which} --wait")


def _show_samples(kind: str, report: Json) -> None:
    samples = report["samples"][kind]
    for sample in samples:
        key = ", ".join(f"{name} = {value}" for name, value in sample["key"].items())
        say(f"  {kind:9} {key}")
        for name, values in sample.get("columns", {}).items():
            say(f"  {'':9}   {name}: query {_shown(values['query'])}, mart {_shown(values['mart'])}")
    if samples and len(samples) < report[kind]:
        say(f"  {'':9} … and {report[kind] - len(samples):,} more")


def _shown(value: Any) -> str:
    return "NULL" if value is None else repr(value) if isinstance(value, str) else str(value)


def _deadline(timeout: float | None) -> float | None:
    return None if timeout is None else time.monotonic() + timeout

"""Making pipelines work: run, pause, reconcile, repair."""

import time
from typing import Annotated, Any

import typer

from vitrina.cli.choosing import Each, Labels, Some, Target, chosen, each_of, for_each, one_of, say_each
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
from vitrina.client import Client, ClientError, Request, Requested, Run, Status, check_deadline

Json = dict[str, Any]
Wait = Annotated[bool, typer.Option("--wait", "-w", help="Until it has ended; exit 1 unless it succeeded.")]
AllowDeletes = Annotated[bool, typer.Option("--allow-deletes", help="Let the mass-delete guard pass, this once.")]
KINDS = ("missing", "extra", "different")


def run(
    which: Some = None,
    label: Labels = None,
    target: Target = None,
    wait: Wait = False,
    restart: Annotated[bool, typer.Option("--restart", help="Drop the checkpoint first.")] = False,
    allow_deletes: AllowDeletes = False,
    rebuild: Annotated[bool, typer.Option("--rebuild", help="Write every row of the mart anew, at once.")] = False,
    timeout: Timeout = None,
    output: Output = Format.text,
) -> None:
    """Ask for a run; a paused or failed pipeline goes on."""
    options: Json = {"restart": restart, "allow_deletes": allow_deletes, "rebuild": rebuild}
    with chosen(which, label, target) as (client, names):
        if which:
            _await(client, client.run(names[0], **options), options, wait, timeout, output)
            return
        asked = for_each(names, lambda name: client.run(name, **options))
        asked = _by_target(asked)
        for requested in asked.values():
            _say_unheeded(requested, options)
        _await_each(client, asked, which, wait, timeout, output)


def resume(
    which: Some = None, label: Labels = None, target: Target = None, wait: Wait = False, timeout: Timeout = None,
    output: Output = Format.text,
) -> None:  # fmt: skip
    """Let what is paused, or asked to pause, go on; what is not is left as it is."""
    with chosen(which, label, target) as (client, names):
        marts = [mart for name in names for mart in each_of(client, name)]
        resting = [name for name in marts if client.status(name).status in ("PAUSED", "PAUSE_REQUESTED")]
        if which and not resting:
            raise ClientError(f"{which} is not paused: there is nothing to resume", f"vitrina run {which}")
        alone = which if len(marts) == 1 else None
        _await_each(client, for_each(resting, client.run), alone, wait, timeout, output)


def repair(
    which: Which, target: Target = None, wait: Wait = False, allow_deletes: AllowDeletes = False,
    timeout: Timeout = None, output: Output = Format.text,
) -> None:  # fmt: skip
    """Compare mart and query and converge the keys that differ, whatever the mode."""
    which = one_of(which, target)
    with open_client() as client:
        requested = client.repair(which, allow_deletes=allow_deletes)
        _await(client, requested, {"allow_deletes": allow_deletes}, wait, timeout, output)
    if wait and output is Format.text:
        say(f"it is compared again now; see: vitrina reconcile {which} --last")


def pause(
    which: Some = None,
    label: Labels = None,
    target: Target = None,
    wait: Annotated[bool, typer.Option("--wait", "-w", help="Until it rests; exit 1 if it does not.")] = False,
    now: Annotated[bool, typer.Option("--now", help="Cancel what is under way; do not wait for its batch.")] = False,
    timeout: Timeout = None,
    output: Output = Format.text,
) -> None:
    """Ask for a pause: after the current batch, or at once if it is not running."""
    with chosen(which, label, target) as (client, names):
        asked = _by_target(for_each(names, lambda name: client.pause(name, now=now)))
        which = which if len(asked) == 1 else None
        if not wait:
            say_each(asked, _requested, which, output)
            return
        deadline = _deadline(timeout)

        def rest(name: str) -> Status:
            with screen(asked[name].name, output) as shown:
                return Watch(client, asked[name], shown, deadline).until_paused()

        rested = Each({name: rest(name) for name in asked}, asked.failed)
        say_each(rested, lambda status: f"{status.name} is {status.status}", which, output)
    if any(status.status != "PAUSED" for status in rested.values()):
        raise typer.Exit(1)


def reconcile(
    which: Which,
    target: Target = None,
    sample: Annotated[int, typer.Option(min=0, max=1000, help="How many keys of each kind to show.")] = 20,
    control_field: Annotated[
        str | None, typer.Option(help="Whose min and max to compare; default: the cursor, else the key.")
    ] = None,
    last: Annotated[bool, typer.Option("--last", help="Show the last report; compare nothing.")] = False,
    timeout: Timeout = None,
    output: Output = Format.text,
) -> None:
    """Compare a mart with its query, key by key; exit 1 if they differ. Writes nothing."""
    deadline = _deadline(timeout)
    with open_client() as client:
        names = each_of(client, one_of(which, target))
        if last:
            asked = {name: client.last_report(name) for name in names}
        else:
            asked = {name: client.ask_reconcile(name, sample=sample, control_field=control_field) for name in names}
        answers = {name: _answer(client, name, request, deadline) for name, request in asked.items()}
    if output is Format.json:
        say_json(answers[names[0]] if len(names) == 1 else list(answers.values()))
    else:
        for name, answer in answers.items():
            _show_report(name if len(names) > 1 else one_of(which, target), answer["result"], answer["finished_at"])
    if not all(answer["result"]["equal"] for answer in answers.values()):
        raise typer.Exit(1)


def _answer(client: Client, name: str, asked: Request | None, deadline: float | None) -> Json:
    if asked is None:
        raise ClientError(f"{name} was never reconciled", "leave out --last")
    return answered(client, asked, deadline).raw


def _await(
    client: Client, requested: Requested, options: dict[str, bool], wait: bool, timeout: float | None, output: Format
) -> None:
    if requested.members:
        asked = _by_target(Each({requested.name: requested}, 0))
        for each in asked.values():
            _say_unheeded(each, options)
        return _await_each(client, asked, None, wait, timeout, output)
    _say_unheeded(requested, options)
    if not wait:
        _say_requested(requested, output)
        return None
    with screen(requested.name, output) as shown:
        ended = Watch(client, requested, shown, _deadline(timeout)).until_end()
    _say_ended(ended, output)
    return None


def _by_target(asked: Each[Requested]) -> Each[Requested]:
    """Of several targets each on its own."""
    rows = {each.name: each for requested in asked.values() for each in requested.members or [requested]}
    return Each(rows, asked.failed)


def _say_unheeded(requested: Requested, options: dict[str, bool]) -> None:
    named = ", ".join("--" + name.replace("_", "-") for name, given in options.items() if given)
    if named and not requested.changed:
        note(f"{requested.name} was {requested.status} already: {named} has no effect on that run")


def _await_each(
    client: Client, asked: Each[Requested], which: str | None, wait: bool, timeout: float | None, output: Format
) -> None:
    """The runs of several, one after the other as they were asked for; exit 1 unless all succeeded."""
    if not wait:
        say_each(asked, _requested, which, output)
        return
    deadline = _deadline(timeout)

    def end(requested: Requested) -> Run:
        with screen(requested.name, output) as shown:
            return Watch(client, requested, shown, deadline).until_end()

    ended = Each({name: end(requested) for name, requested in asked.items()}, asked.failed)
    say_each(ended, _ended, which, output)
    if any(run.status != "SUCCESS" for run in ended.values()):
        raise typer.Exit(1)


def _requested(requested: Requested) -> str:
    return f"{requested.name} is {requested.status}" + ("" if requested.changed else " already")


def _say_requested(requested: Requested, output: Format) -> None:
    if output is Format.json:
        say_json(requested.raw)
    else:
        say(_requested(requested))


def _ended(run: Run) -> str:
    counts = ", ".join(f"{number:,} {name}" for name, number in run.counts.items())
    why = f": {run.error}" if run.error else ""
    return f"{run.name}: {run.status} in {took(run.raw)}, rows {counts}{why}"


def _say_ended(run: Run, output: Format) -> None:
    if output is Format.json:
        say_json(run.raw)
    elif run.status != "FAILED":
        say(_ended(run))
    if run.status == "FAILED":
        raise ClientError(f"{run.name} FAILED: {run.error}", run.remedy or "")
    if run.status != "SUCCESS":
        raise typer.Exit(1)


def answered(client: Client, request: Request, deadline: float | None) -> Request:
    """Once a runner has answered."""
    patience = Patience(client)
    while request.status not in ("DONE", "FAILED"):
        check_deadline(deadline)
        patience.wait()
        request = client.request(request.id)
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
        why = report.get("deletes_refused")
        say(f"put it right with: vitrina repair {which} --wait" + (" --allow-deletes" if why else ""))
        if why:
            say(f"without --allow-deletes it deletes nothing ({why}): look at the source first")


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

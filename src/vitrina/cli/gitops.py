"""Pipelines as files: validate, plan, apply, export, schema."""

import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from vitrina.cli.changes import Edit, Edits, compare, parse_all
from vitrina.cli.completing import complete_names
from vitrina.cli.output import (
    ERRORS,
    Format,
    Output,
    Yes,
    ask,
    open_client,
    say,
    say_findings,
    say_json,
)
from vitrina.cli.reading import Unread, is_place, read, read_all
from vitrina.client import Client, ClientError, Finding, NotFound, Pipeline
from vitrina.control.services.plans import text_diff
from vitrina.domain.errors import VitrinaError
from vitrina.domain.findings import refusal, refused
from vitrina.files import Document, dump_pipeline, pipeline_schema

Json = dict[str, Any]
Sources = Annotated[
    list[Path], typer.Argument(metavar="FILE|FOLDER…", help="YAML; of a folder all files.", exists=True)
]
Prune = Annotated[bool, typer.Option("--prune", help="Delete the pipelines that the files do not have.")]
SIGNS = {"create": ("+", "green"), "update": ("~", "yellow"), "delete": ("-", "red")}
DONE = {"create": "created", "update": "updated", "delete": "deleted"}


def validate(
    what: Annotated[list[str], typer.Argument(metavar="FILE|FOLDER|NAME…", help="Files, or stored pipelines.")],
    output: Output = Format.text,
) -> None:
    """Check pipelines against their sources and marts, in files or stored; exit 1 on errors."""
    seen: set[Path] = set()
    with open_client() as client:
        results = [result for item in what for result in _validate(client, item, seen)]
    wrong = sum(not result["valid"] for result in results)
    if output is Format.json:
        say_json(results)
    else:
        for result in results:
            say(
                Text.assemble(f"{result['name']}: ", ("valid", "green") if result["valid"] else ("INVALID", "bold red"))
            )
            say_findings(result["findings"])
        if len(results) > 1:
            say(f"{len(results) - wrong} valid, {wrong} invalid")
    if wrong:
        raise typer.Exit(1)


def plan(sources: Sources, prune: Prune = False, output: Output = Format.text) -> None:
    """Show what apply would change: fields, DDL, and whether a full load follows. Exit 0 either way."""
    with open_client() as client:
        changes = _changes(client, sources, prune)
    if output is Format.json:
        say_json(changes.as_json())
    else:
        _show(changes, sources)
    _refuse_errors(changes)


def apply(sources: Sources, yes: Yes = False, prune: Prune = False, output: Output = Format.text) -> None:
    """Make the stored pipelines equal to the files: exactly what plan shows, all of it validated first."""
    with open_client() as client:
        changes = _changes(client, sources, prune)
        if output is Format.text:
            _show(changes, sources)
        _refuse_errors(changes)
        if changes.changes:
            ask("Apply?", output, yes)
        applied = _apply(client, changes, output)
    if output is Format.json:
        say_json(changes.as_json() | {"applied": applied})
    else:
        _say_next(changes)


def export(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME…]", help="Default: all.", autocompletion=complete_names)
    ] = None,
    folder: Annotated[
        Path | None, typer.Option("--folder", "-o", help="Write a file each here; default: all to stdout.")
    ] = None,
    output: Annotated[Format, typer.Option("--output", help="json: for programs.")] = Format.text,
) -> None:
    """Write stored pipelines as YAML that apply finds nothing to do with."""
    with open_client() as client:
        rows = [row.raw for row in (map(client.pipeline, names) if names else _whole(client))]
    if folder:
        written = [str(file) for file in _write(rows, folder)]
        if output is Format.json:
            say_json(written)
        else:
            say("\n".join(f"wrote {file}" for file in written))
    elif output is Format.json:
        say_json([row["config"] for row in rows])
    else:
        typer.echo("---\n".join(dump_pipeline(row["config"]) for row in rows), nl=False)


def schema() -> None:
    """Print the JSON Schema of a pipeline's YAML, for editors."""
    say_json(pipeline_schema())


# ── validate ─────────────────────────────────────────────────────────────────────────────────────────────────


def _validate(client: Client, item: str, seen: set[Path]) -> list[Json]:
    if is_place(item):
        return [_validate_document(client, each) for each in read(Path(item), seen)]
    try:
        return [{"name": item, "file": None} | _verdict(client.validate(item))]
    except NotFound as error:
        return [{"name": item, "file": None} | _refused("name", error)]


def _validate_document(client: Client, document: Document | Unread) -> Json:
    if isinstance(document, Unread):
        return {"name": str(document.file), "file": str(document.file)} | _refused("file", document.error)
    known = {"name": document.name, "file": str(document.file)}
    try:
        return known | _verdict(client.validate(document.parse().model_dump(mode="json")))
    except ERRORS as error:
        if getattr(error, "status", 422) != 422:
            raise
        return known | _refused("configuration", error)


def _refused(where: str, error: VitrinaError | ClientError) -> Json:
    found = refused(where, error) if isinstance(error, VitrinaError) else refusal(where, error.message, error.remedy)
    return {"valid": False, "findings": [found.as_json()]}


def _verdict(findings: list[Finding]) -> Json:
    valid = all(finding.level != "error" for finding in findings)
    return {"valid": valid, "findings": [finding.raw for finding in findings]}


# ── plan and apply ───────────────────────────────────────────────────────────────────────────────────────────


def _changes(client: Client, sources: Sequence[Path], prune: bool) -> Edits:
    """Every file is looked at before anything is refused, or asked."""
    documents, unread = read_all(sources)
    wanted = parse_all(documents, [each.error for each in unread])
    changes = compare(wanted, [row.raw for row in _whole(client)], prune=prune)
    for change in changes.changes:
        if change.wanted and change.matters and not change.errors:
            change.findings += [finding.raw for finding in client.validate(change.wanted.model_dump(mode="json"))]
    return changes


def _whole(client: Client) -> Iterator[Pipeline]:
    """Of several targets the pipeline that names them, as a file has it."""
    return (row for row in client.pipelines() if not row.config.get("part_of"))


def _refuse_errors(changes: Edits) -> None:
    if changes.errors:
        wrong = sum(bool(change.errors) for change in changes.changes)
        raise ClientError(f"{wrong} of {len(changes.changes)} changes cannot be made; nothing was done")


def _apply(client: Client, changes: Edits, output: Format) -> list[str]:
    applied: list[str] = []
    for change in changes.changes:
        try:
            _apply_one(client, change)
        except ClientError as error:
            left = len(changes.changes) - len(applied)
            error.message = f"{change.name}: {error.message} ({len(applied)} changes are made, {left} are not)"
            raise
        applied.append(change.name)
        if output is Format.text:
            say(f"{DONE[change.action]} {change.wanted.name if change.wanted else change.name}")
    return applied


def _apply_one(client: Client, change: Edit) -> None:
    if change.stored is None:
        client.create(change.body)
        return
    which, version = change.stored["id"], change.stored["version"]
    if change.action == "update":
        client.edit(which, change.body, version)
        return
    if client.pipeline(which).version != version:
        raise ClientError("it was changed meanwhile", "plan again")
    client.delete(which)


def _say_next(changes: Edits) -> None:
    """A new pipeline without a schedule waits for a word; a live one follows by itself."""
    new = [change.wanted for change in changes.changes if change.action == "create" and change.wanted]
    waiting = [pipeline for pipeline in new if pipeline.enabled and not pipeline.schedule_interval]
    idle = [pipeline.name for pipeline in waiting if pipeline.mode != "live"]
    if idle:
        say(f"next: vitrina run {shlex.quote(idle[0])} --wait")


def _show(changes: Edits, sources: Sequence[Path]) -> None:
    for change in changes.changes:
        sign, style = SIGNS[change.action]
        where = f"  ({change.file})" if change.file else ""
        say(Text.assemble((f"{sign} {change.action} {change.name}", style), (where, "dim")))
        for line in _details(change):
            say(line)
        say_findings([f for f in change.findings if f["level"] != "info"], indent="    ")
    counts = ", ".join(f"{changes.count(action)} to {action}" for action in SIGNS)
    if changes.changes:
        say(f"plan: {counts}, {len(changes.unchanged)} unchanged")
    else:
        say(f"nothing to do: {len(changes.unchanged)} unchanged")
    if changes.others and any(source.is_dir() for source in sources):
        say(f"not in the files and kept (--prune deletes them): {', '.join(changes.others)}")


def _details(change: Edit) -> list[Text | str]:
    lines: list[Text | str] = []
    if change.action == "create":
        lines += [f"    {line}" for line in dump_pipeline(change.body).splitlines()]
    for name, (old, new) in change.fields.items():
        diff = text_diff(old, new)
        lines += [f"    {name}: {diff[0]}"] if len(diff) == 1 else [f"    {name}:", *map(_coloured, diff)]
    lines += [Text.assemble("    ", ("ddl ", "bold"), statement) for statement in change.ddl]
    lines += [Text.assemble("    ", ("live ", "bold"), verdict) for verdict in change.verdicts]
    if change.follows:
        lines.append(Text.assemble("    ", ("then ", "bold"), change.follows))
    return lines


def _coloured(line: str) -> Text:
    return Text(f"      {line}", {"+": "green", "-": "red"}.get(line[:1], ""))


# ── export ───────────────────────────────────────────────────────────────────────────────────────────────────


def _write(rows: list[Json], folder: Path) -> list[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for row in rows:
        file = folder / (re.sub(r"[^\w.-]+", "_", row["name"]).lstrip(".") + ".yaml")
        if file in written:
            file = file.with_stem(f"{file.stem}-{row['id'][:8]}")
        file.write_text(dump_pipeline(row["config"]), encoding="utf-8")
        written.append(file)
    return written

"""How commands speak: text for people, JSON for programs, errors and notes on stderr."""

import json
import re
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Annotated, Any, Literal

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from vitrina.cli.completing import complete_names
from vitrina.cli.given import find_given
from vitrina.client import Client, ClientError
from vitrina.domain.errors import VitrinaError

ERRORS = (VitrinaError, ClientError)  # with a message and a remedy
WIDE = 100_000  # elsewhere than on a terminal nothing is cut or wrapped
STYLES = {
    "IDLE": "green",
    "FOLLOWING": "green",
    "SUCCESS": "green",
    "RUNNING": "cyan",
    "RUN_REQUESTED": "cyan",
    "PAUSE_REQUESTED": "yellow",
    "PAUSED": "yellow",
    "FAILED": "red",
    "error": "bold red",
    "fail": "bold red",
    "warning": "yellow",
    "warn": "yellow",
    "ok": "green",
    "info": "dim",
}


class Format(StrEnum):
    """How to show it."""

    text = "text"
    json = "json"


Output = Annotated[Format, typer.Option("--output", "-o", help="json: for programs, and nothing else on stdout.")]


Which = Annotated[str, typer.Argument(metavar="NAME", help="Name or uuid.", autocompletion=complete_names)]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
Timeout = Annotated[float | None, typer.Option(min=0, help="Seconds to wait at most; then exit 1.")]


@contextmanager
def open_client() -> Iterator[Client]:
    """A client of the API that the environment or `.env` names."""
    given = find_given()
    with Client.connect(given.url, given.token, given.home, retries=1) as client:
        yield client


# What a terminal would obey rather than show: control characters, but line breaks and tabs, and what turns text around.
OBEYED = re.compile("[\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f\\u061c\\u200e\\u200f\\u202a-\\u202e\\u2066-\\u2069]")


def visible(text: str) -> str:
    """The same with such characters written out: names and messages are of others."""
    return OBEYED.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


class Quoting(Console):
    """Shows what others wrote, and colours of ours only."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterator[Segment]:
        """Every piece of text, before it is written."""
        for piece in super().render(renderable, options):
            yield piece if piece.control else Segment(visible(piece.text), piece.style)


def console(*, stderr: bool = False) -> Console:
    """Made anew each time, so that it writes to what stdout is now; text of others is never markup."""
    file = sys.stderr if stderr else sys.stdout
    return Quoting(file=file, width=None if file.isatty() else WIDE, markup=False, highlight=False, soft_wrap=False)


def say(text: str | Text = "") -> None:
    """A line on stdout."""
    console().print(text, soft_wrap=True)


def say_beside(head: Text, text: str, *, stderr: bool = False) -> None:
    """A sentence beside its heading: on a terminal folded between words, and then still beside it."""
    grid = Table.grid()
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    grid.add_row(head, Text(text))
    console(stderr=stderr).print(grid)


def note(text: str) -> None:
    """A line on stderr."""
    console(stderr=True).print(text)


def program() -> str:
    """How this command is called here: by its path, as long as it is on no PATH."""
    return "vitrina" if shutil.which("vitrina") or not sys.argv[0].endswith("vitrina") else sys.argv[0]


def say_json(value: Any) -> None:
    """Nothing but JSON."""
    text = json.dumps(value, ensure_ascii=False, indent=2, default=str)
    typer.echo(OBEYED.sub(lambda found: f"\\u{ord(found[0]):04x}", text))


def say_error(error: VitrinaError | ClientError) -> None:
    """One sentence, what else is wrong, and the remedy."""
    say_beside(Text("error: ", "bold red"), error.message, stderr=True)
    errors = [finding for finding in getattr(error, "findings", ()) if finding["level"] == "error"]
    for finding in errors[1:]:  # the first is what the sentence says
        say_beside(Text("  also "), f"{finding['where']}: {finding['message']}", stderr=True)
    if error.remedy:
        say_beside(Text("remedy: ", "bold"), error.remedy, stderr=True)


def say_table(columns: list[str], rows: list[list[Any]], right: tuple[str, ...] = (), *, fold: bool = False) -> None:
    """Aligned, without columns that are empty: in full elsewhere than on a terminal, folded to its width on one."""
    cells = [[styled(cell) for cell in row] for row in rows]
    shown = [n for n in range(len(columns)) if not rows or any(row[n].plain for row in cells)]
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for n in shown:
        side: Literal["left", "right"] = "right" if columns[n] in right else "left"
        table.add_column(columns[n], justify=side, overflow="fold", no_wrap=not fold and n not in (shown[0], shown[-1]))
    for row in cells:
        table.add_row(*(row[n] for n in shown))
    console().print(table)


def say_fields(fields: dict[str, Any]) -> None:
    """One to a line, names aligned; None is left out."""
    shown = {name: value for name, value in fields.items() if value is not None}
    width = max((len(name) for name in shown), default=0)
    for name, value in shown.items():
        say(Text.assemble((f"{name:{width}}  ", "dim"), styled(value)))


def say_findings(findings: list[dict[str, Any]], indent: str = "  ") -> None:
    """Each with where and remedy."""
    for finding in findings:
        level = finding["level"]
        say_beside(Text.assemble(indent, (f"{level:8}", STYLES[level])), f"{_where(finding)}: {finding['message']}")
        if finding["remedy"] and level != "info":
            say_beside(Text(f"{indent}{'':8}"), f"remedy: {finding['remedy']}")


def _where(finding: dict[str, Any]) -> str:
    whose = finding.get("target")
    return f"{finding['where']} of {whose}" if whose else str(finding["where"])


def styled(value: Any) -> Text:
    """A value as people read it, in the colour of its meaning."""
    if value is None:
        return Text("")
    if isinstance(value, int) and not isinstance(value, bool):
        return Text(f"{value:,}")
    return value if isinstance(value, Text) else Text(str(value), STYLES.get(str(value).split(" ")[0], ""))


def ask(question: str, output: Format, yes: bool) -> None:
    """Go on only after a yes: asked for on a terminal, given as --yes elsewhere."""
    if yes:
        return
    if output is Format.json or not sys.stdin.isatty():
        raise typer.BadParameter("there is nobody to ask here, so it has to be given", param_hint="--yes")
    if not typer.confirm(question):
        raise ClientError("nothing was done")


def parse_time(text: str) -> datetime:
    """As the API writes it."""
    return datetime.fromisoformat(text)


def when(text: str | None) -> str:
    """A time, near or far, as people say it."""
    if not text:
        return ""
    at = parse_time(text)
    seconds = (at - datetime.now(at.tzinfo)).total_seconds()
    if abs(seconds) < 1:
        return "just now" if seconds <= 0 else "now"
    said = span(abs(seconds))
    return f"in {said}" if seconds > 0 else f"{said} ago"


def span(seconds: float) -> str:
    """0.4 s, 12 s, 3 min, 5 h, 2 d."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    for limit, size, unit in ((120, 1, "s"), (7200, 60, "min"), (172_800, 3600, "h")):
        if seconds < limit:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds / 86_400:.0f} d"


def took(run: dict[str, Any]) -> str:
    """How long a run took, or has taken so far."""
    started = parse_time(run["started_at"])
    ended = parse_time(run["finished_at"]) if run["finished_at"] else datetime.now(started.tzinfo)
    return span(max((ended - started) / timedelta(seconds=1), 0))

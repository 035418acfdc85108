"""One pipeline by its name, or all with a label: what is asked of several is asked of each on its own."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Annotated, TypeVar

import typer

from vitrina.cli.completing import complete_names
from vitrina.cli.output import Format, open_client, say, say_error, say_json
from vitrina.client import Client, ClientError
from vitrina.client.records import Record

Target = Annotated[
    str | None, typer.Option("--target", metavar="TARGET", help="Of several targets just this one, e.g. es:film_card.")
]
R = TypeVar("R", bound=Record)
Some = Annotated[
    str | None, typer.Argument(metavar="[NAME]", help="Name or uuid; or --label.", autocompletion=complete_names)
]
Labels = Annotated[
    list[str] | None,
    typer.Option("--label", "-l", metavar="NAME[:VALUE]", help="All with this label; of several, with all of them."),
]


class Each(dict[str, R]):
    """What became of each, by name; those that were refused are only counted."""

    def __init__(self, done: dict[str, R], failed: int) -> None:
        super().__init__(done)
        self.failed = failed


@contextmanager
def chosen(
    which: str | None, labels: list[str] | None, target: str | None = None
) -> Iterator[tuple[Client, list[str]]]:
    """A client, and the names that are meant; never all of them because nothing was said."""
    if target and not which:
        raise typer.BadParameter("name the pipeline whose target it is", param_hint="NAME")
    if bool(which) == bool(labels):
        raise typer.BadParameter("name a pipeline, or give --label, and not both", param_hint="NAME")
    with open_client() as client:
        yield client, [one_of(which, target)] if which else _labelled(client, labels or [])


def one_of(which: str, target: str | None) -> str:
    """The name of one of several targets, else of the pipeline itself."""
    return f"{which}@{target}" if target else which


def each_of(client: Client, which: str) -> list[str]:
    """The names of all targets, if there are several; else the one that was said."""
    return [member["name"] for member in client.pipeline(which).members] or [which]


def _labelled(client: Client, labels: list[str]) -> list[str]:
    found = [row.name for row in client.pipelines(labels=labels) if not row.config.get("part_of")]
    if not found:
        raise ClientError(f"no pipeline is labelled {' and '.join(labels)}", "look at them with: vitrina list")
    return found


def for_each(names: Iterable[str], ask: Callable[[str], R]) -> Each[R]:
    """Each on its own, so that one that cannot does not hold up the others; of a single one its error is the error."""
    names, done = list(names), dict[str, R]()
    for name in names:
        try:
            done[name] = ask(name)
        except ClientError as error:
            if len(names) == 1:
                raise
            say_error(error)
    return Each(done, len(names) - len(done))


def say_each(done: Each[R], sentence: Callable[[R], str], which: str | None, output: Format) -> None:
    """A line for each, or JSON: of the one that was named, or a list; exit 1 if any was refused."""
    rows = [row.raw for row in done.values()]
    if output is Format.json:
        say_json(rows[0] if which else rows)
    else:
        for row in done.values():
            say(sentence(row))
    if done.failed:
        raise typer.Exit(1)

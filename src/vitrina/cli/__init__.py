"""The command line."""

import sys
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from vitrina import __version__
from vitrina.cli.later import Later, Place, Sections

# The command line of httpx, which nobody here runs, would be a third of what importing it takes.
sys.modules.setdefault("httpx._main", None)  # type: ignore[arg-type]

COMMANDS = {
    "Start": "demo:demo stack:up stack:down stack:logs doctor:doctor",
    "Pipelines as files": "gitops:validate gitops:plan gitops:apply gitops:export gitops:schema",
    "Look": "pipelines:list_ pipelines:get pipelines:status pipelines:runs pipelines:state pipelines:preview "
    "pipelines:lineage",
    "Run": "running:run running:pause running:resume running:reconcile running:repair pipelines:reload_config "
    "pipelines:enable pipelines:disable pipelines:delete",
    "Operate": "stack:migrate roles:roles serve:serve stack:runner stack:psql stack:db capture:capture "
    "sources:source alerts:alert serve:token",
}


class App(typer.Typer):
    """Errors of ours are a sentence and a remedy, not a traceback."""

    def __call__(self, *args: object, **kwargs: object) -> object:
        try:
            return super().__call__(*args, **kwargs)
        except Exception as error:
            from vitrina.cli.failing import tell  # knows every kind of error, which takes as long as a command

            tell(error)
        sys.exit(1)


class Commands(Sections):
    """All of them, in their sections."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands.update((place.name, Later(place)) for place in _places())


app = App(
    name="vitrina",
    cls=Commands,
    help="Write a SELECT, name its key, and Vitrina keeps a mart equal to it.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def _places() -> Iterator[Place]:
    for section, commands in COMMANDS.items():
        for module, attribute in (command.split(":") for command in commands.split()):
            name = attribute.strip("_").replace("_", "-")
            yield Place(section, name, f"{__name__}.{module}", attribute)


def _show_version(value: bool) -> None:
    if value:
        typer.echo(f"vitrina {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Say which.")
    ] = False,
) -> None:
    """Write a SELECT, name its key, and Vitrina keeps a mart equal to it."""

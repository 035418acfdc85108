"""The command line."""

import sys
from typing import Annotated

import typer
from rich.console import Console

from vitrina import __version__
from vitrina.cli import demo, stack
from vitrina.domain.errors import VitrinaError

errors = Console(stderr=True)


class App(typer.Typer):
    """Errors of ours are a sentence and a remedy, not a traceback."""

    def __call__(self, *args: object, **kwargs: object) -> object:
        try:
            return super().__call__(*args, **kwargs)
        except VitrinaError as error:
            errors.print(f"[bold red]error:[/] {error.message}", highlight=False, soft_wrap=True)
            if error.remedy:
                errors.print(f"[bold]remedy:[/] {error.remedy}", highlight=False, soft_wrap=True)
            sys.exit(1)


app = App(
    name="vitrina",
    help="Write a SELECT, name its key, and Vitrina keeps a mart equal to it.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


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


app.command()(demo.demo)
for command in (stack.up, stack.down, stack.logs, stack.migrate, stack.roles, stack.runner, stack.psql):
    app.command()(command)
app.add_typer(stack.database, name="db")

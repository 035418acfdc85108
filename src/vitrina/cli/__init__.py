"""The command line."""

import os
import sys
from typing import Annotated, Any

import typer
from pydantic import ValidationError
from pydantic_settings import SettingsError
from typer.core import TyperGroup

from vitrina import __version__
from vitrina.cli import capture, demo, doctor, gitops, pipelines, running, serve, stack
from vitrina.cli.output import ERRORS, say_error
from vitrina.domain.errors import ConfigError


class App(typer.Typer):
    """Errors of ours are a sentence and a remedy, not a traceback."""

    def __call__(self, *args: object, **kwargs: object) -> object:
        try:
            return super().__call__(*args, **kwargs)
        except ERRORS as error:
            say_error(error)
        except ValidationError as error:
            wrong = "; ".join(f"VITRINA_{str(e['loc'][0]).upper()}: {e['msg']}" for e in error.errors())
            say_error(ConfigError(f"settings: {wrong}", "correct the environment or .env"))
        except SettingsError as error:  # names the field, and not what stands there
            say_error(ConfigError(f"settings: {error}", "correct it in the environment or .env"))
        except BrokenPipeError:  # whoever read us has seen enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        except OSError as error:
            say_error(ConfigError(f"{error.filename or 'the system'}: {error.strerror or error}"))
        sys.exit(1)


class Sections(TyperGroup):
    """Help with the commands in sections, in the order in which they were added."""

    def format_commands(self, _: Any, formatter: Any) -> None:
        """A section for each panel; summaries in full, each a line or two."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for name, command in self.commands.items():
            panel = getattr(command, "rich_help_panel", None)
            title = panel if isinstance(panel, str) else "Commands"
            sections.setdefault(title, []).append((name, command.get_short_help_str(limit=200)))
        for title, rows in sections.items():
            with formatter.section(title):
                formatter.write_dl(rows)


app = App(
    name="vitrina",
    cls=Sections,
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


COMMANDS: dict[str, list[Any]] = {
    "Start": [demo.demo, stack.up, stack.down, stack.logs, doctor.doctor],
    "Pipelines as files": [gitops.validate, gitops.plan, gitops.apply, gitops.export, gitops.schema],
    "Look": [
        pipelines.list_,
        pipelines.get,
        pipelines.status,
        pipelines.runs,
        pipelines.state,
        pipelines.preview,
        pipelines.lineage,
    ],
    "Run": [
        running.run,
        running.pause,
        running.reconcile,
        running.repair,
        pipelines.reload_config,
        pipelines.enable,
        pipelines.disable,
        pipelines.delete,
    ],
    "Operate": [stack.migrate, stack.roles, serve.serve, stack.runner, stack.psql],
}
SETTINGS = {"psql": {"ignore_unknown_options": True}}
for panel, commands in COMMANDS.items():
    for command in commands:
        name = command.__name__.strip("_").replace("_", "-")
        app.command(name, rich_help_panel=panel, context_settings=SETTINGS.get(name))(command)
app.add_typer(stack.database, name="db", rich_help_panel="Operate")
app.add_typer(capture.capture, name="capture", rich_help_panel="Operate")
app.add_typer(serve.token, name="token", rich_help_panel="Operate")

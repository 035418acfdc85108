"""The command line as it is declared, every command imported."""

from collections.abc import Iterator
from typing import Any

import typer

from vitrina.cli import app


def find(path: tuple[str, ...]) -> Any:
    """The command or group of this name."""
    found: Any = typer.main.get_command(app)
    for name in path:
        found = _real(found.commands[name])
    return found


def paths(path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The names of all commands."""
    commands = getattr(find(path), "commands", None)
    if commands is None:
        yield path
        return
    for name in commands:
        yield from paths((*path, name))


def options(*path: str) -> set[str]:
    """What a command may be given."""
    return {option for parameter in find(path).params for option in parameter.opts}


def _real(command: Any) -> Any:
    return command.place.load() if hasattr(command, "place") else command

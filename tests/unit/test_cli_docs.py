"""The command line's docs are true: every command is there, and every help has a summary."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from tests.acceptance.client import vitrina
from vitrina.cli import app

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "cli.md").read_text()


def _commands(group: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from _commands(command, (*path, name))
        else:
            yield (*path, name)


COMMANDS = [*_commands(typer.main.get_command(app))]


def test_the_page_names_every_command_and_no_other() -> None:
    documented = re.findall(r"^\| `vitrina ((?:token |db |capture )?[\w-]+)", PAGE, flags=re.MULTILINE)
    assert sorted(documented) == sorted(" ".join(path) for path in COMMANDS)


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_every_help_has_a_summary_and_every_option_a_word(path: tuple[str, ...]) -> None:
    lines = vitrina(*path, "--help").out.splitlines()
    assert lines[2].strip().endswith((".", ",", ";")) or lines[3].strip()
    command: Any = typer.main.get_command(app)
    for name in path:
        command = command.commands[name]
    assert all(parameter.help for parameter in command.params if parameter.name != "help")


def test_the_overview_has_every_command_and_completion() -> None:
    overview = vitrina("--help").out
    assert "--install-completion" in overview
    assert all(re.search(rf"^  {path[0]} ", overview, flags=re.MULTILINE) for path in COMMANDS)
    assert "..." not in overview.split("Start:")[1]

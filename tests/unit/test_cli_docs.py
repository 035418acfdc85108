"""The command line's docs are true: every command is there, and every help has a summary."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests import commands
from tests.acceptance.client import vitrina

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "cli.md").read_text()


COMMANDS = [*commands.paths()]


def test_the_page_names_every_command_and_no_other() -> None:
    documented = re.findall(r"^\| `vitrina ((?:token |db |capture )?[\w-]+)", PAGE, flags=re.MULTILINE)
    assert sorted(documented) == sorted(" ".join(path) for path in COMMANDS)


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_every_help_has_a_summary_and_every_option_a_word(path: tuple[str, ...]) -> None:
    lines = vitrina(*path, "--help").out.splitlines()
    assert lines[2].strip().endswith((".", ",", ";")) or lines[3].strip()
    assert all(parameter.help for parameter in commands.find(path).params if parameter.name != "help")


def test_the_overview_has_every_command_and_completion() -> None:
    overview = vitrina("--help").out
    assert "--install-completion" in overview
    assert all(re.search(rf"^  {path[0]} ", overview, flags=re.MULTILINE) for path in COMMANDS)
    assert "..." not in overview.split("Start:")[1]


@pytest.mark.parametrize(
    ("arguments", "unneeded"),
    [
        (["--help"], {"httpx", "pydantic", "psycopg", "vitrina.cli.output"}),
        (["list", "--help"], {"psycopg", "sqlalchemy", "vitrina.sql", "vitrina.control", "vitrina.cli.stack"}),
        (["plan", "--help"], {"psycopg", "sqlalchemy", "vitrina.sql", "vitrina.engine", "vitrina.sinks"}),
        (["runner", "--help"], {"sqlalchemy", "fastapi", "vitrina.runner.main", "vitrina.cli.demo"}),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_command_imports_no_more_than_it_needs(arguments: list[str], unneeded: set[str]) -> None:
    program = "import sys; from vitrina.cli import app\ntry: app(sys.argv[1:])\nfinally: print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=True)
    assert set(done.stdout.splitlines()[-1].split()) & unneeded == set()

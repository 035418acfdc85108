"""The command line's docs are true: every command is there, and every help has a summary."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests import commands
from tests.acceptance.client import vitrina
from tests.support import Lab

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "cli.md").read_text()


COMMANDS = [*commands.paths()]
HEAVY = {  # that a client's command can do without; imports are most of what one waits for, and pydantic is Typer's own
    *("pydantic_settings", "yaml", "asyncio", "psycopg", "sqlalchemy", "structlog", "fastapi"),
    *("vitrina.settings", "vitrina.sql", "vitrina.control", "vitrina.domain.pipeline", "vitrina.cli.stack"),
}
ALOFT = {  # what a command does not need that opens the warehouse and no source
    *("sqlalchemy", "alembic", "structlog", "pygments", "postgast", "google.protobuf", "fastapi", "uvicorn", "httpx"),
    *("vitrina.sql", "vitrina.sources", "vitrina.engine", "vitrina.control.plane", "vitrina.runner.main"),
}


def test_the_page_names_every_command_and_no_other() -> None:
    documented = re.findall(r"^\| `vitrina ((?:token |db |capture |source |alert )?[\w-]+)", PAGE, flags=re.MULTILINE)
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
        (["--help"], {"httpx", "pydantic", "psycopg", "rich", "vitrina.cli.output"}),
        (["list", "--help"], HEAVY | {"httpx"}),
        (["run", "--help"], HEAVY | {"httpx"}),
        (["source", "list", "--help"], HEAVY | {"httpx"}),
        (["plan", "--help"], {"psycopg", "sqlalchemy", "vitrina.sql", "vitrina.engine", "vitrina.sinks"}),
        (["schema"], {"psycopg", "sqlalchemy", "httpx", "vitrina.sql", "vitrina.engine", "vitrina.sinks"}),
        (["demo", "--help"], HEAVY | {"httpx", "vitrina.runner", "vitrina.cli.demonstration"}),
        (["up", "--help"], ALOFT),
        (["runner", "--help"], ALOFT),
        (["serve", "--help"], ALOFT),
        (["psql", "--help"], ALOFT),
        (["token", "list", "--help"], ALOFT),
        (["roles", "--help"], ALOFT),
        (["capture", "status", "--help"], {"sqlalchemy", "structlog", "pygments", "vitrina.engine", "vitrina.runner"}),
        (["doctor", "--help"], {"sqlalchemy", "structlog", "fastapi", "vitrina.engine", "vitrina.runner"}),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_command_imports_no_more_than_it_needs(arguments: list[str], unneeded: set[str]) -> None:
    assert imported(arguments) & unneeded == set()


def imported(arguments: list[str], **environment: str) -> set[str]:
    """What a command has imported in the end."""
    named = "import sys; sys.argv[0] = 'vitrina'; from vitrina.cli import app"
    program = f"{named}\ntry: app(sys.argv[1:])\nfinally: print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, env=os.environ | environment
    )
    return set(done.stdout.splitlines()[-1].split())


@pytest.mark.parametrize(
    "arguments", [["list"], ["status", "films"], ["run", "films"], ["source", "list"]], ids=" ".join
)
def test_a_command_that_only_asks_the_api_reads_no_settings_but_its_own(arguments: list[str], tmp_path: Path) -> None:
    asked = {"VITRINA_URL": "http://127.0.0.1:9", "VITRINA_TOKEN": "vtr_x", "VITRINA_HOME": str(tmp_path)}
    found = imported(arguments, **asked)
    assert "httpx" in found
    assert "rich.syntax" not in found  # which the command line of httpx brings
    assert found & HEAVY == set()


@pytest.mark.sql
@pytest.mark.parametrize("arguments", [["migrate"], ["token", "list"], ["db", "url"], ["roles"]], ids=" ".join)
def test_a_command_on_a_warehouse_that_is_up_to_date_imports_no_more_than_its_help(
    arguments: list[str], lab: Lab
) -> None:
    """Migrations are imported when one is missing, for example."""
    found = imported(arguments, VITRINA_DATABASE_URL=lab.conninfo)
    assert "psycopg" in found
    assert found & ALOFT == set()


def test_completion_asks_without_anything_heavy(tmp_path: Path) -> None:
    asked = {"VITRINA_URL": "http://127.0.0.1:9", "VITRINA_TOKEN": "vtr_x", "VITRINA_HOME": str(tmp_path)}
    shell = {"_VITRINA_COMPLETE": "complete_bash", "COMP_WORDS": "vitrina run fi", "COMP_CWORD": "2"}
    found = imported([], **asked, **shell)
    assert "vitrina.cli.completing" in found
    assert found & (HEAVY | {"httpx"}) == set()


def test_completion_without_a_token_asks_nobody(tmp_path: Path) -> None:
    shell = {"_VITRINA_COMPLETE": "complete_bash", "COMP_WORDS": "vitrina run fi", "COMP_CWORD": "2"}
    found = imported([], VITRINA_URL="", VITRINA_TOKEN="", VITRINA_HOME=str(tmp_path), **shell)
    assert "vitrina.cli.completing" in found
    assert found & (HEAVY | {"httpx"}) == set()

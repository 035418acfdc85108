"""`vitrina up` and the settings that what it started runs with."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.acceptance.processes import Cli, free_port
from tests.support import wait_for
from vitrina.cli.processes import Background, all_of

SPOILED = """\
import vitrina


@vitrina.transform("spoil")
def spoil(rows):
    for row in rows:
        yield row | {"id": row["nothing"]}
"""
PIPELINE = """\
name: spoiled
key: [id]
tasks:
  - {order_index: 1, task_type: SQL, body: "SELECT t.id FROM public.t t"}
  - {order_index: 2, task_type: PYTHON, body: spoil, target_table: analytics.spoiled}
"""


def pids(home: Path) -> dict[str, int | None]:
    return {process.name: process.pid for process in all_of(home / "home")}


@pytest.mark.long
def test_what_runs_with_other_settings_restarts_and_nothing_else(stack: Cli, home: Path) -> None:
    port = free_port()
    stack("up", "--runners", "2", "--port", port)
    first = pids(home)
    (home / ".env").write_text("VITRINA_SOURCES__SHOP=postgresql://me:planted-secret@127.0.0.1:1/shop\n")
    assert "warn api: runs with other settings than those of now: VITRINA_SOURCES__SHOP\n" in stack("doctor", expect=1)
    said = stack("up", "--runners", "1")
    for name in first:
        assert f"{name} restarts with other settings: VITRINA_SOURCES__SHOP\n" in said
    assert f"http://127.0.0.1:{port}/docs" in said
    second = pids(home)
    assert second.keys() == first.keys() == {"api", "runner-1", "runner-2"}
    assert not set(second.values()) & {*first.values(), None}
    assert "shop" in stack("source", "list")
    assert "restarts" not in stack("up", "--runners", "2")
    assert pids(home) == second
    kept = "".join(file.read_text() for file in (home / "home").glob("*.settings"))
    assert "planted-secret" not in kept
    stack("down")
    assert not list((home / "home").glob("*.settings"))


@pytest.mark.long
def test_what_a_process_says_of_its_settings_is_what_up_says(stack: Cli, home: Path) -> None:
    stack.environment["VITRINA_PORT"] = free_port()
    (home / ".env").write_text("VITRINA_TRANSFORM_MODULES=nowhere_to_be_found\n")
    said = stack("up", expect=1)
    assert "error: api did not start: VITRINA_TRANSFORM_MODULES names 'nowhere_to_be_found'" in said
    assert f"remedy: install it, put it into {home}" in said
    assert "--port" not in said
    (home / ".env").write_text("VITRINA_WEBHOOK_URL=https://hooks.example/planted-path\n")
    said = stack("up", expect=1)
    assert "error: runner-1 did not start: " in said
    assert "remedy: set both, or neither" in said
    assert "planted-path" not in said
    (home / ".env").write_text("")
    assert "up: http" in stack("up")


@pytest.mark.long
def test_a_transform_of_the_working_folder_is_found_and_its_error_is_in_the_log(stack: Cli, home: Path) -> None:
    stack.environment["VITRINA_PORT"] = free_port()
    (home / "spoiling.py").write_text(SPOILED)
    (home / ".env").write_text("VITRINA_TRANSFORM_MODULES=spoiling\n")
    (home / "spoiled.yaml").write_text(PIPELINE)
    installed = [str(Path(sys.executable).with_name("vitrina")), "doctor"]  # unlike `python -m`, it looks elsewhere
    done = subprocess.run(installed, env=stack.environment, cwd=home, capture_output=True, text=True)
    assert "transforms: " in done.stdout
    assert "spoil" in done.stdout.partition("transforms: ")[2].splitlines()[0]
    stack("up")
    stack("psql", "-c", "CREATE TABLE public.t AS SELECT 1 AS id")
    stack("apply", "spoiled.yaml", "--yes")
    said = stack("run", "spoiled", "--wait", expect=1)
    assert "transform 'spoil' raised KeyError: 'nothing', at the row with id = 1, at spoiling.py:7" in said
    log = Background(home / "home", "runner-1").log
    wait_for(lambda: "Traceback (most recent call last)" in log.read_text())
    assert 'spoiling.py\\", line 7, in spoil' in log.read_text()


def test_a_wrong_setting_names_itself_in_its_remedy(stack: Cli) -> None:
    stack.environment["VITRINA_SLOTS"] = "many"
    said = stack("up", expect=1)
    assert "VITRINA_SLOTS must be a whole number" in said
    assert "remedy: correct VITRINA_SLOTS in the environment or .env" in said

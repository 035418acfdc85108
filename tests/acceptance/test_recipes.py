"""docs/recipes.md is true: each command is run by a shell, with a real API and a runner behind it."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest
from cronsim import CronSim
from psycopg.conninfo import conninfo_to_dict

from tests.contract.server import Api, running, serve
from tests.faults.driver import runner_environment
from tests.support import Lab

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "recipes.md").read_text()
DBT = ROOT / "integrations" / "dbt" / ".venv" / "bin" / "dbt"


def blocks(kind: str) -> list[str]:
    """Of the page."""
    return re.findall(rf"```{kind}\n(.+?)```", PAGE, flags=re.DOTALL)


@pytest.fixture
def api(lab: Lab) -> Iterator[Api]:
    """With the runner that the page takes for granted; what dbt makes may be read."""
    lab.configure(allowed_source_schemas=["content", "ugc", "dbt"])
    with serve(lab) as api, running(lab):
        yield api


@pytest.fixture
def shell(api: Api, tmp_path: Path) -> "Shell":
    """In a folder with the demo's pipelines."""
    shutil.copytree(ROOT / "examples" / "pipelines", tmp_path / "pipelines")
    shutil.copytree(ROOT / "examples" / "dbt", tmp_path / "examples" / "dbt")
    return Shell(api, tmp_path)


class Shell:
    """A shell that finds `vitrina`, its API and its warehouse."""

    def __init__(self, api: Api, folder: Path) -> None:
        self.folder = folder
        paths = [str(Path(sys.executable).parent), str(DBT.parent), os.environ["PATH"]]
        known = conninfo_to_dict(api.lab.conninfo)
        self.environment = runner_environment(api.lab) | {
            "PATH": os.pathsep.join(paths),
            "VITRINA_URL": api.url,
            "VITRINA_TOKEN": api.tokens["admin"],
            "PGHOST": str(known["host"]),
            "PGPORT": str(known["port"]),
            "PGUSER": str(known["user"]),
            "PGDATABASE": str(known["dbname"]),
            "DBT_SEND_ANONYMOUS_USAGE_STATS": "false",
        }

    def __call__(self, script: str) -> str:
        """What it said; it must end well."""
        done = subprocess.run(
            ["bash", "-euc", script],
            env=self.environment, cwd=self.folder, capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{script}\n{done.stdout}{done.stderr}"
        return done.stdout


@pytest.mark.long
def test_every_command_of_the_page_ends_well(api: Api, shell: Shell) -> None:
    shell("vitrina apply pipelines --yes")
    (line,) = blocks("crontab")
    *times, command = line.split(maxsplit=5)
    CronSim(" ".join(times), datetime(2026, 1, 1))  # or it raises
    (started,) = re.findall(r"^ExecStart=(.+)$", PAGE, flags=re.MULTILINE)
    scripts = [*blocks("sh"), command, started]
    assert len(scripts) == 6
    for script in scripts:
        shell(script)
    assert (shell.folder / "run.json").read_text().startswith("{")
    assert api.lab.value("SELECT count(*) FROM analytics.film_dim") == 60


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="there is no systemd-analyze: apt install systemd")
def test_the_units_are_good(tmp_path: Path) -> None:
    units = {block.splitlines()[0].removeprefix("# "): block for block in blocks("ini")}
    for name, text in units.items():
        (tmp_path / name).write_text(text)
    done = subprocess.run(
        ["systemd-analyze", "verify", *(tmp_path / name for name in units)], capture_output=True, text=True, check=False
    )
    assert not [said for said in done.stderr.splitlines() if "film-dim" in said], done.stderr


@pytest.mark.long
@pytest.mark.skipif(not DBT.exists(), reason="dbt is not set up: make test-dbt")
def test_dbt_before_and_after_a_mart(api: Api, shell: Shell) -> None:
    shell("vitrina apply pipelines --yes")
    for script in blocks("shell"):
        shell(script)
    scores = "SELECT count(*), sum(films) FROM {}"
    made = api.lab.sql(scores.format("dbt.scores"))
    assert made == api.lab.sql(scores.format("analytics.film_scores"))
    assert made[0][0] > 3

"""The services of a compose file as processes of this machine: their own commands, environments, order and health.

What stands for what, since there is no container engine here:

- an image that is built from the Dockerfile: this environment's `vitrina`, with the ENV and ENTRYPOINT of the file;
- `postgres:…`: the test suite's Postgres binaries, with the command's own settings, user, password and database;
- the Elasticsearch image: the server that the tests share;
- names of services and published ports: addresses on 127.0.0.1 (`places`).
"""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
import yaml
from psycopg import sql

from tests.acceptance.processes import CLEAN
from tests.patience import patient, wait
from vitrina.embedded.postgres import EmbeddedPostgres

ROOT = Path(__file__).parents[2]
FILE, DOCKERFILE = ROOT / "infra" / "docker-compose.yml", ROOT / "Dockerfile"
VARIABLE = re.compile(r"\$\{(\w+)(?::([-?])([^}]*))?\}")
PATIENCE_SECONDS = 60.0


def read(file: Path, variables: Mapping[str, str]) -> dict[str, Any]:
    """The file with its variables filled in, as Compose does it: a required one that is missing is an error."""

    def fill(match: re.Match[str]) -> str:
        name, kind, other = match.groups()
        if variables.get(name):
            return variables[name]
        if kind != "-":
            raise KeyError(f"{name}: {other}")
        return str(other)

    def walk(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: walk(item) for key, item in value.items()}
        if isinstance(value, list):
            return [walk(item) for item in value]
        return VARIABLE.sub(fill, value) if isinstance(value, str) else value

    return dict(walk(yaml.safe_load(file.read_text())))


def read_env(file: Path) -> dict[str, str]:
    """The variables of an .env file."""
    lines = [line for line in file.read_text().splitlines() if line and not line.startswith("#")]
    return dict(line.split("=", 1) for line in lines)


def image(dockerfile: Path) -> tuple[dict[str, str], list[str]]:
    """The last stage's ENV and ENTRYPOINT."""
    stage = dockerfile.read_text().replace("\\\n", " ").rpartition("\nFROM ")[2]
    (environment,) = re.findall(r"^ENV (.+)$", stage, flags=re.MULTILINE)
    (entrypoint,) = re.findall(r"^ENTRYPOINT (.+)$", stage, flags=re.MULTILINE)
    return dict(pair.split("=", 1) for pair in environment.split()), json.loads(entrypoint)


@dataclass
class Composed:
    """A compose file at work."""

    services: dict[str, dict[str, Any]]
    places: dict[str, str]  # what the file says → where that is here
    environment: dict[str, str]  # of every process, over its own
    folder: Path
    database: EmbeddedPostgres
    files: Path = FILE.parent  # where its env_files are looked for
    processes: dict[str, list[subprocess.Popen[bytes]]] = field(default_factory=dict)
    order: list[str] = field(default_factory=list)

    def up(self) -> None:
        """Start every service once what it depends on is as it asks."""
        while waiting := self.services.keys() - set(self.order):
            ready = [name for name in waiting if set(self.services[name].get("depends_on", ())) <= set(self.order)]
            assert ready, f"these wait for each other: {waiting}"
            for name in sorted(ready):
                self._await_conditions(name)
                self._start(name)
                self.order.append(name)

    def down(self) -> dict[str, list[int]]:
        """Stop what still runs, within the grace that it asks for; how each process ended."""
        for process in self._alive():
            process.send_signal(signal.SIGTERM)
        ends = {
            name: [process.wait(patient(PATIENCE_SECONDS)) for process in found]
            for name, found in self.processes.items()
        }
        self.database.purge()
        return ends

    def kill(self) -> None:
        """Whatever a failed test left."""
        for process in self._alive():
            process.kill()
            process.wait()
        self.database.purge()

    def await_health(self, name: str) -> None:
        """Until its own health check says so."""
        self._await(name, lambda: self._check_health(name))

    def _check_health(self, name: str) -> bool:
        """The check, run where the service runs; what it says is kept beside what the service says."""
        (kind, *command) = [self._here(part) for part in self.services[name]["healthcheck"]["test"]]
        assert kind == "CMD"
        with open(self.folder / f"{name}-health.log", "wb") as log:
            done = subprocess.run(command, env=self._environment(name), cwd=self.folder, stdout=log, stderr=log)
        return done.returncode == 0

    def said(self, name: str) -> str:
        """What its processes wrote."""
        return "".join(file.read_text() for file in sorted(self.folder.glob(f"{name}-*.log")))

    def _await_conditions(self, name: str) -> None:
        for other, wanted in self.services[name].get("depends_on", {}).items():
            self._await(other, self._conditions(other)[wanted["condition"]])

    def _conditions(self, name: str) -> dict[str, Callable[[], bool]]:
        return {
            "service_started": lambda: True,
            "service_healthy": lambda: self._check_health(name),
            "service_completed_successfully": lambda: all(p.poll() == 0 for p in self.processes[name]),
        }

    def _await(self, name: str, condition: Callable[[], bool]) -> None:
        def is_ready() -> bool:
            failed = [p.returncode for p in self.processes.get(name, ()) if p.poll()]
            assert not failed, f"{name} ended with {failed}: {self.said(name)}"
            return condition()

        wait(is_ready, seconds=PATIENCE_SECONDS, pause=0.3)

    def _start(self, name: str) -> None:
        service = self.services[name]
        if service["image"].startswith("postgres:"):
            self._start_postgres(service)
        elif "build" in service:
            replicas = int(service.get("deploy", {}).get("replicas", 1))
            self.processes[name] = [self._process(name, number) for number in range(replicas)]
        else:
            assert "elasticsearch" in service["image"]  # runs already

    def _process(self, name: str, number: int) -> subprocess.Popen[bytes]:
        _, (program, *arguments) = image(DOCKERFILE)
        assert program == "vitrina"
        command = [sys.executable, "-m", "vitrina", *arguments, *self.services[name]["command"]]
        with open(self.folder / f"{name}-{number}.log", "wb") as log:
            return subprocess.Popen(
                command, env=self._environment(name), cwd=self.folder, stdout=log, stderr=log, stdin=subprocess.DEVNULL
            )

    def _environment(self, name: str) -> dict[str, str]:
        service = self.services[name]
        built = image(DOCKERFILE)[0] if "build" in service else {}
        own = {key: self._here(str(value)) for key, value in service.get("environment", {}).items()}
        return CLEAN | built | self._from_files(service) | own | self.environment

    def _from_files(self, service: dict[str, Any]) -> dict[str, str]:
        """One after the other, and `environment` above them, as Compose does it."""
        found: dict[str, str] = {}
        for entry in service.get("env_file", []):
            file = self.files / entry["path"]
            if entry["required"] or file.exists():
                found |= {name: self._here(value) for name, value in read_env(file).items()}
        return found

    def _here(self, text: str) -> str:
        for place, here in self.places.items():
            text = text.replace(place, here)
        return text

    def _start_postgres(self, service: dict[str, Any]) -> None:
        """As the image's own entrypoint: a superuser and a database by these names, then the command."""
        settings = [part for part in service["command"] if "=" in part]
        self.database.settings |= dict(setting.split("=", 1) for setting in settings)
        self.database.start()
        names = {key: value for key, value in service["environment"].items() if key.startswith("POSTGRES_")}
        user, name = sql.Identifier(names["POSTGRES_USER"]), sql.Identifier(names["POSTGRES_DB"])
        with psycopg.connect(self.database.conninfo(), autocommit=True) as conn:
            password = sql.Literal(names["POSTGRES_PASSWORD"])
            conn.execute(sql.SQL("CREATE ROLE {} LOGIN SUPERUSER PASSWORD {}").format(user, password))
            conn.execute(sql.SQL("CREATE DATABASE {} OWNER {}").format(name, user))

    def _alive(self) -> list[subprocess.Popen[bytes]]:
        return [process for found in self.processes.values() for process in found if process.poll() is None]


def path_with(*folders: Path) -> str:
    """PATH, with these first."""
    return os.pathsep.join([*map(str, folders), os.environ["PATH"]])

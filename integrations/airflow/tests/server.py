"""A real Airflow: api-server, scheduler, dag-processor and triggerer of an environment of its own, over SQLite."""

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx

from tests.acceptance.processes import free_port

HERE = Path(__file__).parent
BIN = Path(os.environ.get("VITRINA_AIRFLOW_BIN", HERE.parent / ".venv" / "bin"))
START_SECONDS, STEP_SECONDS = 300.0, 180.0
BRISK = {
    "AIRFLOW__SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": "0.2",
    "AIRFLOW__SCHEDULER__SCHEDULER_HEARTBEAT_SEC": "1",
    "AIRFLOW__TRIGGERER__JOB_HEARTBEAT_SEC": "1",
    "AIRFLOW__WORKERS__MIN_HEARTBEAT_INTERVAL": "1",
    "AIRFLOW__CORE__PARALLELISM": "4",
    "AIRFLOW__WORKERS__EXECUTION_API_TIMEOUT": "60",  # a busy machine is no failure
}


@dataclass(frozen=True)
class Task:
    """A task of a run of a DAG."""

    airflow: "Airflow"
    path: str

    @property
    def state(self) -> str | None:
        """As Airflow has it."""
        state: str | None = self.airflow.get(self.path)["state"]
        return state

    def wait_for(self, *states: str) -> None:
        """Until it is in one of these."""
        wait(lambda: self.state, lambda state: state in states, lambda: self.said)

    def set_state(self, state: str) -> None:
        """As somebody does in the browser."""
        self.airflow.ask("PATCH", self.path, json={"new_state": state})

    def xcom(self, key: str) -> Any:
        """What it left."""
        value = self.airflow.get(f"{self.path}/xcomEntries/{key}", deserialize=True)["value"]
        return json.loads(value) if isinstance(value, str) and value[:1] in "{[" else value

    @property
    def link(self) -> str:
        """Where its button leads."""
        return str(self.airflow.get(f"{self.path}/links")["extra_links"]["Vitrina run"])

    @property
    def said(self) -> str:
        """Its last try's log; empty before there is one."""
        tried = self.airflow.get(self.path)["try_number"]
        answer = self.airflow.http.get(f"{self.path}/logs/{max(tried, 1)}", params={"full_content": True})
        return json.dumps(answer.json(), ensure_ascii=False) if answer.is_success else ""


@dataclass(frozen=True)
class Airflow:
    """Its API."""

    http: httpx.Client

    def ask(self, method: str, path: str, **more: Any) -> Any:
        """The JSON of a successful request."""
        response = self.http.request(method, path, **more)
        assert response.is_success, f"{method} {path}: {response.status_code} {response.text}"
        return response.json() if response.content else None

    def get(self, path: str, **params: Any) -> Any:
        """The JSON of a successful GET."""
        return self.ask("GET", path, params=params)

    def run(self, dag: str, task: str, pipeline: str = "films") -> Task:
        """Trigger a DAG for a pipeline; one of its tasks."""
        run_id = uuid4().hex
        body = {"dag_run_id": run_id, "logical_date": None, "conf": {"pipeline": pipeline}}
        self.ask("POST", f"/api/v2/dags/{dag}/dagRuns", json=body)
        return Task(self, f"/api/v2/dags/{dag}/dagRuns/{run_id}/taskInstances/{task}")


@contextmanager
def airflow(home: Path, vitrina_url: str, token: str, dags: dict[str, str]) -> Iterator[Airflow]:
    """With a connection to a Vitrina, and these DAGs by file name."""
    folder = home / "dags"
    folder.mkdir(parents=True)
    for name, code in dags.items():
        (folder / name).write_text(code)
    url = f"http://127.0.0.1:{free_port()}"
    with (home / "log").open("w") as log:
        process = subprocess.Popen(
            [BIN / "airflow", "standalone"],
            env=_environment(home, url, vitrina_url, token),
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        with httpx.Client(base_url=url, timeout=STEP_SECONDS) as http:
            _sign_in(http, process, home / "log")
            found = Airflow(http)
            wait(lambda: _parsed(found), lambda seen: seen["dags"] >= _count(dags), (home / "log").read_text)
            yield found
    finally:
        _end(process)
        shutil.rmtree(home, ignore_errors=True)


def wait(look: Callable[[], Any], is_it: Callable[[Any], bool], why: Callable[[], str]) -> Any:
    """Look until it is so; slowly, since it shares its machine with five processes of Airflow."""
    deadline = time.monotonic() + STEP_SECONDS
    while not is_it(seen := look()):
        assert time.monotonic() < deadline, f"still {seen}: {why()[-4000:]}"
        time.sleep(0.5)
    return seen


def _environment(home: Path, url: str, vitrina_url: str, token: str) -> dict[str, str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("VITRINA_", "AIRFLOW"))}
    return clean | BRISK | {
        "PATH": f"{BIN}:{os.environ['PATH']}",
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "True",
        "AIRFLOW__CORE__TEST_CONNECTION": "Enabled",
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{url}/execution/",
        "AIRFLOW__API__BASE_URL": url,
        "AIRFLOW__API__PORT": url.rpartition(":")[2],
        "AIRFLOW__API__WORKERS": "1",
        "AIRFLOW_CONN_VITRINA_DEFAULT": json.dumps({"conn_type": "vitrina", "host": vitrina_url, "password": token}),
        "NO_PROXY": "127.0.0.1,localhost",
    }  # fmt: skip


def _sign_in(http: httpx.Client, process: "subprocess.Popen[bytes]", log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while True:
        assert process.poll() is None, f"Airflow ended: {log.read_text()[-4000:]}"
        assert time.monotonic() < deadline, f"Airflow does not answer: {log.read_text()[-4000:]}"
        try:
            answer = http.get("/auth/token")
        except httpx.TransportError:
            time.sleep(0.5)
            continue
        assert answer.is_success, answer.text
        http.headers["Authorization"] = f"Bearer {answer.json()['access_token']}"
        return


def _parsed(found: Airflow) -> dict[str, Any]:
    errors = found.get("/api/v2/importErrors")["import_errors"]
    assert not errors, errors
    return {"dags": found.get("/api/v2/dags")["total_entries"]}


def _count(dags: dict[str, str]) -> int:
    return sum(code.count("with DAG(") for code in dags.values())


def _end(process: "subprocess.Popen[bytes]") -> None:
    """All of its session: standalone leaves its own children alone when it is terminated."""
    for sign in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, sign)
            process.wait(20)
        except (ProcessLookupError, subprocess.TimeoutExpired):
            continue

"""The real app over real HTTP on a lab's database, with a token for each role; and a real runner when asked for."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
import uvicorn
from fastapi import FastAPI
from psycopg.conninfo import make_conninfo

from tests.patience import patient, wait
from tests.support import Lab
from vitrina.control.api.app import create_app
from vitrina.control.plane import ControlPlane
from vitrina.meta.repos.tokens import TokenRepo
from vitrina.runner.main import Runner
from vitrina.transforms.chain import load_transforms

ROLES = ("viewer", "operator", "admin")
FILMS = "SELECT f.id AS film_id, f.title, f.rating FROM content.film_work f"
CHANGED_FILMS = "SELECT f.id AS film_id, f.title, f.modified FROM content.film_work f"
PLAN: dict[str, Any] = {
    "name": "catalog",
    "key": ["film_id"],
    "tasks": [
        {"order_index": 1, "task_type": "SQL", "body": "SELECT id AS film_id, title FROM content.film_work"},
        {
            "order_index": 2,
            "task_type": "PYTHON",
            "body": "normalise_title",
            "target_table": "analytics.catalog",
        },
    ],
}


def config(name: str = "films", **more: Any) -> dict[str, Any]:
    """A valid pipeline."""
    return {"name": name, "source_query": FILMS, "target_table": f"analytics.{name}", "key": ["film_id"]} | more


@dataclass
class Api:
    """A server in a thread, and clients of each role."""

    lab: Lab
    app: FastAPI
    url: str
    tokens: dict[str, str]
    clients: dict[str, httpx.Client] = field(init=False)

    def __post_init__(self) -> None:
        headers = {role: {"Authorization": f"Bearer {token}"} for role, token in self.tokens.items()}
        self.clients = {role: self._client(headers[role]) for role in ROLES} | {"nobody": self._client({})}

    def _client(self, headers: dict[str, str]) -> httpx.Client:
        return httpx.Client(base_url=self.url, headers=headers, timeout=patient(20), verify=False)

    def ask(self, method: str, path: str, role: str = "admin", **more: Any) -> httpx.Response:
        """One request below /api/v1."""
        return self.clients[role].request(method, f"/api/v1{path}", **more)

    def get(self, path: str, **more: Any) -> Any:
        """The JSON of a successful GET."""
        response = self.ask("GET", path, **more)
        assert response.status_code == 200, response.text
        return response.json()

    def post(self, path: str, body: Any = None, **more: Any) -> httpx.Response:
        """A POST."""
        return self.ask("POST", path, json=body, **more)

    def patch(self, which: str, body: Any, **more: Any) -> httpx.Response:
        """A PATCH of a pipeline."""
        return self.ask("PATCH", f"/pipelines/{which}", json=body, **more)

    def create(self, name: str = "films", **more: Any) -> dict[str, Any]:
        """A stored pipeline."""
        response = self.post("/pipelines", config(name, **more))
        assert response.status_code == 201, response.text
        return dict(response.json())

    def set_status(self, status: str, name: str = "films") -> None:
        """Let it stand where a test wants it, by legal moves."""
        path = {
            "IDLE": [],
            "RUN_REQUESTED": ["RUN_REQUESTED"],
            "RUNNING": ["RUNNING"],
            "PAUSE_REQUESTED": ["RUNNING", "PAUSE_REQUESTED"],
            "PAUSED": ["PAUSED"],
            "FAILED": ["RUNNING", "FAILED"],
        }[status]
        for step in path:
            self.lab.sql("UPDATE etl.etl_pipelines SET status = %s WHERE name = %s", step, name)

    def wait_for(self, name: str, *statuses: str, seconds: float = 15) -> dict[str, Any]:
        """The pipeline's status, once it is one of these."""
        return dict(wait(lambda: self.get(f"/pipelines/{name}/status"), lambda s: s["status"] in statuses, seconds))

    def audit(self) -> list[tuple[Any, ...]]:
        """Actor, action and details, in order."""
        return self.lab.sql("SELECT actor, action, details FROM etl.etl_audit ORDER BY id")


@contextmanager
def serve(lab: Lab, url: str | None = None) -> Iterator[Api]:
    """The app as the API's role, or by another way to the meta-store."""
    load_transforms([])
    plane = ControlPlane(url or make_conninfo(lab.conninfo, user="vitrina_api"), lab.connections, patience=2)
    tokens = {role: TokenRepo(lab.db).create(role, role) for role in ROLES}
    app = create_app(plane)
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="warning"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    wait(lambda: server.started)
    port = server.servers[0].sockets[0].getsockname()[1]
    api = Api(lab, app, f"http://127.0.0.1:{port}", tokens)
    try:
        yield api
    finally:
        for client in api.clients.values():
            client.close()
        server.should_exit = True
        thread.join(patient(10))


@contextmanager
def running(lab: Lab) -> Iterator[Runner]:
    """A real runner in a thread."""
    runner = Runner(lab.connections)
    thread = threading.Thread(target=runner.main_loop, daemon=True)
    thread.start()
    try:
        yield runner
    finally:
        runner.stopping.set()
        thread.join(patient(20))

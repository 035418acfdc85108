"""Who may do what: every route, with every role and without a token. A route that is not in the table fails."""

import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from fastapi.routing import iter_route_contexts

from tests.contract.server import Api, config
from tests.support import Lab
from vitrina.meta.repos.tokens import TokenRepo

ANYBODY, VIEWER, OPERATOR, ADMIN = "anybody", "viewer", "operator", "admin"
ROUTES = {
    ("GET", "/"): ANYBODY,  # to the console, which asks who it is
    ("GET", "/livez"): ANYBODY,
    ("GET", "/readyz"): ANYBODY,
    ("GET", "/health"): ANYBODY,
    ("GET", "/metrics"): VIEWER,
    ("GET", "/docs"): ANYBODY,
    ("GET", "/openapi.json"): ANYBODY,
    ("GET", "/static"): ANYBODY,
    ("GET", "/console"): ANYBODY,  # its own table is in test_console.py
    ("GET", "/api/v1/pipelines"): VIEWER,
    ("POST", "/api/v1/pipelines"): ADMIN,
    ("GET", "/api/v1/pipelines/{id}"): VIEWER,
    ("PATCH", "/api/v1/pipelines/{id}"): ADMIN,
    ("DELETE", "/api/v1/pipelines/{id}"): ADMIN,
    ("POST", "/api/v1/pipelines/{id}/run"): OPERATOR,
    ("POST", "/api/v1/pipelines/{id}/pause"): OPERATOR,
    ("POST", "/api/v1/pipelines/{id}/enable"): OPERATOR,
    ("POST", "/api/v1/pipelines/{id}/disable"): OPERATOR,
    ("POST", "/api/v1/pipelines/{id}/reload-config"): OPERATOR,
    ("POST", "/api/v1/pipelines/{id}/validate"): OPERATOR,
    ("POST", "/api/v1/pipelines/{id}/preview"): OPERATOR,
    ("POST", "/api/v1/pipelines/{id}/reconcile"): OPERATOR,
    ("POST", "/api/v1/pipelines/{id}/repair"): OPERATOR,
    ("GET", "/api/v1/pipelines/{id}/status"): VIEWER,
    ("GET", "/api/v1/pipelines/{id}/state"): VIEWER,
    ("GET", "/api/v1/pipelines/{id}/latency"): VIEWER,
    ("GET", "/api/v1/pipelines/{id}/runs"): VIEWER,
    ("GET", "/api/v1/pipelines/{id}/versions"): VIEWER,
    ("GET", "/api/v1/pipelines/{id}/reconcile"): VIEWER,
    ("POST", "/api/v1/validate"): OPERATOR,
    ("GET", "/api/v1/runs/{run_id}"): VIEWER,
    ("GET", "/api/v1/runs/{run_id}/events"): VIEWER,
    ("GET", "/api/v1/requests/{request_id}"): VIEWER,
    ("GET", "/api/v1/lineage"): VIEWER,
    ("GET", "/api/v1/runners"): VIEWER,
    ("GET", "/api/v1/captures"): VIEWER,
    ("GET", "/api/v1/sources"): VIEWER,
    ("GET", "/api/v1/sources/{name}"): OPERATOR,
    ("POST", "/api/v1/sources/{name}/test"): OPERATOR,
    ("GET", "/api/v1/alerts/destinations"): VIEWER,
    ("POST", "/api/v1/alerts/destinations/{name}/test"): OPERATOR,
    ("GET", "/api/v1/alerts/destinations/{name}/deliveries"): VIEWER,
    ("GET", "/api/v1/alerts/deliveries"): VIEWER,
}
FILES = {"/": "/console/sign-in", "/static": "/static/swagger/swagger-ui.css", "/console": "/console/sign-in"}
CALLERS = ("nobody", VIEWER, OPERATOR, ADMIN)
FORBIDDEN = {"nobody": 401, VIEWER: 403, OPERATOR: 403}
PARAMETERS = {
    "{id}": "nothing",
    "{run_id}": "1",
    "{name}": "nowhere",
    "{request_id}": "9a9a9a9a-0000-4000-8000-000000000000",
}


def may(caller: str, needed: str) -> bool:
    """Whether the table lets a caller in."""
    return needed == ANYBODY or (caller != "nobody" and CALLERS.index(caller) >= CALLERS.index(needed))


@pytest.mark.scenario(51)
@pytest.mark.parametrize("caller", CALLERS)
@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_every_route_is_open_to_those_in_the_table_and_closed_to_others(
    shared: Api, method: str, path: str, caller: str
) -> None:
    needed, url = ROUTES[method, path], FILES.get(path, path)
    for name, value in PARAMETERS.items():
        url = url.replace(name, value)
    status = shared.clients[caller].request(method, url).status_code
    if may(caller, needed):
        assert status not in (401, 403, 405), status
        assert status < 500
    else:
        assert status == FORBIDDEN[caller]


@pytest.mark.scenario(51)
def test_the_table_has_every_route(shared: Api) -> None:
    assert set(_routes(shared)) == ROUTES.keys()


def _routes(api: Api) -> Iterator[tuple[str, str]]:
    for route in iter_route_contexts(api.app.routes):
        for method in (getattr(route, "methods", None) or {"GET"}) - {"HEAD"}:
            yield method, str(route.path)


def test_a_route_that_declares_no_role_is_closed_to_all(api: Api) -> None:
    route = next(r for r in iter_route_contexts(api.app.routes) if r.path == "/api/v1/runners")
    endpoint: Any = route.endpoint
    role = endpoint.needed_role
    try:
        del endpoint.needed_role
        assert api.ask("GET", "/runners").status_code == 403
    finally:
        endpoint.needed_role = role


@pytest.mark.parametrize(
    "header",
    [
        "",
        "Bearer",
        "Basic YTpi",
        "bearer x",
        "Bearer x y",
        "Token {}",
        "{}",
        "Bearer \xff\xfe",
        "Bearer {}x",
    ],
)
def test_malformed_headers_open_nothing(shared: Api, header: str) -> None:
    value = header.replace("{}", shared.tokens["admin"]).encode("latin-1")
    response = shared.clients["nobody"].get("/api/v1/pipelines", headers={b"Authorization": value})
    assert (response.status_code, response.headers["WWW-Authenticate"]) == (401, "Bearer")


def test_a_revoked_token_opens_nothing(api: Api) -> None:
    repo = TokenRepo(api.lab.db)
    token = repo.create("guest", "admin")
    guest = {"Authorization": f"Bearer {token}"}
    assert api.ask("GET", "/pipelines", headers=guest).status_code == 200
    repo.revoke("guest")
    assert api.ask("GET", "/pipelines", headers=guest).status_code == 401


def test_a_refused_call_changes_nothing(api: Api) -> None:
    api.create()
    assert api.ask("DELETE", "/pipelines/films", role="operator").status_code == 403
    assert api.post("/pipelines", config("b"), role="viewer").status_code == 403
    assert [item["name"] for item in api.get("/pipelines")["items"]] == ["films"]


def test_serving_strangers_without_a_token_is_refused(lab: Lab) -> None:
    environment = os.environ | {"VITRINA_DATABASE_URL": lab.conninfo}
    command = [sys.executable, "-m", "vitrina", "serve", "--host", "0.0.0.0", "--port", "0"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode != 0
    assert "there is no token" in done.stderr + done.stdout

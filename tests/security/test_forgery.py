"""No GET changes anything; and with a cookie, nothing but a page of the console itself does."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.contract import test_access, test_console
from tests.contract.server import Api
from tests.security.state import hashes

EXCEPT = {"etl.etl_runners"}  # who serves this tells that it is alive
POSTS = [path for method, path in test_console.ROUTES if method == "POST"]
FORM = {"Content-Type": "application/x-www-form-urlencoded"}


@pytest.fixture
def settled(api: Api) -> Api:
    """A pipeline with a run that says something, a request, a session, and somewhere that alerts go to."""
    api.create()
    api.lab.sql(test_console.RUN)
    api.lab.sql("INSERT INTO etl.etl_run_events (run_id, level, event) SELECT id, 'info', 'batch' FROM etl.etl_runs")
    api.lab.sql("INSERT INTO etl.etl_requests (kind, pipeline_id) SELECT 'reconcile', id FROM etl.etl_pipelines")
    api.lab.sql(
        "INSERT INTO etl.etl_destinations VALUES ('warehouse', 'signed', 'https://example.org', '{}', '{}')"
        " ON CONFLICT DO NOTHING"
    )
    return api


@pytest.fixture
def browser(settled: Api) -> Iterator[httpx.Client]:
    """An admin's, signed in."""
    with test_console.sign_in(settled, "admin") as client:
        yield client


def state(api: Api) -> dict[str, str]:
    """The whole meta-store."""
    return {name: value for name, value in hashes(api.lab, "etl").items() if name not in EXCEPT}


def ids(api: Api) -> dict[str, str]:
    """What stands for the parameters of a path."""
    run = api.lab.value("SELECT max(id) FROM etl.etl_runs")
    request = api.lab.value("SELECT max(id::text) FROM etl.etl_requests")
    numbers = {"{run_id}": str(run), "{request_id}": request}
    return numbers | {"{id}": "films", "{which}": "films", "{name}": "warehouse", "{tab}": "overview"}


@pytest.mark.scenario(53)
def test_no_get_changes_anything(settled: Api, browser: httpx.Client) -> None:
    admin, before, known = settled.clients["admin"], state(settled), ids(settled)
    api = [(admin, path) for method, path in test_access.ROUTES if method == "GET" and path not in test_access.FILES]
    console = [(browser, path) for path in [*test_console.GETS, "/sign-in"]]
    for client, path in api + console:
        url = fill(path, known)
        for method in ("GET", "HEAD"):
            response = client.request(method, url, params={"once": "true", "follow": "false", "of": "pipeline:films"})
            assert response.status_code in ((200,) if method == "GET" else (200, 405)), (method, url)
        assert state(settled) == before, url
    assert len(api + console) > 35


@pytest.mark.scenario(53)
@pytest.mark.parametrize("path", POSTS)
def test_a_post_from_another_site_with_the_visitors_cookie_is_refused(
    settled: Api, browser: httpx.Client, path: str
) -> None:
    before, url = state(settled), path.replace("{which}", "films").replace("{action}", "pause")
    foreign: list[dict[str, str]] = [
        {"Origin": "http://evil.example"},
        {"Origin": settled.url.replace("127.0.0.1", "localhost")},
        {"Origin": f"{settled.url}.evil.example"},
        {"Origin": "null"},
        {"Origin": ""},
        {"Origin": "http://127.0.0.1"},
        {"Origin": "http://127.0.0.1:1"},
        {"Origin": "http://evil.example", "Referer": f"{settled.url}/console/", "X-Forwarded-Host": "evil.example"},
        {"Origin": "http://evil.example", "Content-Type": "text/plain"},
    ]
    for headers in foreign:
        request = browser.build_request("POST", url, content=b"id=films&name=x", headers=FORM | headers)
        assert browser.send(request).status_code == 403, headers
    del request.headers["Origin"]
    assert browser.send(request).status_code == 403
    assert state(settled) == before


@pytest.mark.scenario(53)
def test_a_cookie_opens_no_route_of_the_api(settled: Api, browser: httpx.Client) -> None:
    before, known = state(settled), ids(settled)
    with httpx.Client(base_url=settled.url, cookies=dict(browser.cookies), verify=False, timeout=60) as thief:
        for method, path in test_access.ROUTES:
            if path.startswith("/api/"):
                assert thief.request(method, fill(path, known)).status_code == 401, path
    assert state(settled) == before


def fill(path: str, known: dict[str, str]) -> str:
    for name, value in known.items():
        path = path.replace(name, value)
    return path


def test_another_site_is_not_let_read_an_answer(settled: Api) -> None:
    headers: dict[str, Any] = {"Origin": "http://evil.example", "Access-Control-Request-Method": "POST"}
    for path in ("/api/v1/pipelines", "/console/"):
        response = settled.clients["admin"].options(path, headers=headers)
        assert not [name for name in response.headers if name.startswith("access-control-")]

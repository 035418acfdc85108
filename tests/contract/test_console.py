"""The console over plain HTTP: who may see and do what, how one signs in and out."""

import json
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from html import unescape
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from fastapi.routing import iter_route_contexts

from tests.contract.server import ROLES, Api, config, serve
from tests.patience import patient
from tests.support import Lab
from vitrina.meta.repos.sessions import SessionRepo
from vitrina.meta.repos.tokens import TokenRepo

ANYBODY, VIEWER, OPERATOR, ADMIN = "anybody", "viewer", "operator", "admin"
ROUTES = {
    ("GET", "/sign-in"): ANYBODY,
    ("POST", "/sign-in"): ANYBODY,
    ("POST", "/sign-out"): ANYBODY,
    ("GET", "/sign-in/openid"): ANYBODY,  # not set up here; test_openid.py
    ("GET", "/sign-in/openid/back"): ANYBODY,
    ("POST", "/sign-in/openid/back"): ANYBODY,
    ("GET", "/static"): ANYBODY,
    ("GET", "/"): VIEWER,
    ("GET", "/pipelines/{which}"): VIEWER,
    ("GET", "/pipelines/{which}/config"): VIEWER,
    ("GET", "/pipelines/{which}/data"): VIEWER,
    ("GET", "/pipelines/{which}/reconcile"): VIEWER,
    ("GET", "/pipelines/{which}/lineage"): VIEWER,
    ("GET", "/pipelines/{which}/horizon"): VIEWER,
    ("GET", "/pipelines/{which}/changes"): VIEWER,
    ("GET", "/runs/{run_id}"): VIEWER,
    ("GET", "/runs/{run_id}/log"): VIEWER,
    ("GET", "/runs/{run_id}/log.txt"): VIEWER,
    ("GET", "/system"): VIEWER,
    ("GET", "/system/health"): VIEWER,
    ("GET", "/lineage"): VIEWER,
    ("GET", "/lineage/columns"): VIEWER,
    ("GET", "/sources"): VIEWER,
    ("GET", "/sources/{name}"): OPERATOR,
    ("GET", "/sources/{name}/look"): OPERATOR,
    ("POST", "/sources/{name}/capture"): ADMIN,
    ("GET", "/alerts"): VIEWER,
    ("POST", "/alerts/{name}/test"): OPERATOR,
    ("GET", "/live/home"): VIEWER,
    ("GET", "/live/pipelines/{which}/{tab}"): VIEWER,
    ("GET", "/live/runs/{run_id}"): VIEWER,
    ("GET", "/live/system"): VIEWER,
    ("POST", "/pipelines/{which}/run"): OPERATOR,
    ("POST", "/pipelines/{which}/pause"): OPERATOR,
    ("POST", "/pipelines/{which}/enable"): OPERATOR,
    ("POST", "/pipelines/{which}/disable"): OPERATOR,
    ("POST", "/pipelines/{which}/reload-config"): OPERATOR,
    ("POST", "/pipelines/{which}/reconcile"): OPERATOR,
    ("POST", "/pipelines/{which}/repair"): OPERATOR,
    ("POST", "/pipelines/{which}/sample"): OPERATOR,
    ("POST", "/selected/{action}"): OPERATOR,
    ("POST", "/pipelines/{which}/delete"): ADMIN,
    ("GET", "/new"): ADMIN,
    ("POST", "/new"): ADMIN,
    ("GET", "/pipelines/{which}/edit"): ADMIN,
    ("POST", "/pipelines/{which}/edit"): ADMIN,
    ("POST", "/editor/check"): ADMIN,
    ("POST", "/editor/preview"): ADMIN,
    ("POST", "/editor/view"): ADMIN,
    ("GET", "/editor/tables"): ADMIN,
}
CALLERS = ("nobody", *ROLES)
PARAMETERS = {"{name}": "warehouse", "{which}": "films", "{run_id}": "1", "{tab}": "overview", "{action}": "run"}
GETS = [path for (method, path), needed in ROUTES.items() if method == "GET" and needed != ANYBODY]
RUN = "INSERT INTO etl.etl_runs (pipeline_id, config_version, runner) SELECT id, 1, 'x' FROM etl.etl_pipelines"


@contextmanager
def sign_in(api: Api, role: str) -> Iterator[httpx.Client]:
    """A browser of somebody who has signed in."""
    with httpx.Client(
        base_url=f"{api.url}/console", headers={"Origin": api.url}, verify=False, timeout=patient(20)
    ) as client:
        if role != "nobody":
            assert client.post("/sign-in", data={"token": api.tokens[role]}).status_code == 303
        yield client


@pytest.fixture(scope="module")
def browsers(shared: Api) -> Iterator[dict[str, httpx.Client]]:
    with ExitStack() as stack:
        yield {role: stack.enter_context(sign_in(shared, role)) for role in CALLERS}


@pytest.fixture
def console(api: Api, browsers: dict[str, httpx.Client]) -> httpx.Client:
    """An admin's browser, with one pipeline that has one run."""
    api.create()
    api.lab.sql(RUN)
    return browsers["admin"]


def _url(path: str) -> str:
    for name, value in PARAMETERS.items():
        path = path.replace(name, value)
    return "/static/console.css" if path == "/static" else path + ("?once=true" if path.startswith("/live") else "")


# ── who may do what ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.scenario(51)
@pytest.mark.parametrize("caller", CALLERS)
@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_every_page_is_open_to_those_in_the_table_and_closed_to_others(
    shared: Api, browsers: dict[str, httpx.Client], method: str, path: str, caller: str
) -> None:
    if path == "/sign-out":
        return  # it would end the session that the others use; tested below
    status = browsers[caller].request(method, _url(path), headers={"Origin": shared.url}).status_code
    needed = ROUTES[method, path]
    if needed == ANYBODY:
        assert status in (200, 401, 404)  # 401: no good token in the form; 404: not set up
    elif caller == "nobody":
        assert status == (303 if method == "GET" else 401)
    elif CALLERS.index(caller) < CALLERS.index(needed):
        assert status == 403
    else:
        assert status not in (401, 403, 405)
        assert status < 500


@pytest.mark.scenario(51)
def test_the_table_has_every_page(shared: Api) -> None:
    assert set(_routes(shared.app)) == ROUTES.keys()


def _routes(app: FastAPI) -> Iterator[tuple[str, str]]:
    mounted: Any = next(route for route in app.routes if getattr(route, "path", "") == "/console")
    for route in iter_route_contexts(mounted.app.routes):
        for method in (getattr(route, "methods", None) or {"GET"}) - {"HEAD"}:
            yield method, str(route.path)


def test_a_page_that_declares_no_role_is_closed_to_all(console: httpx.Client, api: Api) -> None:
    mounted: Any = next(route for route in api.app.routes if getattr(route, "path", "") == "/console")
    endpoint: Any = next(r for r in iter_route_contexts(mounted.app.routes) if r.path == "/system").endpoint
    role = endpoint.needed_role
    try:
        del endpoint.needed_role
        assert console.get("/system").status_code == 403
    finally:
        endpoint.needed_role = role


@pytest.mark.parametrize("path", GETS)
def test_viewers_see_nothing_that_they_may_not_press(
    console: httpx.Client, browsers: dict[str, httpx.Client], path: str
) -> None:
    if ROUTES["GET", path] != VIEWER:
        return
    shown = browsers["viewer"].get(_url(path)).text
    assert "hx-post" not in shown
    assert set(re.findall(r'action="/console(/[^"]*)"', shown)) <= {"/sign-out", "/", "/lineage"}
    assert "/edit" not in shown
    assert "/console/new" not in shown


# ── changes ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_button_does_what_the_api_does_and_says_so(console: httpx.Client, api: Api) -> None:
    response = console.post("/pipelines/films/pause", headers={"HX-Request": "true"})
    assert response.status_code == 204
    assert json.loads(response.headers["HX-Trigger"])["toast"]["text"] == "films: pause requested"
    assert api.get("/pipelines/films/status")["status"] == "PAUSED"
    assert api.audit()[-1][:2] == ("admin", "pause")


def test_what_a_service_refuses_is_said_with_its_remedy(console: httpx.Client, api: Api) -> None:
    console.post("/pipelines/films/disable")
    response = console.post("/pipelines/films/run", headers={"HX-Request": "true"})
    said = json.loads(response.headers["HX-Trigger"])["toast"]
    assert response.status_code == 409
    assert (said["text"], said["remedy"]) == ("pipeline 'films' is disabled", "enable it first")


def test_several_at_once_each_on_its_own(console: httpx.Client, api: Api) -> None:
    api.create("other", enabled=False)
    ids = [item["id"] for item in api.get("/pipelines")["items"]]
    response = console.post("/selected/run", data={"id": ids}, headers={"HX-Request": "true"})
    said = json.loads(response.headers["HX-Trigger"])["toast"]
    assert said["text"] == "Done: 1 of 2"
    assert "'other' is disabled" in said["remedy"]
    assert api.get("/pipelines/films/status")["status"] == "RUN_REQUESTED"


def test_an_unknown_action_on_several_is_not_found(console: httpx.Client) -> None:
    assert console.post("/selected/explode", data={"id": "films"}).status_code == 404


# ── signing in and out ───────────────────────────────────────────────────────────────────────────────────────────


def test_the_cookie_is_out_of_reach_of_scripts_and_other_sites(shared: Api) -> None:
    form = {"token": shared.tokens["viewer"]}
    response = httpx.post(f"{shared.url}/console/sign-in", data=form, headers={"Origin": shared.url}, timeout=60)
    cookie = response.headers["set-cookie"]
    assert {"HttpOnly", "SameSite=lax", "Path=/console"} <= set(cookie.split("; "))
    assert shared.tokens["viewer"] not in cookie


def test_a_wrong_token_opens_nothing(shared: Api) -> None:
    with sign_in(shared, "nobody") as client:
        response = client.post("/sign-in", data={"token": "vtr_wrong"})
        assert response.status_code == 401
        assert "unknown or revoked" in response.text
        assert client.get("/").status_code == 303


def test_a_link_signs_in_once(shared: Api) -> None:
    link = SessionRepo(shared.lab.db).link(shared.tokens["operator"])
    with sign_in(shared, "nobody") as first, sign_in(shared, "nobody") as second:
        assert first.post("/sign-in", data={"link": link}).status_code == 303
        assert "operator" in first.get("/").text
        assert second.post("/sign-in", data={"link": link}).status_code == 401
        assert second.get("/").status_code == 303


def test_a_link_that_is_too_old_opens_nothing(shared: Api) -> None:
    link = SessionRepo(shared.lab.db).link(shared.tokens["operator"])
    shared.lab.sql("UPDATE etl.etl_sessions SET expires_at = now() - interval '1 s' WHERE kind = 'link'")
    with sign_in(shared, "nobody") as client:
        assert client.post("/sign-in", data={"link": link}).status_code == 401


def test_a_link_is_no_session_and_a_session_no_link(shared: Api) -> None:
    link = SessionRepo(shared.lab.db).link(shared.tokens["operator"])
    with sign_in(shared, "nobody") as thief:
        thief.cookies.set("vitrina_session", link, path="/console")
        assert thief.get("/").status_code == 303
    with sign_in(shared, "viewer") as client, sign_in(shared, "nobody") as other:
        session = client.cookies["vitrina_session"]
        assert other.post("/sign-in", data={"link": session}).status_code == 401


def test_signing_out_ends_the_session_at_the_server(shared: Api) -> None:
    with sign_in(shared, "viewer") as client:
        session = client.cookies["vitrina_session"]
        assert client.post("/sign-out").status_code == 303
        client.cookies.set("vitrina_session", session, path="/console")
        assert client.get("/").status_code == 303


def test_a_revoked_token_ends_its_sessions(shared: Api) -> None:
    tokens = TokenRepo(shared.lab.db)
    shared.tokens["guest"] = tokens.create("guest", "admin")
    with sign_in(shared, "guest") as client:
        assert client.get("/").status_code == 200
        tokens.revoke("guest")
        assert client.get("/").status_code == 303
        asked = client.get("/", headers={"HX-Request": "true"})
        assert (asked.status_code, asked.headers["HX-Redirect"]) == (401, "/console/sign-in?next=%2Fconsole%2F")


@pytest.mark.parametrize(
    "wanted", ["//evil.example", "https://evil.example", "/\\evil.example", "/console/\\evil", "/docs", "", "/consolex"]
)
def test_signing_in_leads_nowhere_but_into_the_console(shared: Api, wanted: str) -> None:
    with sign_in(shared, "nobody") as client:
        response = client.post("/sign-in", data={"token": shared.tokens["viewer"], "next": wanted})
        assert response.headers["location"] == "/console/"


def test_signing_in_leads_back_to_where_one_was(shared: Api) -> None:
    with sign_in(shared, "nobody") as client:
        door = client.get("/lineage?q=film").headers["location"]
        assert door == "/console/sign-in?next=%2Fconsole%2Flineage%3Fq%3Dfilm"
        form = {"token": shared.tokens["viewer"], "next": "/console/lineage?q=film"}
        assert client.post("/sign-in", data=form).headers["location"] == "/console/lineage?q=film"


# ── what comes back ──────────────────────────────────────────────────────────────────────────────────────────────


def test_nothing_from_elsewhere_is_loaded_and_no_page_is_kept(console: httpx.Client) -> None:
    response = console.get("/")
    policy = response.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert response.headers["cache-control"] == "no-store"
    assert not re.search(r'(?:src|href)="(?:https?:)?//', response.text)
    assert "immutable" in console.get("/static/console.css?v=1").headers["cache-control"]


def test_a_pipeline_that_is_not_there_is_a_page_that_says_so(console: httpx.Client) -> None:
    response = console.get("/pipelines/nothing")
    assert response.status_code == 404
    assert "there is no pipeline" in response.text


@pytest.mark.parametrize("name", ["a/b", "<b>bold</b>", "имя", "x'y\"z", "new", "..", "100%"])
def test_any_name_is_shown_as_it_is_and_found_again(console: httpx.Client, api: Api, name: str) -> None:
    api.lab.add(**(config() | {"name": name, "target_table": "analytics.odd"}))
    shown = console.get("/?q=analytics.odd").text
    assert "<b>bold" not in shown
    page = re.search(r'class="name" href="/console(/[^"]+)"', shown)
    assert page is not None
    assert console.get(page[1]).status_code == 200


def test_filters_and_order_are_in_the_address(console: httpx.Client, api: Api) -> None:
    for name in ("alpha", "beta"):
        api.create(name)

    def names(query: str) -> list[str]:
        return re.findall(r"data-row>([^<]+)</a>", console.get(f"/?{query}").text)

    assert names("") == ["alpha", "beta", "films"]
    assert names("desc=1") == ["films", "beta", "alpha"]
    assert names("q=ALP") == ["alpha"]
    assert names("sort=last") == ["films", "alpha", "beta"]
    assert names("status=IDLE&sort=nonsense") == ["alpha", "beta", "films"]
    assert names("status=PAUSED") == []
    for sort in ("status", "target", "mode", "rows", "rate", "fresh", "next"):
        assert len(names(f"sort={sort}")) == 3


def test_what_a_tab_has_is_not_sent_again(console: httpx.Client, api: Api) -> None:
    first = console.get("/live/pipelines/films/overview?once=true").json()["swap"]
    assert first.keys() == {"head", "health", "progress", "checkpoint", "checks", "runs"}
    have = ",".join(f"{name}:{html.partition('data-live=')[2][1:13]}" for name, html in first.items())
    assert console.get(f"/live/pipelines/films/overview?once=true&have={have}").json()["swap"] == {}
    api.lab.sql("UPDATE etl.etl_pipelines SET enabled = false")
    changed = console.get(f"/live/pipelines/films/overview?once=true&have={have}").json()["swap"]
    assert changed.keys() == {"head", "health"}


def test_the_attempts_of_a_run_are_under_it(console: httpx.Client, api: Api) -> None:
    [(run,)] = api.lab.sql("UPDATE etl.etl_runs SET attempt = 2 RETURNING id")
    api.lab.sql("DELETE FROM etl.etl_run_attempts")
    tried = "INSERT INTO etl.etl_run_attempts (run_id, attempt, runner, status, error, started_at, finished_at)"
    ended = " SELECT %s, %s, %s, s, %s, now(), CASE s WHEN 'FAILED' THEN now() END FROM (SELECT %s) AS x (s)"
    api.lab.sql(tried + ended, run, 1, "first-runner", "the source went away", "FAILED")
    api.lab.sql(tried + ended, run, 2, "second-runner", None, "RUNNING")
    shown = console.get("/live/pipelines/films/overview?once=true").json()["swap"]["runs"]
    rows = re.findall(r'<tr class="attempt">.*?</tr>', shown, re.DOTALL)
    assert ["first-runner" in rows[0], "the source went away" in rows[0], "second-runner" in rows[1]] == [True] * 3


def test_health_comes_first_and_says_what_is_known(console: httpx.Client, api: Api) -> None:
    page = console.get("/pipelines/films").text
    assert page.index('id="health"') < page.index('id="progress"')
    assert "The first run will fill it." in page
    assert "It runs when somebody asks for it." in page
    api.patch("films", {"schedule_interval": "1h", "freshness_limit": "5m"})
    api.lab.sql("UPDATE etl.etl_pipelines SET due_at = now() + interval '1 hour'")
    page = console.get("/pipelines/films").text
    assert "by its schedule 1h" in page
    assert "may be 5m old" in page


@pytest.mark.parametrize("have", ["row-x:1", "row-" + "z" * 36 + ":1", ":::,,,", "log:99999999999999999999999", "%00"])
def test_nonsense_about_what_a_tab_has_is_no_error(console: httpx.Client, have: str) -> None:
    for path in ("/live/home", "/live/runs/1", "/live/system"):
        assert console.get(f"{path}?once=true&have={have}").status_code == 200


def test_a_log_is_downloaded_whole(console: httpx.Client, api: Api) -> None:
    [(run_id,)] = api.lab.sql("SELECT max(id) FROM etl.etl_runs")
    api.lab.sql(
        "INSERT INTO etl.etl_run_events (run_id, level, event, fields)"
        " SELECT %s, 'info', 'batch', jsonb_build_object('n', n) FROM generate_series(1, 700) n",
        run_id,
    )
    response = console.get(f"/runs/{run_id}/log.txt")
    lines = response.text.splitlines()
    assert len(lines) == 700
    assert lines[0].endswith("info    batch n=1")
    assert "attachment" in response.headers["content-disposition"]
    assert len(re.findall("data-line", console.get(f"/runs/{run_id}/log?q=N%22: 70").text)) == 2  # 70 and 700


@pytest.mark.scenario(52)
def test_no_secret_of_a_source_is_shown() -> None:
    with Lab.open("vitrina_template") as lab:
        far = {"far": "postgresql://someone:planted@127.0.0.1:1/nowhere"}
        lab.connections = type(lab.connections)(**(vars(lab.connections) | {"sources": far}))
        with serve(lab) as api, sign_in(api, "viewer") as client:
            shown = client.get("/system/health").text
            assert "far" in shown
            assert "planted" not in shown


def test_a_servers_detail_is_what_is_wrong_and_its_hint_is_the_remedy(console: httpx.Client, api: Api) -> None:
    select = "SELECT f.id AS film_id, f.{} AS title FROM content.film_work f"
    detailed = api.lab.add(source_query=select.format("title::json"), key=["film_id"])
    run = api.lab.run(detailed)
    page = console.get(f"/runs/{run['id']}").text
    assert re.search(
        r'<div class="wrong"><p>invalid input syntax for type json[^<]*Token[^<]* is invalid\.</p></div>', page
    )
    hinted = api.lab.add(
        source_query=select.format("titel"), key=["film_id"], name="hinted", target_table="analytics.b"
    )
    run = api.lab.run(hinted)
    page = console.get(f"/runs/{run['id']}").text
    assert re.search(r'column f.titel does not exist</p><p class="remedy">Perhaps you meant', page)


def test_what_a_run_says_is_kept_by_code_and_shown_in_the_visitors_language(console: httpx.Client, api: Api) -> None:
    run = api.lab.run(
        api.lab.add(source_query="SELECT f.id, f.title, now() AS at FROM content.film_work f", key=["id"])
    )
    old = "INSERT INTO etl.etl_run_events (run_id, level, event) VALUES (%s, 'info', %s)"
    api.lab.sql(old, run["id"], "an older program said this")
    english = _log(console, run["id"], "en")
    assert "mart is ready" in english
    assert "the query reads the clock (now())" in english
    russian = _log(console, run["id"], "ru")
    assert "витрина готова" in russian
    assert "запрос читает часы (now())" in russian
    assert "сравнивайте со столбцом" in russian
    assert "an older program said this" in russian
    assert "mart is ready" not in russian
    for language, text in (("en", "Mart is"), ("ru", "готова"), ("ru", "mart_ready")):
        assert _log(console, run["id"], language, q=text).count("<li") == 1


def _log(console: httpx.Client, run_id: int, language: str, **params: str) -> str:
    """The lines of a run's log, as a browser of that language gets them."""
    headers = {"Accept-Language": language}
    return console.get(f"/runs/{run_id}/log", params=params, headers=headers).text


def test_findings_are_said_in_the_visitors_language(console: httpx.Client, api: Api) -> None:
    form = {"name": "x", "target_table": "analytics.x", "key": "id"}
    form["source_query"] = "SELECT f.id, pg_sleep(1)::text AS t FROM content.film_work f"
    said = console.post("/editor/check", data=form, headers={"Accept-Language": "ru", "Origin": api.url}).text
    assert "функция pg_catalog.pg_sleep объявлена VOLATILE" in said
    assert "уберите её или добавьте в VITRINA_ALLOWED_FUNCTIONS" in said


def test_a_new_pipeline_begins_with_a_table_of_ones_own_and_shows_the_others(api: Api) -> None:
    api.lab.sql('CREATE TABLE content."All orders" (id int, "of" int, PRIMARY KEY ("of", id))')
    api.lab.sql('GRANT SELECT ON content."All orders" TO vitrina_reader')
    with sign_in(api, "admin") as browser:
        shown = unescape(browser.get("/new").text)
        tables = browser.get("/editor/tables?source=warehouse").text
        missing = browser.get("/editor/tables?source=nowhere", headers={"HX-Request": "true"})
    api.lab.sql('DROP TABLE content."All orders"')
    assert 'SELECT t.of, t.id\nFROM content."All orders" t' in shown
    assert 'value="of, id"' in shown
    assert "content.film_work" in tables
    assert "there is no source" in missing.headers["hx-trigger"]


# ── labels ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_home_groups_by_a_label_and_acts_on_a_group(api: Api, browsers: dict[str, httpx.Client]) -> None:
    for name, labels in (("films", ["team:search"]), ("people", ["team:ads"]), ("genres", ["pii"]), ("ratings", [])):
        api.create(name, labels=labels)
    browser = browsers["operator"]
    page = browser.get("/", params={"group": "team"}).text
    places = [page.index(text) for text in (">team:ads</a>", ">people</a>", ">team:search</a>", ">films</a>")]
    assert places == sorted(places)
    assert page.index("without team") < page.index(">genres</a>") < page.index(">ratings</a>")
    assert ">genres</a>" not in browser.get("/", params={"label": "team"}).text
    answer = browser.post("/selected/run", params={"label": "team:search"}, headers={"Origin": api.url})
    assert answer.status_code == 204
    assert api.lab.sql("SELECT name FROM etl.etl_pipelines WHERE status = 'RUN_REQUESTED'") == [("films",)]


def test_home_takes_any_label_and_group_of_an_address_as_text(console: httpx.Client) -> None:
    for text in ("a b", "'", "<b>", "%", "a:b:c", "\0"):
        assert console.get("/", params={"label": text, "group": text}).status_code == 200


# ── home ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_home_says_first_what_needs_somebody_and_how_old_and_late_marts_are(
    api: Api, browsers: dict[str, httpx.Client]
) -> None:
    for name in ("films", "people", "genres"):
        api.create(name, freshness_limit="1h" if name == "people" else None)
    quiet = browsers["operator"].get("/").text
    assert 'id="needs"' in quiet
    assert "Needs somebody" not in quiet
    api.lab.sql(RUN)
    api.lab.sql("UPDATE etl.etl_runs SET error = 'no table ""a""', remedy = 'make it' WHERE pipeline_id = ("
                "SELECT id FROM etl.etl_pipelines WHERE name = 'films')")  # fmt: skip
    api.set_status("FAILED", "films")
    api.lab.sql("INSERT INTO etl.etl_incidents SELECT id, 'stale' FROM etl.etl_pipelines WHERE name = 'people'")
    api.lab.sql("UPDATE etl.etl_pipelines SET created_at = now() - interval '27 minutes 30 seconds'")
    api.lab.sql("UPDATE etl.etl_pipelines SET mode = 'live' WHERE name = 'genres'")
    api.lab.sql(
        "INSERT INTO etl.etl_latency (pipeline_id, minute, arrivals, ms_sum, ms_max, buckets)"
        " SELECT id, date_trunc('minute', clock_timestamp()) - m * interval '1 minute', 10, 400, 50,"
        " '{0,10,0,0,0,0,0,0,0,0,0,0,0}' FROM etl.etl_pipelines, generate_series(1, 5) AS m WHERE name = 'genres'"
    )
    page = browsers["operator"].get("/").text
    needs = page[page.index("Needs somebody") : page.index("</section>", page.index("Needs somebody"))]
    assert needs.index(">films</a>") < needs.index("make it") < needs.index(">people</a>")
    assert "is older than 1h" in needs
    assert needs.count("hx-post") == 1
    assert 'value="45"' in page
    assert "median 38 ms" in page
    fresh = browsers["viewer"].get("/live/home", params={"once": "true", "have": "needs:x"}).json()["swap"]
    assert "Needs somebody" in fresh["needs"]
    assert "hx-post" not in fresh["needs"]

"""Signing in to the console by a provider of OpenID Connect: who gets in, as whom, for how long, and what is said."""

import importlib.util
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from typing import Any

import httpx
import pytest

from tests.contract.server import Api
from tests.openid import ANN, SETTINGS, Key, SmallProvider
from tests.patience import patient
from tests.signing import BACK, DOOR, answer, begin, browser, finish, is_in, served, sign_in
from vitrina.control.openid import asking
from vitrina.control.openid.signing import OpenId
from vitrina.domain.errors import ConfigError
from vitrina.settings import Settings

AUDIT = "SELECT actor, action, details FROM etl.etl_audit WHERE action LIKE 'sign-in%%' ORDER BY id"


@pytest.fixture(scope="module")
def shared() -> Iterator[tuple[Api, SmallProvider]]:
    with served() as both:
        yield both


@pytest.fixture
def provider(shared: tuple[Api, SmallProvider]) -> Iterator[SmallProvider]:
    """As it should be."""
    api, provider = shared
    forget(api)
    yield provider
    provider.person, provider.instead, provider.discovery, provider.twist = dict(ANN), {}, {}, None


def forget(api: Api) -> None:
    """What the console has kept of its provider, and what was done."""
    known: Any = openid_of(api).provider
    known._endpoints = known._keys = None
    api.lab.sql("TRUNCATE etl.etl_audit")
    api.lab.sql("DELETE FROM etl.etl_sessions")


def openid_of(api: Api) -> Any:
    mounted: Any = next(route for route in api.app.routes if getattr(route, "path", "") == "/console")
    return mounted.app.state.openid


@pytest.fixture
def api(shared: tuple[Api, SmallProvider], provider: SmallProvider) -> Api:
    return shared[0]


@pytest.fixture
def client(api: Api) -> Iterator[httpx.Client]:
    with browser(api) as client:
        yield client


# ── in and out ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_page_leads_to_the_provider_and_back_to_what_was_wanted(client: httpx.Client, api: Api) -> None:
    door = client.get("/console/sign-in", params={"next": "/console/system"}).text
    assert "Sign in with 127.0.0.1" in door
    assert "/console/sign-in/openid?next=/console/system" in door
    done = sign_in(client, "/console/system?x=1")
    assert (done.status_code, done.headers["location"]) == (303, "/console/system?x=1")
    page = client.get("/console/").text
    assert "Signed in as ann, operator" in page
    assert client.get("/console/new").status_code == 403
    [(actor, action, details)] = api.lab.sql(AUDIT)
    assert (actor, action) == ("ann", "sign-in")
    assert details == {
        "with": "openid",
        "role": "operator",
        "issuer": openid_of(api).provider.issuer,
        "subject": ANN["sub"],
    }


def test_what_is_done_then_is_done_in_their_name(client: httpx.Client, api: Api) -> None:
    sign_in(client)
    api.create()
    assert client.post("/console/pipelines/films/pause", headers={"Origin": api.url}).status_code in (204, 303)
    assert api.audit()[-1][:2] == ("ann", "pause")


def test_signing_out_ends_the_session_at_the_server(client: httpx.Client, api: Api) -> None:
    sign_in(client)
    stolen = dict(client.cookies)
    client.post("/console/sign-out", headers={"Origin": api.url})
    assert not is_in(client)
    assert httpx.get(f"{api.url}/console/", cookies=stolen, timeout=60).status_code == 303


def test_roles_are_looked_at_anew_and_the_highest_counts(client: httpx.Client, provider: SmallProvider) -> None:
    for groups, role in (
        (["vitrina-viewers"], "viewer"),
        (["vitrina-admins", "vitrina-viewers"], "admin"),
        ("vitrina-operators", "operator"),
    ):
        provider.person = ANN | {"groups": groups}
        assert sign_in(client).status_code == 303
        assert f"Signed in as ann, {role}" in client.get("/console/").text


def test_the_cookie_and_the_session_end_when_the_settings_say(client: httpx.Client, api: Api) -> None:
    done = sign_in(client)
    cookie = next(text for text in done.headers.get_list("set-cookie") if text.startswith("vitrina_session="))
    assert {"HttpOnly", "SameSite=lax", "Path=/console", f"Max-Age={8 * 3600}"} <= set(cookie.split("; "))
    left = api.lab.value(
        "SELECT extract(epoch FROM max(expires_at) - now()) FROM etl.etl_sessions WHERE kind = 'session'"
    )
    assert 7.5 * 3600 < left <= 8 * 3600
    api.lab.sql("UPDATE etl.etl_sessions SET expires_at = now() - interval '1 s' WHERE kind = 'session'")
    assert not is_in(client)


def test_sessions_end_when_the_provider_is_no_longer_trusted(client: httpx.Client, api: Api) -> None:
    sign_in(client)
    api.lab.sql("UPDATE etl.etl_sessions SET issuer = 'https://elsewhere.example' WHERE kind = 'session'")
    assert not is_in(client)


def test_tokens_open_the_console_beside_it(client: httpx.Client, api: Api) -> None:
    form = {"token": api.tokens["viewer"]}
    assert client.post("/console/sign-in", data=form, headers={"Origin": api.url}).status_code == 303
    assert is_in(client)


# ── keys and ways of the provider ────────────────────────────────────────────────────────────────────────────────


def test_a_new_key_is_fetched_when_a_token_names_it(client: httpx.Client, provider: SmallProvider) -> None:
    assert sign_in(client).status_code == 303
    before = provider.asked.count("/keys")
    assert sign_in(client).status_code == 303
    assert provider.asked.count("/keys") == before
    provider.keys = [provider.keys[0], Key.new("ES256")]
    assert sign_in(client).status_code == 303
    assert provider.asked.count("/keys") == before + 1
    provider.keys = [Key.new("RS256")]
    assert sign_in(client).status_code == 303


def test_the_discovery_document_is_kept(client: httpx.Client, provider: SmallProvider) -> None:
    before = provider.asked.count("/.well-known/openid-configuration")
    for _ in range(3):
        sign_in(client)
    assert provider.asked.count("/.well-known/openid-configuration") == before + 1


def test_a_provider_that_wants_the_secret_in_the_form_gets_it(client: httpx.Client, provider: SmallProvider) -> None:
    provider.discovery = {"token_endpoint_auth_methods_supported": ["client_secret_post"]}
    assert sign_in(client).status_code == 303


@pytest.mark.parametrize(
    ("path", "settings"),
    [
        ("realm_access.roles", {"realm_access": {"roles": ["vitrina-admins"]}}),
        ("https://example.org/roles", {"https://example.org/roles": ["vitrina-admins"]}),
    ],
)
def test_a_claim_may_be_inside_of_another(
    client: httpx.Client, api: Api, provider: SmallProvider, path: str, settings: dict[str, Any]
) -> None:
    openid, provider.person = openid_of(api), ANN | settings
    before = openid.settings
    object.__setattr__(openid, "settings", before.model_copy(update={"oidc_role_claim": path}))
    try:
        assert sign_in(client).status_code == 303
        assert "ann, admin" in client.get("/console/").text
    finally:
        object.__setattr__(openid, "settings", before)


# ── a provider that is away, slow, or talks nonsense ─────────────────────────────────────────────────────────────


def says(status: int, body: Any, **headers: str) -> Any:
    return lambda handler: handler.answer(status, body, **headers)


def hang_up(handler: BaseHTTPRequestHandler) -> None:
    handler.close_connection = True


def trickle(handler: BaseHTTPRequestHandler) -> None:
    """A byte now and then: no single wait is long."""
    handler.send_response(200)
    handler.send_header("Content-Length", "100000")
    handler.end_headers()
    try:
        for _ in range(100_000):
            handler.wfile.write(b" ")
            time.sleep(0.05)
    except OSError:
        handler.close_connection = True


DISCOVERY, TOKEN, KEYS = "/.well-known/openid-configuration", "/token", "/keys"
TROUBLE = [
    (DISCOVERY, hang_up, 503),
    (DISCOVERY, trickle, 503),
    (DISCOVERY, says(500, "oops"), 503),
    (DISCOVERY, says(404, {}), 502),
    (DISCOVERY, says(200, "<html>"), 502),
    (DISCOVERY, says(200, "[" * 100_000), 502),
    (DISCOVERY, says(200, [1, 2]), 502),
    (DISCOVERY, says(200, {}), 502),
    (DISCOVERY, says(302, "", Location="http://127.0.0.1:1/"), 502),
    (DISCOVERY, says(200, '"' + "x" * 2_000_000 + '"'), 502),
    (TOKEN, hang_up, 503),
    (TOKEN, trickle, 503),
    (TOKEN, says(200, {"id_token": 7}), 502),
    (TOKEN, says(200, {}), 502),
    (TOKEN, says(401, {"error": "invalid_client"}), 502),
    (TOKEN, says(400, {"error": "invalid_grant"}), 400),
    (TOKEN, says(400, {"error": ["odd"]}), 502),
    (TOKEN, says(200, {"id_token": "a.b.c"}), 401),
    (TOKEN, says(200, {"id_token": "…"}), 401),
    (KEYS, hang_up, 503),
    (KEYS, says(200, {"keys": "none"}), 502),
    (KEYS, says(200, {"keys": [1, None, {"kty": "RSA"}, {"kty": 3}]}), 401),
]


@pytest.mark.parametrize(("path", "wrong", "status"), TROUBLE)
def test_a_provider_in_trouble_is_said_with_the_remedy_in_both_languages(
    client: httpx.Client, provider: SmallProvider, monkeypatch: pytest.MonkeyPatch, path: str, wrong: Any, status: int
) -> None:
    monkeypatch.setattr(asking, "SECONDS", 1.0 if wrong is trickle else patient(8))
    for language, word in (("en", "Sign in"), ("ru", "Войти")):
        client.headers["Accept-Language"] = language
        if path == DISCOVERY:
            provider.instead = {path: wrong}
            said = client.get(DOOR)
        else:
            provider.instead = {}
            given = answer(client)
            provider.instead = {path: wrong}
            said = finish(client, given)
        assert (said.status_code, word in said.text) == (status, True)
        assert 'role="alert"' in said.text
        assert 'class="remedy"' in said.text
        assert not is_in(client)


def test_a_provider_that_is_not_there_is_said_and_tokens_still_open(provider: SmallProvider) -> None:
    with served(oidc_issuer="http://127.0.0.1:1") as (api, _), browser(api) as client:
        said = client.get(DOOR, params={"next": "/console/system"})
        assert said.status_code == 503
        assert "127.0.0.1 does not answer" in said.text
        assert 'value="/console/system"' in said.text
        form = {"token": api.tokens["viewer"]}
        assert client.post("/console/sign-in", data=form, headers={"Origin": api.url}).status_code == 303


@pytest.mark.parametrize("name", ["authorization_endpoint", "token_endpoint", "jwks_uri"])
@pytest.mark.parametrize("url", ["http://example.org/x", "javascript:alert(1)", "//x", 7, None, "https://[x"])
def test_a_provider_that_sends_us_elsewhere_than_by_https_is_refused(
    client: httpx.Client, provider: SmallProvider, name: str, url: Any
) -> None:
    provider.discovery = {name: url}
    assert client.get(DOOR).status_code == 502


def test_a_hanging_provider_takes_no_more_than_its_threads(
    client: httpx.Client, provider: SmallProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "PATIENCE", 0.01)
    taken = [asking.AT_ONCE.acquire(blocking=False) for _ in range(8)]
    try:
        assert taken == [True] * 8
        said = client.get(DOOR)
    finally:
        for _ in taken:
            asking.AT_ONCE.release()
    assert (said.status_code, "Too many people" in said.text) == (503, True)
    assert begin(client)


# ── settings ─────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"oidc_client_id": None}, "VITRINA_OIDC_CLIENT_ID"),
        ({"oidc_client_secret": ""}, "VITRINA_OIDC_CLIENT_SECRET"),
        ({"oidc_roles": {}}, "VITRINA_OIDC_ROLES"),
        ({"oidc_issuer": "http://sso.example.org"}, "no https address"),
    ],
)
def test_what_is_missing_is_said_as_the_process_starts(given: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        OpenId.of(Settings(**(SETTINGS | {"oidc_issuer": "https://sso.example.org"} | given)))


def test_without_the_extra_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vitrina.control.openid.signing.find_spec", lambda name: None)
    with pytest.raises(ConfigError) as caught:
        OpenId.of(Settings(**SETTINGS, oidc_issuer="https://sso.example.org"))
    assert "vitrina[oidc]" in caught.value.remedy
    assert importlib.util.find_spec("jwt")


@pytest.mark.parametrize(
    ("text", "roles"),
    [
        ("a=viewer, b=admin", {"a": "viewer", "b": "admin"}),
        ("cn=x=operator", {"cn=x": "operator"}),
        ('{"CN=a,OU=b": "admin"}', {"CN=a,OU=b": "admin"}),
    ],
)
def test_roles_are_given_as_pairs_or_as_json(monkeypatch: pytest.MonkeyPatch, text: str, roles: dict[str, str]) -> None:
    monkeypatch.setenv("VITRINA_OIDC_ROLES", text)
    monkeypatch.setenv("VITRINA_OIDC_SCOPES", "openid groups")
    settings = Settings()
    assert settings.oidc_roles == roles
    assert settings.oidc_scopes == ["openid", "groups"]


@pytest.mark.parametrize("text", ["a=owner", "a", "{", '["a"]'])
def test_roles_that_are_none_are_refused(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("VITRINA_OIDC_ROLES", text)
    with pytest.raises(ValueError, match="oidc_roles"):
        Settings()


def test_where_it_is_not_set_up_nothing_speaks_of_it() -> None:
    with served(oidc_issuer=None) as (api, _), browser(api) as client:
        assert "Sign in with" not in client.get("/console/sign-in").text
        for path in (DOOR, BACK):
            assert client.get(path).status_code == 404
        assert client.post(BACK, headers={"Origin": api.url}).status_code == 404

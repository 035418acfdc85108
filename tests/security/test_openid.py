"""Sign-in by OpenID Connect, attacked: by other sites, by holders of a code, by tokens that are not what they say."""

import base64
import hashlib
import hmac
import json
import time
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from tests.contract.server import Api
from tests.openid import ANN, CLIENT, Key, SmallProvider, Twist, coded, providing
from tests.security.state import hashes
from tests.signing import BACK, DOOR, answer, begin, browser, finish, is_in, served, sign_in
from vitrina.control.openid.begun import Begun
from vitrina.control.openid.claims import name_of, role_of
from vitrina.control.openid.refusal import Refused

REFUSALS = "SELECT actor, details ->> 'with', details ->> 'why' FROM etl.etl_audit WHERE action = 'sign-in refused'"


@pytest.fixture(scope="module")
def shared() -> Iterator[tuple[Api, SmallProvider]]:
    with served() as both:
        yield both


@pytest.fixture
def provider(shared: tuple[Api, SmallProvider]) -> Iterator[SmallProvider]:
    """As it should be, and no session of anybody."""
    api, provider = shared
    api.lab.sql("TRUNCATE etl.etl_audit")
    api.lab.sql("DELETE FROM etl.etl_sessions")
    yield provider
    provider.person, provider.twist, provider.discovery = dict(ANN), None, {}


@pytest.fixture
def api(shared: tuple[Api, SmallProvider], provider: SmallProvider) -> Api:
    return shared[0]


@pytest.fixture
def client(api: Api) -> Iterator[httpx.Client]:
    with browser(api) as client:
        yield client


def refused(client: httpx.Client, api: Api, done: httpx.Response, status: int, why: str) -> None:
    """It is said, written down, and nobody is in."""
    assert done.status_code == status, done.text
    assert "vitrina_session" not in done.headers.get("set-cookie", "")
    assert api.lab.sql(REFUSALS)[-1] == ("nobody", "openid", why)
    assert api.lab.value("SELECT count(*) FROM etl.etl_sessions WHERE kind = 'session'") == 0
    assert not is_in(client)


# ── the token ────────────────────────────────────────────────────────────────────────────────────────────────────


def unsigned(header: dict[str, Any], claims: dict[str, Any]) -> str:
    return f"{coded(json.dumps(header | {'alg': 'none'}).encode())}.{coded(json.dumps(claims).encode())}."


def with_the_public_key(key: Key, form: str) -> Twist:
    """HS256, with what everybody can read as the secret."""
    public = key.private.public_key()
    pem = public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    secrets = {"pem": pem, "modulus": base64.urlsafe_b64decode(key.public["n"] + "=="), "client": CLIENT.encode()}

    def twist(header: dict[str, Any], claims: dict[str, Any]) -> str:
        head = coded(json.dumps(header | {"alg": "HS256"}).encode())
        body = f"{head}.{coded(json.dumps(claims).encode())}"
        return f"{body}.{coded(hmac.digest(secrets[form], body.encode(), hashlib.sha256))}"

    return twist


def test_a_token_that_nobody_signed(client: httpx.Client, api: Api, provider: SmallProvider) -> None:
    provider.twist = unsigned
    refused(client, api, sign_in(client), 401, "untrusted")


@pytest.mark.parametrize("form", ["pem", "modulus", "client"])
def test_a_token_signed_with_what_is_public(client: httpx.Client, api: Api, provider: SmallProvider, form: str) -> None:
    provider.twist = with_the_public_key(provider.keys[-1], form)
    refused(client, api, sign_in(client), 401, "untrusted")


def said(**other: Any) -> Any:
    """A token of the right key that says something else; None: it does not say so at all."""

    def change(key: Key) -> Twist:
        def twist(_: dict[str, Any], claims: dict[str, Any]) -> str:
            now = {name: value() if callable(value) else value for name, value in other.items()}
            return key.sign({name: value for name, value in (claims | now).items() if value is not None})

        return twist

    change.__name__ = " ".join(other)
    return change


def ago(seconds: float) -> Callable[[], int]:
    """When the token is made, and not when the tests are collected."""
    return lambda: int(time.time() - seconds)


def named(change: Any) -> str:
    return str(change.__name__)


@pytest.mark.parametrize(
    "change",
    [
        said(nonce="of another sign-in"),
        said(nonce=None),
        said(nonce=["list"]),
        said(aud="another-client"),
        said(aud=[CLIENT, "another-client"]),
        said(aud=[CLIENT, "another-client"], azp="another-client"),
        said(azp="another-client"),
        said(azp=7),
        said(aud=None),
        said(aud={"x": 1}),
        said(iss="https://elsewhere.example"),
        said(iss=None),
        said(iss=["https://elsewhere.example"]),
        said(exp=ago(3600), iat=ago(7200)),
        said(exp=ago(65), iat=ago(300)),
        said(exp=None),
        said(exp="soon"),
        said(exp=True),
        said(nbf=ago(-600)),
        said(iat=ago(-600)),
        said(iat=None),
        said(sub=None),
        said(sub=7),
        said(sub="a\x00b"),
        said(sub="a\ud800b"),
        said(sub="x" * 256),
    ],
    ids=named,
)
def test_a_token_that_is_not_for_this_sign_in(
    client: httpx.Client, api: Api, provider: SmallProvider, change: Any
) -> None:
    provider.twist = change(provider.keys[-1])
    refused(client, api, sign_in(client), 401, "untrusted")


@pytest.mark.parametrize("change", [said(exp=ago(20), iat=ago(300)), said(aud=[CLIENT]), said(azp=CLIENT)], ids=named)
def test_a_token_that_differs_within_reason_is_good(client: httpx.Client, provider: SmallProvider, change: Any) -> None:
    provider.twist = change(provider.keys[-1])
    assert sign_in(client).status_code == 303


def test_a_token_of_a_key_that_is_not_the_providers(client: httpx.Client, api: Api, provider: SmallProvider) -> None:
    stranger = Key.new()
    for kid in (stranger.kid, provider.keys[-1].kid, None, 7, ["x"]):
        provider.twist = lambda _, claims, kid=kid: signed_as(stranger, kid, claims)
        refused(client, api, sign_in(client), 401, "untrusted")


def signed_as(key: Key, kid: Any, claims: dict[str, Any]) -> str:
    """With any `kid` at all, which is what a library would not write."""
    from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
    from cryptography.hazmat.primitives.hashes import SHA256

    body = f"{coded(json.dumps({'alg': 'RS256', 'kid': kid}).encode())}.{coded(json.dumps(claims).encode())}"
    private: Any = key.private
    return f"{body}.{coded(private.sign(body.encode(), PKCS1v15(), SHA256()))}"


def test_a_key_that_comes_with_the_token_is_not_believed(
    client: httpx.Client, api: Api, provider: SmallProvider
) -> None:
    stranger = Key.new()
    provider.twist = lambda _, claims: stranger.sign(
        claims, jwk=stranger.public, jku=f"{provider.issuer}/keys", kid=provider.keys[-1].kid
    )
    refused(client, api, sign_in(client), 401, "untrusted")


@pytest.mark.filterwarnings("ignore:The RSA key")
def test_a_key_too_short_to_be_trusted(client: httpx.Client, api: Api, provider: SmallProvider) -> None:
    provider.keys.append(Key.new(bits=1024))
    try:
        refused(client, api, sign_in(client), 401, "untrusted")
    finally:
        provider.keys.pop()


# ── the way there and back ───────────────────────────────────────────────────────────────────────────────────────


def test_an_answer_with_another_state(client: httpx.Client, api: Api) -> None:
    given = answer(client)
    for state in ("", "x", given["state"][:-1], given["state"] + "x", "\xff"):
        refused(client, api, finish(client, given | {"state": state}), 400, "lost")


def test_an_answer_in_another_browser_signs_nobody_in(client: httpx.Client, api: Api) -> None:
    """Whoever has somebody else end their own sign-in would have them work under a foreign name."""
    with browser(api) as enemy:
        theirs = answer(enemy)
        refused(client, api, finish(client, theirs), 400, "lost")
        begin(client)  # not even with a sign-in of one's own under way
        refused(client, api, finish(client, theirs), 400, "lost")
        refused(client, api, finish(client, theirs | {"state": answer(client)["state"]}), 400, "lost")


def test_an_answer_works_once(client: httpx.Client, api: Api, provider: SmallProvider) -> None:
    given = answer(client)
    begun, codes = dict(client.cookies), dict(provider.grants)
    assert finish(client, given).status_code == 303
    provider.grants.update(codes)  # a provider that forgets what it has redeemed
    api.lab.sql("DELETE FROM etl.etl_sessions WHERE kind = 'session'")
    client.cookies.clear()
    client.cookies.update(begun)
    asked = provider.asked.count("/token")
    refused(client, api, finish(client, given), 400, "lost")
    assert provider.asked.count("/token") == asked


def test_a_code_of_somebody_else_is_of_no_use(client: httpx.Client, api: Api, provider: SmallProvider) -> None:
    """PKCE: the provider gives nothing for a code without the secret of who began."""
    with browser(api) as other:
        stolen = answer(other)["code"]
    refused(client, api, finish(client, answer(client) | {"code": stolen}), 400, "lost")


@pytest.mark.parametrize("issuer", ["https://elsewhere.example", ""])
def test_an_answer_of_another_provider(client: httpx.Client, api: Api, provider: SmallProvider, issuer: str) -> None:
    """Mix-up: a code of one is never shown to another."""
    given, asked = answer(client), provider.asked.count("/token")
    refused(client, api, finish(client, given | {"iss": issuer}), 401, "untrusted")
    assert provider.asked.count("/token") == asked


def test_a_discovery_document_of_another_issuer(provider: SmallProvider) -> None:
    with providing() as other:
        other.discovery = {"issuer": provider.issuer}
        with served(oidc_issuer=other.issuer) as (api, _), browser(api) as client:
            assert client.get(DOOR).status_code == 502


def test_what_the_provider_says_instead_of_a_code_is_shown_as_a_word(client: httpx.Client, api: Api) -> None:
    for error, shown in (("access_denied", "access_denied"), ("<b>call +1 555</b>", "?")):
        state = parse_qs(urlsplit(begin(client)).query)["state"][0]
        given = {"error": error, "state": state, "iss": answer_issuer(api)}
        done = finish(client, given)
        refused(client, api, done, 403, "denied")
        assert f"did not let you in: {shown}" in done.text
        assert "555" not in done.text


def answer_issuer(api: Api) -> str:
    return str(api.app.state.plane.settings.oidc_issuer)


@pytest.mark.parametrize(
    "wanted",
    [
        "https://evil.example/",
        "//evil.example",
        "/\\evil.example",
        "/console/\\evil.example",
        "/console/\r\nX: y",
        "/elsewhere",
        "javascript:alert(1)",
        "/console/" + "x" * 5_000,
    ],
)
def test_people_are_sent_nowhere_but_to_our_own_pages(client: httpx.Client, wanted: str) -> None:
    assert sign_in(client, wanted).headers["location"] == "/console/"


def test_a_session_that_somebody_else_put_there_is_not_used(client: httpx.Client, api: Api) -> None:
    """Fixation: whatever cookie was there, the session is a new one, and the old one ends."""
    with browser(api) as enemy:
        sign_in(enemy)
        planted = enemy.cookies["vitrina_session"]
        client.cookies.set("vitrina_session", planted, domain="127.0.0.1", path="/console")
        sign_in(client)
        fresh = [cookie.value for cookie in client.cookies.jar if cookie.name == "vitrina_session"]
        assert planted not in fresh[-1:]
        assert not is_in(enemy)


def test_another_site_begins_and_ends_nothing(client: httpx.Client, api: Api) -> None:
    for site in ("cross-site", "same-site"):
        sent = client.get(DOOR, headers={"Sec-Fetch-Site": site})
        assert urlsplit(sent.headers["location"]).path == "/console/sign-in"
        assert "set-cookie" not in sent.headers
    given = answer(client)
    for origin in ("https://evil.example", "null", ""):
        assert client.post(BACK, data=given, headers={"Origin": origin}).status_code == 403
    assert not is_in(client)


def test_coming_back_changes_nothing_until_the_page_posts(client: httpx.Client, api: Api) -> None:
    given, before = answer(client), hashes(api.lab, "etl")
    page = client.get(BACK, params=given | {"code": '"><script>alert(1)</script>'})
    assert "<script>alert" not in page.text
    assert client.get(BACK, params=given).status_code == 200
    after = hashes(api.lab, "etl")
    assert {name for name in after if after[name] != before[name]} <= {"etl.etl_runners"}
    assert finish(client, given).status_code == 303


def test_the_cookie_of_a_sign_in_is_ours_young_and_out_of_reach(client: httpx.Client, api: Api) -> None:
    cookie = client.get(DOOR).headers["set-cookie"]
    assert {"HttpOnly", "SameSite=lax", f"Path={DOOR}", "Max-Age=600"} <= set(cookie.split("; "))
    key, begun = b"k" * 32, Begun.now("/console/")
    sealed = begun.sealed(key)
    assert Begun.opened(sealed, key) == begun
    body, _, signature = sealed.partition(".")
    old = Begun(begun.state, begun.nonce, begun.verifier, begun.wanted, time.time() - 1).sealed(key)
    for wrong in ("", ".", body, f"{body}.", f"{body}x.{signature}", f".{signature}", old, "\xff.\xff"):
        assert Begun.opened(wrong, key) is None
    assert Begun.opened(sealed, b"x" * 32) is None


def test_every_sign_in_has_secrets_of_its_own(client: httpx.Client) -> None:
    asked = [parse_qs(urlsplit(begin(client)).query) for _ in range(3)]
    for name in ("state", "nonce", "code_challenge"):
        assert len({query[name][0] for query in asked}) == 3
        assert all(len(query[name][0]) >= 43 for query in asked)


# ── claims ───────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("groups", "why"),
    [
        ([], "no_role"),
        (["staff"], "no_role"),
        (["Vitrina-Admins", "vitrina-admins "], "no_role"),
        ("vitrina-admins,vitrina-viewers", "no_role"),
        (None, "unreadable"),
        (7, "unreadable"),
        (True, "unreadable"),
        ({"vitrina-admins": True}, "unreadable"),
        (["vitrina-admins", 7], "unreadable"),
        ([["vitrina-admins"]], "unreadable"),
    ],
)
def test_whoever_has_no_role_for_sure_does_not_get_in(
    client: httpx.Client, api: Api, provider: SmallProvider, groups: Any, why: str
) -> None:
    provider.person = ANN | {"groups": groups}
    refused(client, api, sign_in(client), 403, why)


@pytest.mark.parametrize("name", [None, "", "  ", 7, ["ann"], {"a": 1}, "a\x00b", "a\nb", "a\u202eb", "x" * 201])
def test_whoever_has_no_name_does_not_get_in(
    client: httpx.Client, api: Api, provider: SmallProvider, name: Any
) -> None:
    provider.person = ANN | {"preferred_username": name}
    refused(client, api, sign_in(client), 403, "nameless")


def test_a_claim_that_is_not_there_at_all(client: httpx.Client, api: Api, provider: SmallProvider) -> None:
    for missing, why in (("groups", "unreadable"), ("preferred_username", "nameless")):
        provider.person = {name: value for name, value in ANN.items() if name != missing}
        refused(client, api, sign_in(client), 403, why)


def test_an_address_that_nobody_verified_is_no_name() -> None:
    for verified in (False, "false"):
        with pytest.raises(Refused):
            name_of({"email": "ann@example.org", "email_verified": verified}, "email")
    assert name_of({"email": "ann@example.org", "email_verified": True}, "email") == "ann@example.org"


def test_a_claim_reaches_no_further_than_its_path() -> None:
    with pytest.raises(Refused):
        role_of({"a": {"b": ["x"]}, "b": ["x"]}, "a.b.c", {"x": "admin"}, "ann")


# ── what is told ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_no_secret_is_in_the_log_the_page_or_the_audit(
    client: httpx.Client, api: Api, provider: SmallProvider, capfd: pytest.CaptureFixture[str]
) -> None:
    given = answer(client)
    provider.twist = said(nonce="another")(provider.keys[-1])
    done = finish(client, given)
    told = capfd.readouterr()
    everything = told.out + told.err + done.text + str(api.audit())
    assert "sign-in refused" in everything
    for secret in ("planted", given["code"], given["state"], client.cookies["vitrina_begun"]):
        assert secret not in everything
    assert api.lab.value("SELECT count(*) FROM etl.etl_sessions WHERE hash = %s", given["state"].encode()) == 0


def test_whoever_knocks_often_does_not_fill_the_log(client: httpx.Client, api: Api) -> None:
    for _ in range(35):
        finish(client, {"state": "x", "code": "y"})
    assert api.lab.value("SELECT count(*) FROM etl.etl_audit WHERE action = 'sign-in refused'") <= 30

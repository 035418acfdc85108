"""Somebody's browser on their way in by a provider."""

import html
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx

from tests.contract.server import Api, serve
from tests.openid import SETTINGS, SmallProvider, providing
from tests.patience import patient
from tests.support import Lab

DOOR, BACK = "/console/sign-in/openid", "/console/sign-in/openid/back"
FIELD = re.compile(r'<input type="hidden" name="(\w+)" value="([^"]*)">')
Answer = dict[str, str]


@contextmanager
def served(**settings: Any) -> Iterator[tuple[Api, SmallProvider]]:
    """The console, and the small provider that it trusts."""
    with (
        providing() as provider,
        Lab.open("vitrina_template", **(SETTINGS | {"oidc_issuer": provider.issuer} | settings)) as lab,
        serve(lab) as api,
    ):
        provider.backs = [api.url + BACK]
        yield api, provider


@contextmanager
def browser(api: Api) -> Iterator[httpx.Client]:
    """Without a session."""
    with httpx.Client(base_url=api.url, timeout=patient(30), headers={"Accept-Language": "en"}) as client:
        yield client


def begin(client: httpx.Client, wanted: str = "/console/") -> str:
    """Through our door: where the provider is asked."""
    sent = client.get(DOOR, params={"next": wanted})
    assert sent.status_code == 303, sent.text
    return sent.headers["location"]


def answer(client: httpx.Client, wanted: str = "/console/") -> Answer:
    """What the provider sends the browser back with."""
    back = httpx.get(begin(client, wanted), timeout=60).headers["location"]
    return {name: values[0] for name, values in parse_qs(urlsplit(back).query).items()}


def finish(client: httpx.Client, given: Answer) -> httpx.Response:
    """The page that it comes back to, and what that page posts at once."""
    page = client.get(BACK, params=given)
    assert page.status_code == 200
    form = {name: html.unescape(value) for name, value in FIELD.findall(page.text)}
    origin = f"{client.base_url.scheme}://{client.base_url.netloc.decode()}"
    return client.post(BACK, data=form, headers={"Origin": origin})


def sign_in(client: httpx.Client, wanted: str = "/console/") -> httpx.Response:
    """All of it."""
    return finish(client, answer(client, wanted))


def is_in(client: httpx.Client) -> bool:
    """Whether the home page opens."""
    return client.get("/console/").status_code == 200

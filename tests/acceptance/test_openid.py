"""Signing in by a real, certified provider: oidc-provider for Node, in integrations/openid (`make test-openid`)."""

import html
import os
import re
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from tests.contract.server import Api, serve
from tests.openid import CLIENT, SECRET, SETTINGS
from tests.patience import patient
from tests.signing import BACK, begin, browser, finish, is_in
from tests.support import Lab

HERE = Path(__file__).parents[2] / "integrations" / "openid"
ACTION = re.compile(r'<form[^>]* action="([^"]+)"')
HIDDEN = re.compile(r'<input type="hidden" name="(\w+)" value="([^"]*)"')


@contextmanager
def node(back: str) -> Iterator[str]:
    """The provider's issuer, while it runs."""
    if not (shutil.which("node") and (HERE / "node_modules").exists()):
        reason = "needs Node and integrations/openid/node_modules: make test-openid"
        pytest.fail(reason) if "openid" in os.environ.get("VITRINA_REQUIRE", "").split(",") else pytest.skip(reason)
    command = ["node", "provider.mjs", back, CLIENT, SECRET]
    process = subprocess.Popen(command, cwd=HERE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert process.stdout
        yield process.stdout.readline().strip()
    finally:
        process.terminate()
        process.wait(patient(20))


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@pytest.fixture(scope="module")
def api() -> Iterator[Api]:
    """The console behind an address that is known before it is served: the provider has to know it."""
    public = f"http://127.0.0.1:{free_port()}"
    with (
        node(public + BACK) as issuer,
        Lab.open("vitrina_template", **(SETTINGS | {"oidc_issuer": issuer, "public_url": public})) as lab,
        serve(lab) as api,
    ):
        yield api


def pass_pages(url: str, name: str) -> dict[str, str]:
    """Through the provider's own pages, with a name and consent: what it sends the browser back with."""
    with httpx.Client(timeout=patient(20), headers={"Accept": "text/html"}) as person:
        answer = person.get(url)
        for _ in range(10):
            if answer.is_redirect:
                target = str(answer.next_request.url) if answer.next_request else ""
                if urlsplit(target).path == BACK:
                    return {key: values[0] for key, values in parse_qs(urlsplit(target).query).items()}
                answer = person.get(target)
                continue
            form: dict[str, Any] = dict(HIDDEN.findall(answer.text)) | {"login": name, "password": "x"}
            action = ACTION.search(answer.text)
            assert action, answer.text
            answer = person.post(str(answer.url.join(html.unescape(action[1]))), data=form)
    raise AssertionError("it asks without end")


def test_a_real_provider_signs_somebody_in(api: Api) -> None:
    with browser(api) as client:
        done = finish(client, pass_pages(begin(client, "/console/system"), "ann"))
        assert (done.status_code, done.headers["location"]) == (303, "/console/system")
        assert "Signed in as ann, operator" in client.get("/console/").text


def test_it_redeems_no_code_twice_and_none_of_another_sign_in(api: Api) -> None:
    with browser(api) as client, browser(api) as enemy:
        theirs = pass_pages(begin(enemy), "eve")
        given = pass_pages(begin(client), "ann")
        assert finish(client, given | {"code": theirs["code"]}).status_code == 400
        assert not is_in(client)
        given = pass_pages(begin(client), "ann")
        assert finish(client, given).status_code == 303
        assert finish(client, given).status_code == 400

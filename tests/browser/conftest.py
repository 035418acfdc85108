"""Debian's Chromium on the real app: nothing but our server can be reached, and no page may err or ask for more."""

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from tests.contract.server import Api, running, serve
from tests.patience import patient
from tests.support import Lab
from vitrina.meta.repos.sessions import SessionRepo

CHROMIUM = shutil.which("chromium") or "/usr/bin/chromium"
ALONE = "MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"  # the network cable is out
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", f"--host-resolver-rules={ALONE}"]
# Said of a request that is broken off because its page is left; htmx names every other failure once more, as an error.
HARMLESS = ("Failed to load resource", "htmx:afterRequest", "htmx:sendAbort")
MANY = "SELECT n AS id, md5(n::text) AS word FROM content.many"
WAIT_MS = 1000 * patient(15)
expect.set_options(timeout=WAIT_MS)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """One for all tests of a worker."""
    if not Path(CHROMIUM).exists():
        reason = f"the console's browser tests need Chromium, and {CHROMIUM} is not there: apt install chromium"
        required = "chromium" in os.environ.get("VITRINA_REQUIRE", "").split(",")
        pytest.fail(reason) if required else pytest.skip(reason)
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def api() -> Iterator[Api]:
    """The app with a runner beside it, on a small cinema."""
    with Lab.open("vitrina_template") as lab, serve(lab) as api, running(lab):
        yield api


@dataclass
class Desk:
    """Somebody's browser: pages that are signed in, and everything that went wrong in them."""

    api: Api
    context: BrowserContext
    asked: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def sign_in(self, role: str = "admin") -> None:
        """As if they had come through the door."""
        session = SessionRepo(self.api.lab.db).open(self.api.tokens[role])
        assert session is not None
        cookie: Any = {"name": "vitrina_session", "value": session[0], "domain": "127.0.0.1", "path": "/console"}
        self.context.add_cookies([cookie])

    def open(self, path: str = "/") -> Page:
        """A new tab."""
        page = self.context.new_page()
        page.set_default_timeout(WAIT_MS)
        page.on("request", lambda request: self.asked.append(request.url))
        page.on("pageerror", lambda error: self.wrong.append(str(error)))
        page.on("console", lambda said: self.wrong.append(said.text) if said.type == "error" else None)
        page.goto(f"{self.api.url}/console{path}")
        return page

    def check(self) -> None:
        """Nothing from elsewhere was asked for, and nothing went wrong."""
        elsewhere = [url for url in self.asked if not url.startswith((self.api.url, "data:"))]
        assert elsewhere == []
        assert [text for text in self.wrong if not any(harmless in text for harmless in HARMLESS)] == []


@pytest.fixture
def desk(api: Api, browser: Browser) -> Iterator[Desk]:
    """An English browser, in light."""
    with browser.new_context(locale="en-GB", color_scheme="light", viewport={"width": 1280, "height": 860}) as context:
        desk = Desk(api, context)
        yield desk
        desk.check()


def fill_many(api: Api, rows: int) -> None:
    """A table with so many rows, which can be read by key: batch after batch."""
    api.lab.sql("CREATE TABLE IF NOT EXISTS content.many (n int PRIMARY KEY); TRUNCATE content.many")
    api.lab.sql(f"INSERT INTO content.many SELECT generate_series(1, {rows}); ANALYZE content.many")
    api.lab.sql("GRANT SELECT ON content.many TO vitrina_reader")


def many(api: Api, name: str, rows: int = 20_000, batch_size: int = 50) -> None:
    """A pipeline of many small batches: long enough to be watched, paused and resumed."""
    fill_many(api, rows)
    api.create(name, source_query=MANY, key=["id"], target_table=f"analytics.{name}", batch_size=batch_size)

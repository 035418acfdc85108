"""Signing in by a provider, in a real browser: there, back, and to the page that was wanted; with its troubles, too."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import WAIT_MS
from tests.browser.overflow import overflow
from tests.browser.test_pages import violations
from tests.contract.server import Api
from tests.openid import ANN, SmallProvider
from tests.signing import served

LABEL = "the company's account of everybody who works here"


@pytest.fixture(scope="module")
def both() -> Iterator[tuple[Api, SmallProvider]]:
    """The console, and a provider that asks who one is."""
    with served(oidc_label=LABEL) as (api, provider):
        provider.asks = True
        yield api, provider


@pytest.mark.parametrize(
    ("locale", "width", "press", "alert"),
    [("en-GB", 1280, "Sign in with", "has a role here"), ("ru-RU", 390, "Войти через", "не даёт здесь роли")],
)
def test_to_the_provider_and_back_to_the_page_that_was_wanted(
    both: tuple[Api, SmallProvider], browser: Browser, locale: str, width: int, press: str, alert: str
) -> None:
    api, provider = both
    with browser.new_context(locale=locale, viewport={"width": width, "height": 860}) as context:
        page = context.new_page()
        page.set_default_timeout(WAIT_MS)
        wrong: list[str] = []
        page.on("pageerror", lambda error: wrong.append(str(error)))
        provider.person = ANN | {"groups": []}
        page.goto(f"{api.url}/console/system")
        _look(page)
        page.get_by_role("link", name=press).click()
        page.get_by_role("link", name="I am Ann").click()
        expect(page.get_by_role("alert")).to_contain_text(alert)
        _look(page)
        provider.person = dict(ANN)
        page.get_by_role("link", name=press).click()
        page.get_by_role("link", name="I am Ann").click()
        expect(page).to_have_url(f"{api.url}/console/system")
        expect(page.locator("header")).to_contain_text("ann")
        page.locator("header summary").click()
        page.locator('form[action="/console/sign-out"] button').click()
        expect(page.get_by_role("link", name=press)).to_be_visible()
        assert wrong == []


def test_without_scripts_one_presses_once_more(both: tuple[Api, SmallProvider], browser: Browser) -> None:
    api, provider = both
    provider.person = dict(ANN)
    with browser.new_context(locale="en-GB", java_script_enabled=False) as context:
        page = context.new_page()
        page.set_default_timeout(WAIT_MS)
        page.goto(f"{api.url}/console/sign-in?next=/console/system")
        page.get_by_role("link", name="Sign in with").click()
        page.get_by_role("link", name="I am Ann").click()
        page.get_by_role("button", name="Continue").click()
        expect(page).to_have_url(f"{api.url}/console/system")


def _look(page: Page) -> None:
    expect(page.get_by_role("link", name=LABEL)).to_be_visible()
    assert overflow(page) == []
    assert violations(page) == []

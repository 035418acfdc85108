"""A pipeline of several targets in a browser: its page, a target's, and the list."""

from playwright.sync_api import expect

from tests.browser.conftest import Desk
from tests.contract.server import FILMS


def test_the_whole_is_run_from_its_page_and_each_target_is_found_there(desk: Desk) -> None:
    targets = ["analytics.one", "analytics.two"]
    made = desk.api.post("/pipelines", {"name": "films", "source_query": FILMS, "targets": targets, "key": ["film_id"]})
    assert made.status_code == 201, made.text
    desk.sign_in()
    page = desk.open("/pipelines/films")
    page.get_by_role("button", name="Run", exact=True).first.click()
    for target in targets:
        row = page.locator("table.pipelines tbody tr").filter(has_text=target)
        expect(row.locator(".bars")).to_be_visible()
    page.get_by_role("link", name="films@analytics.one").click()
    expect(page.get_by_text("one of the targets of")).to_be_visible()
    expect(page.get_by_role("button", name="Disable")).to_have_count(0)
    page.get_by_role("link", name="films", exact=True).click()
    expect(page.get_by_role("heading", name="Targets")).to_be_visible()

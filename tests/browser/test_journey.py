"""The way of somebody who makes a mart: sign in, write, mend, preview, save, run, watch, pause, compare, repair."""

import re

from playwright.sync_api import Page, expect

from tests.browser.conftest import MANY, Desk, fill_many
from tests.contract.server import Api
from vitrina.meta.repos.sessions import SessionRepo

NAME = "numbers"


def type_sql(page: Page, text: str) -> None:
    """In place of what stands there."""
    page.locator('[data-for="f-source_query"]').click()
    page.keyboard.press("Control+a")
    page.keyboard.insert_text(text)


def _number(page: Page, label: str) -> int:
    text = page.locator("#progress dl div", has=page.get_by_text(label, exact=True)).locator("dd").inner_text()
    return int(re.sub(r"\D", "", text) or 0)


def test_from_the_door_to_a_repaired_mart(desk: Desk, api: Api) -> None:
    fill_many(api, 80_000)
    page = desk.open("/")
    _sign_in(page, api)
    _create_with_a_mistake(page)
    _run_and_watch(page, api)
    _pause_and_resume(page, api)
    _break_compare_and_repair(page, api)
    _read_the_log(page)


def _sign_in(page: Page, api: Api) -> None:
    page.get_by_label("Token").fill("vtr_wrong")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_contain_text("unknown or revoked")
    page.get_by_label("Token").fill(api.tokens["admin"])
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("heading", name="No pipelines yet")).to_be_visible()


def _create_with_a_mistake(page: Page) -> None:
    page.get_by_role("link", name="Write the first one").click()
    page.locator("#f-name").fill(NAME)
    page.get_by_label("target_table").fill(f"analytics.{NAME}")
    page.locator("#f-key").fill("id")
    type_sql(page, "SELECT n AS id, md5(n::text) AS word FROM generate_serie(1, 10) AS n")
    checked = page.locator("#checked")
    expect(checked).to_contain_text("Not valid yet")
    expect(checked).to_contain_text("generate_serie")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("alert")).to_contain_text("It was not saved")
    type_sql(page, MANY)
    expect(checked).to_contain_text("Valid")
    expect(checked.get_by_role("table")).to_contain_text("word")
    expect(checked).to_contain_text('CREATE TABLE "analytics"."numbers"')
    expect(checked).to_contain_text("a full load: the next run creates analytics.numbers and loads it")
    page.get_by_role("button", name="Preview").click()
    expect(page.locator("#preview")).to_contain_text("c4ca4238a0b923820dcc509a6f75849b")
    page.get_by_text("Batch", exact=True).click()
    page.get_by_label("batch_size").fill("50")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("heading", name=NAME)).to_be_visible()
    expect(page.locator("#head")).to_contain_text("idle")


def _run_and_watch(page: Page, api: Api) -> None:
    page.get_by_role("button", name="Run", exact=True).click()
    expect(page.locator("#toasts")).to_contain_text("numbers: run requested")
    expect(page.locator("#head h1")).to_contain_text("running")
    expect(page.locator("#announcer")).to_have_text("numbers: running")
    expect(page.locator("#progress progress[value]")).to_be_visible()
    expect(page.locator("#progress")).to_contain_text("Left")  # once the pace has been measured
    seen = _number(page, "Written")
    page.wait_for_function(
        "seen => Number([...document.querySelectorAll('#progress dl div')].find(d => d.querySelector('dt')"
        ".textContent === 'Written').querySelector('dd').textContent.replace(/\\D/g, '')) > seen",
        arg=seen,
    )


def _pause_and_resume(page: Page, api: Api) -> None:
    page.get_by_role("button", name="Pause").click()
    expect(page.locator("#head h1")).to_contain_text("paused")
    [(loaded,)] = api.lab.sql("SELECT count(*) FROM analytics.numbers")
    assert 0 < loaded < 80_000
    page.get_by_role("button", name="Resume").click()
    api.wait_for(NAME, "IDLE", seconds=60)
    expect(page.locator("#head h1")).to_contain_text("idle")
    expect(page.locator("#progress")).to_contain_text("succeeded")
    assert api.lab.sql("SELECT count(*) FROM analytics.numbers") == [(80_000,)]


def _break_compare_and_repair(page: Page, api: Api) -> None:
    api.lab.sql("UPDATE analytics.numbers SET word = 'broken' WHERE id = 7")
    api.lab.sql("DELETE FROM analytics.numbers WHERE id = 8")
    page.get_by_role("navigation", name="Of this pipeline").get_by_role("link", name="Reconcile").click()
    expect(page.locator("#report")).to_contain_text("Never compared")
    page.get_by_role("button", name="Compare now").click()
    report = page.locator("#report")
    expect(report).to_contain_text("They differ")
    expect(report.get_by_role("group", name="Different")).to_contain_text("broken")
    expect(report.get_by_role("group", name="Missing in the mart")).to_contain_text("8")
    page.get_by_role("button", name="Repair").click()
    expect(page.locator("#toasts")).to_contain_text("repair requested; then it is compared again")
    expect(report).to_contain_text("After the repair: Equal")
    expect(page.locator("#head h1")).to_contain_text("idle")
    assert api.lab.sql("SELECT count(*) FROM analytics.numbers WHERE word = 'broken'") == [(0,)]


def _read_the_log(page: Page) -> None:
    page.get_by_role("link", name="Overview").click()
    page.locator("#runs tbody a").first.click()
    expect(page.get_by_role("heading", name="Timeline")).to_be_visible()
    expect(page.locator("#head")).to_contain_text("repair")
    log = page.locator("#log")
    expect(log).to_contain_text("compared")
    page.get_by_role("searchbox", name="Search the log").fill("compared")
    expect(log.locator("li")).to_have_count(1)
    with page.expect_download() as download:
        page.get_by_role("link", name="Download").click()
    assert "compared" in download.value.path().read_text()


def test_a_one_time_link_signs_in_and_leaves_no_trace(desk: Desk, api: Api) -> None:
    secret = SessionRepo(api.lab.db).link(api.tokens["operator"])
    page = desk.open(f"/sign-in#{secret}")
    page.wait_for_url("**/console/")
    expect(page.locator("header")).to_contain_text("operator")
    assert not [url for url in desk.asked if secret in url.partition("#")[0]]


def test_an_error_is_shown_with_its_remedy(desk: Desk, api: Api) -> None:
    api.lab.add(name="wrong", source_query="SELECT 1 AS id, 1 AS id2", target_table="nowhere.wrong", key=["id"])
    desk.sign_in()
    page = desk.open("/pipelines/wrong")
    page.get_by_role("button", name="Run", exact=True).click()
    expect(page.locator("#head h1")).to_contain_text("failed")
    expect(page.locator("#progress .wrong .remedy")).to_contain_text("ALLOWED_TARGET_TABLES")
    page.locator("#runs tbody a").first.click()
    expect(page.locator("#head .wrong")).to_contain_text("nowhere.wrong")

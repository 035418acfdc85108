"""Every page for everybody: no axe violation in either theme, light enough, in both languages, by keyboard alone."""

import re
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import Desk, many
from tests.browser.overflow import overflow
from tests.contract.server import Api
from tests.patience import patient

AXE = (Path(__file__).parent / "vendor" / "axe.js").read_text()
LONG = "average_rating_by_genre_country_and_decade"
PAGES = (
    "/sign-in",
    "/",
    "/?group=team",
    "/?q=no-such-thing",
    "/alerts",
    "/pipelines/films",
    f"/pipelines/{LONG}",
    "/pipelines/films/config",
    "/pipelines/films/data",
    "/pipelines/films/reconcile",
    "/pipelines/films/lineage",
    "/pipelines/changed",
    "/pipelines/broken",
    "/pipelines/films/edit",
    "/new",
    "/runs/1",
    "/system",
    "/lineage",
    "/sources",
    "/sources/warehouse",
    "/nowhere",
)
# As a runner would leave it: destinations, and deliveries that went in each way.
TOLD = """
    INSERT INTO etl.etl_destinations (name, format, place, labels, events) VALUES
        ('ops', 'slack', 'https://hooks.slack.com', '{team:search}', '{failed,outage}'),
        ('mail', 'email', 'data-platform-on-call@example.org, somebody-else-entirely@example.org', '{}', '{}');
    INSERT INTO etl.etl_alerts (id, pipeline_id, event, details, status, finished_at)
        SELECT gen_random_uuid(), id, 'failed', '{}', 'GIVEN_UP', now() FROM etl.etl_pipelines;
    INSERT INTO etl.etl_deliveries
        (alert_id, pipeline_id, destination, event, pipeline, status, attempts, last_error, answer, took_ms,
         finished_at)
        SELECT a.id, p.id, d, 'failed', p.name, s, 3, CASE WHEN s <> 'DELIVERED' THEN 'the webhook answered 404' END,
               '404 ' || repeat('no_such_webhook ', 20), 41.5, CASE WHEN s <> 'PENDING' THEN now() END
        FROM etl.etl_alerts a JOIN etl.etl_pipelines p ON p.id = a.pipeline_id,
             (VALUES ('ops', 'GIVEN_UP'), ('mail', 'DELIVERED'), ('gone', 'PENDING')) AS v (d, s);
    INSERT INTO etl.etl_deliveries (destination, event, status, attempts, answer, took_ms, finished_at)
        VALUES ('mail', 'test', 'DELIVERED', 1, '250 2.0.0 Ok: queued as 4f5g6h', 120, now())
"""
MOST_BYTES, EDITOR_BYTES = 150_000, 160_000  # an editor that completes is heavier, and kept for ever
# What came over the wire for a page, compressed, with its headers; kept files count as if they were new.
WEIGHT = """() => [...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource")]
    .filter(e => !e.name.includes("/live/")).reduce((sum, e) => sum + e.encodedBodySize + 300, 0)"""
PRESSED = "main button:not(#changes button), main input[type=checkbox]:not(#follow), main a[href$=edit]"  # but to look
QUIET = """() => !document.querySelector('.htmx-request')
    && !/(asking|checking|спрашива|проверя).* …/.test(document.body.innerText)"""


@pytest.fixture(scope="module")
def filled(api: Api) -> Api:
    """Pipelines that ran, failed, rest, and were compared."""
    api.create(keep_changes=5)
    changed = "SELECT f.id AS film_id, f.title, f.modified FROM content.film_work f"
    incremental = {"mode": "incremental", "incremental_key": "modified", "incremental_id_key": "film_id"}
    api.create("changed", source_query=changed, **incremental)
    api.lab.add(name="broken", source_query="SELECT 1 AS id", target_table="nowhere.x", key=["id"])
    api.create(LONG, target_table=f"analytics.{LONG}")
    for name in ("films", "changed", "broken", "films"):
        api.post(f"/pipelines/{name}/run")
        api.wait_for(name, "IDLE", "FAILED")
    api.lab.sql("UPDATE content.film_work SET title = 'A title of some length, with words' WHERE type = 'movie'")
    api.post("/pipelines/films/run")
    api.wait_for("films", "IDLE")
    api.lab.sql("UPDATE analytics.films SET title = 'x' WHERE film_id::text < '2'")
    api.post("/pipelines/films/reconcile")
    api.patch("films", {"batch_size": 77, "labels": ["team:search", "tier:1"], "freshness_limit": "1d"})
    api.patch("changed", {"labels": ["team:the-one-with-a-long-name"]})
    api.lab.sql(TOLD)
    return api


def violations(page: Page, only: list[str] | None = None) -> list[str]:
    """What axe has to say about the page as it is shown now."""
    page.evaluate(AXE)
    rules = only or ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
    found: dict[str, Any] = page.evaluate(
        "rules => axe.run(document, {runOnly: rules, resultTypes: ['violations']})", rules
    )
    return [f"{v['id']}: {node['html'][:160]}" for v in found["violations"] for node in v["nodes"]]


@pytest.mark.long
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_page_is_open_to_all_and_light(filled: Api, browser: Browser, theme: Any) -> None:
    with browser.new_context(color_scheme=theme) as context:
        desk = Desk(filled, context)
        desk.sign_in()
        only = ["color-contrast"] if theme == "dark" else None  # nothing else differs between the themes
        found = {path: _faults(desk, path, only) for path in PAGES}
        desk.check()
    assert {path: said for path, said in found.items() if said} == {}


def _faults(desk: Desk, path: str, only: list[str] | None) -> list[str]:
    page = desk.open(path)
    page.set_viewport_size({"width": 1280, "height": 860})
    _settle(page)
    found = violations(page, only)
    weight = page.evaluate(WEIGHT)
    if not 5_000 < weight < (EDITOR_BYTES if path.endswith(("/edit", "/new")) else MOST_BYTES):
        found.append(f"{weight} bytes")
    page.close()
    return found


def _settle(page: Page) -> None:
    """Until what is asked for after the page is there has come."""
    page.wait_for_function(QUIET)


@pytest.mark.long
def test_every_page_fits_in_both_languages_themes_and_widths(filled: Api, browser: Browser) -> None:
    found: list[str] = []
    for language in ("en-GB", "ru-RU"):
        with browser.new_context(locale=language) as context:
            desk = Desk(filled, context)
            desk.sign_in()
            for path in PAGES:
                page = desk.open(path)
                _settle(page)
                for theme, width in product(("light", "dark"), (1280, 390)):
                    page.emulate_media(color_scheme=theme)  # type: ignore[arg-type]
                    page.set_viewport_size({"width": width, "height": 860})
                    found += [f"{path} {language} {theme} {width}: {said}" for said in overflow(page)]
                page.close()
    assert not found, "\n".join(found)


def test_a_source_is_tested_by_its_button(filled: Api, desk: Desk) -> None:
    desk.sign_in("operator")
    page = desk.open("/sources")
    page.get_by_role("link", name="warehouse").click()
    expect(page.locator("#look")).to_contain_text("live by trigger")
    filled.lab.sql("CREATE TABLE content.made_meanwhile (id int PRIMARY KEY, said text)")
    page.get_by_role("button", name="Test").click()
    expect(page.locator("#look")).to_contain_text("content.made_meanwhile")
    filled.lab.sql("DROP TABLE content.made_meanwhile")


def test_a_node_of_the_lineage_leads_to_its_columns(filled: Api, desk: Desk) -> None:
    desk.sign_in("viewer")
    page = desk.open("/lineage")
    page.locator('[data-node="content.film_work"]').focus()
    page.keyboard.press("Enter")
    expect(page.locator("#t-columns-of")).to_be_focused()
    expect(page.locator("#columns-of")).to_contain_text("analytics.films.title")
    page.locator('[data-node="analytics.films"]').click()
    expect(page.locator("#columns-of")).to_contain_text("content.film_work.title")
    assert violations(page) == []
    page.set_viewport_size({"width": 390, "height": 844})
    assert overflow(page) == []


def test_what_is_in_the_way_of_a_capture_stays_beside_its_form(filled: Api, desk: Desk) -> None:
    desk.sign_in("admin")
    page = desk.open("/sources/warehouse")
    page.get_by_role("textbox", name="Tables").fill("content.film_work")
    page.get_by_role("button", name="Install …").click()
    expect(page.locator("#capture-plan .wrong")).to_contain_text("content.film_work belongs to")
    expect(page.locator("#capture-plan .remedy")).to_be_visible()
    desk.check()


def test_axe_finds_nothing_in_an_open_menu_or_the_help_on_a_phone(filled: Api, browser: Browser) -> None:
    with browser.new_context(viewport={"width": 390, "height": 844}) as context:
        desk = Desk(filled, context)
        desk.sign_in()
        page = desk.open("/pipelines/films")
        page.locator("#head summary").click()
        assert violations(page) == []
        page.locator("header summary").click()
        page.get_by_role("button", name="Keyboard").click()
        expect(page.get_by_role("dialog")).to_be_visible()
        assert violations(page) == []


def test_both_languages_by_the_browser_and_by_the_switch(filled: Api, browser: Browser) -> None:
    with browser.new_context(locale="ru-RU") as context:
        desk = Desk(filled, context)
        desk.sign_in()
        page = desk.open("/")
        expect(page.get_by_role("heading", name="Пайплайны")).to_be_visible()
        expect(page.locator("time").first).to_contain_text("назад")
        for path in ("/pipelines/films", "/pipelines/films/config", "/runs/1", "/system", "/new"):
            page.goto(f"{filled.url}/console{path}")
            english = page.locator("main").get_by_text(re.compile(r"^(Run|Save|Pause|Status|Log|Versions|Runners)$"))
            expect(english).to_have_count(0)
        page.goto(f"{filled.url}/console/")
        page.locator("header summary").click()
        page.get_by_label("Язык").select_option("en")
        expect(page.get_by_role("heading", name="Pipelines")).to_be_visible()
        assert desk.open("/").locator("html").get_attribute("lang") == "en"
        desk.check()


def test_both_themes_by_the_system_and_by_the_switch(filled: Api, desk: Desk) -> None:
    desk.sign_in()
    page = desk.open("/")
    background = "getComputedStyle(document.documentElement).backgroundColor"
    light = page.evaluate(background)
    page.emulate_media(color_scheme="dark")
    dark = page.evaluate(background)
    assert dark != light
    page.locator("header summary").click()
    page.get_by_label("Theme").select_option("light")
    assert page.evaluate(background) == light
    page.reload()
    assert page.evaluate(background) == light


def test_times_are_written_as_one_likes_them(filled: Api, desk: Desk) -> None:
    desk.sign_in()
    page = desk.open("/pipelines/films")
    time = page.locator("#runs time").first
    expect(time).to_contain_text("ago")
    page.locator("header summary").click()
    page.get_by_label("Times").select_option("utc")
    expect(time).to_have_text(re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC"))
    page.reload()
    expect(time).to_have_text(re.compile(r"UTC$"))


def test_filters_work_as_one_types_and_stay_in_the_address(filled: Api, desk: Desk) -> None:
    desk.sign_in()
    page = desk.open("/")
    page.get_by_role("searchbox").fill("chang")
    expect(page.locator("[data-row]")).to_have_count(1)
    assert "q=chang" in page.url
    page.get_by_role("link", name="Status").click()
    assert "q=chang" in page.url
    assert "sort=status" in page.url
    page.reload()
    expect(page.locator("[data-row]")).to_have_text(["changed"])
    page.goto(f"{filled.url}/console/?q=zzz")
    expect(page.get_by_role("heading", name="Nothing matches")).to_be_visible()


def test_viewers_look_and_press_nothing(filled: Api, desk: Desk) -> None:
    desk.sign_in("viewer")
    page = desk.open("/")
    expect(page.locator("[data-row]").first).to_be_visible()
    for path in ("/", "/pipelines/films", "/pipelines/films/reconcile", "/runs/1", "/system", "/sources"):
        page.goto(f"{filled.url}/console{path}")
        assert page.locator(PRESSED).count() == 0
    page.keyboard.press("r")
    page.goto(f"{filled.url}/console/new")
    expect(page.locator("main")).to_contain_text("this needs the role admin")


def test_several_are_paused_and_resumed_at_once(filled: Api, desk: Desk) -> None:
    desk.sign_in("operator")
    page = desk.open("/")
    for name in ("films", "changed"):
        page.get_by_label(f"Select {name}").check()
    idle = page.locator("tbody .status.is-IDLE").count()
    bar = page.get_by_role("toolbar")
    expect(bar).to_contain_text("2 selected")
    bar.get_by_role("button", name="Pause").click()
    expect(page.locator("#toasts")).to_contain_text("Done: 2 of 2")
    expect(page.locator("tbody .status.is-PAUSED")).to_have_count(2)
    expect(page.get_by_label("Select films")).to_be_checked()
    bar.get_by_role("button", name="Run").click()
    expect(page.locator("tbody .status.is-IDLE")).to_have_count(idle)


def test_two_who_edit_at_once_see_both_versions(filled: Api, desk: Desk) -> None:
    desk.sign_in()
    mine = desk.open("/pipelines/changed/edit")
    assert filled.patch("changed", {"description": "theirs"}).status_code == 200
    mine.get_by_label("description").fill("mine")
    mine.get_by_role("button", name="Save").click()
    conflict = mine.get_by_role("alert")
    expect(conflict).to_contain_text("Somebody else has changed it meanwhile")
    expect(conflict).to_contain_text("theirs → mine")
    expect(mine.get_by_label("description")).to_have_value("mine")
    assert filled.get("/pipelines/changed")["config"]["description"] == "theirs"
    mine.get_by_role("button", name="Save").click()
    expect(mine.locator("main")).to_contain_text("Versions")
    assert filled.get("/pipelines/changed")["config"]["description"] == "mine"


def test_the_keyboard_alone_can_do_it(filled: Api, desk: Desk) -> None:
    many(filled, "keys", rows=100_000, batch_size=50)
    page = desk.open("/")
    expect(page.get_by_label("Token")).to_be_focused()
    page.keyboard.type(filled.tokens["admin"])
    page.keyboard.press("Enter")
    _on(page, "Pipelines")
    _filter_and_run(page)
    _pause_and_look(page)
    _help(page)
    _edit(page, filled)


def _on(page: Page, title: str) -> None:
    """A page with its scripts at work: keys that come before are lost."""
    expect(page.get_by_role("heading", name=title, exact=False)).to_be_visible()
    page.wait_for_load_state("load")


def _filter_and_run(page: Page) -> None:
    page.keyboard.press("/")
    page.keyboard.type("keys")
    expect(page.locator("[data-row]")).to_have_count(1)
    expect(page).to_have_url(re.compile("q=keys"))  # and not the answer to the first letters
    expect(page.locator(".htmx-request, .htmx-swapping, .htmx-settling")).to_have_count(0)
    _leave_field(page)
    page.keyboard.press("j")
    expect(page.locator("[data-row]")).to_be_focused()
    page.keyboard.press("r")
    expect(page.locator("tbody .status")).to_contain_text("running")


def _leave_field(page: Page) -> None:
    for _ in range(5):  # past the four lists
        page.keyboard.press("Tab")


def _pause_and_look(page: Page) -> None:
    page.keyboard.press("j")
    page.keyboard.press("p")
    expect(page.locator("tbody .status")).to_contain_text("paused")
    page.keyboard.press("x")
    expect(page.get_by_role("toolbar")).to_contain_text("1 selected")
    page.keyboard.press("k")
    page.keyboard.press("Enter")
    _on(page, "keys")


def _help(page: Page) -> None:
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_be_hidden()


def _edit(page: Page, api: Api) -> None:
    page.keyboard.press("e")
    _on(page, "Edit keys")
    page.get_by_label("description").focus()
    page.keyboard.type("by keyboard")
    page.keyboard.press("Tab")
    expect(page.locator("#f-labels")).to_be_focused()
    page.keyboard.press("Tab")
    expect(page.locator("#f-source")).to_be_focused()
    page.keyboard.press("Tab")
    expect(page.locator('[data-for="f-source_query"]')).to_be_focused()
    page.keyboard.press("Tab")  # Tab leaves the code, as any field
    expect(page.locator(".of-source summary")).to_be_focused()
    page.keyboard.press("Tab")
    expect(page.get_by_label("target_table")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_contain_text("Versions")
    assert api.get("/pipelines/keys")["config"]["description"] == "by keyboard"


def _tabs(desk: Desk, count: int) -> Iterator[Page]:
    for _ in range(count):
        yield desk.open("/?q=films")


@pytest.mark.long
def test_eight_tabs_stay_alive_at_once(filled: Api, desk: Desk) -> None:
    """A browser has six connections to a server: streams must leave some for the rest."""
    desk.sign_in()
    pages = list(_tabs(desk, 8))
    for name, word in (("disable", "disabled"), ("enable", "idle")):
        filled.post(f"/pipelines/films/{name}")
        for page in pages:
            expect(page.locator("tbody .status")).to_contain_text(word)
    streams = sum(page.evaluate("live.source !== null") for page in pages)
    assert 1 <= streams <= 4
    for page in pages:
        page.goto(f"{filled.url}/console/system", timeout=1000 * patient(5))


def test_a_hidden_tab_has_no_stream_and_catches_up_when_it_is_seen(filled: Api, desk: Desk) -> None:
    desk.sign_in()
    page = desk.open("/?q=films")
    page.wait_for_function("() => live.source !== null")
    _hide(page, True)
    assert page.evaluate("live.source") is None
    filled.post("/pipelines/films/disable")
    _hide(page, False)
    expect(page.locator("tbody .status")).to_contain_text("disabled")
    filled.post("/pipelines/films/enable")
    expect(page.locator("tbody .status")).to_contain_text("idle")


def _hide(page: Page, hidden: bool) -> None:
    page.evaluate(
        "hidden => { Object.defineProperty(document, 'hidden', {value: hidden, configurable: true});"
        " document.dispatchEvent(new Event('visibilitychange')) }",
        hidden,
    )


def test_what_happens_is_announced_once_and_counters_never(filled: Api, desk: Desk) -> None:
    desk.sign_in()
    page = desk.open("/pipelines/films")
    page.wait_for_function("() => live.source !== null")
    filled.post("/pipelines/films/pause")
    expect(page.locator("#announcer")).to_have_text("films: paused")
    regions = page.locator("[aria-live], [role=status], [role=alert]")
    assert regions.locator("#progress, #runs, #checkpoint, progress, time").count() == 0
    assert page.locator("#progress").evaluate("e => e.closest('[aria-live], [role=status]')") is None
    filled.post("/pipelines/films/run")
    expect(page.locator("#announcer")).to_have_text("films: idle")

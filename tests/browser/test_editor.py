"""The editor as somebody uses it: tables beside the SELECT, completion, marks, both views; leaving loses nothing."""

import pytest
from playwright.sync_api import Browser, Dialog, Page, Route, expect

from tests.browser.conftest import Desk
from tests.browser.overflow import overflow
from tests.browser.test_journey import type_sql
from tests.browser.test_pages import violations
from tests.contract.server import FILMS, Api

SQL = '[data-for="f-source_query"]'


@pytest.fixture(scope="module")
def filled(api: Api) -> Api:
    api.create()
    api.lab.sql("COMMENT ON COLUMN content.film_work.title IS 'as on the poster'")
    return api


@pytest.fixture
def page(filled: Api, desk: Desk) -> Page:
    desk.sign_in()
    page = desk.open("/new")
    expect(page.locator("#tables [data-table]").first).to_be_visible()
    return page


def _sql(page: Page) -> str:
    return page.locator("#f-source_query").input_value()


def test_tables_are_found_and_inserted_by_pointer_and_by_keyboard(page: Page) -> None:
    type_sql(page, "SELECT ")
    page.get_by_label("Search tables and columns").fill("poster")
    expect(page.locator("#tables [data-table]:visible")).to_have_count(1)
    page.locator("#tables [data-column=title] button").click()
    expect(page.locator(SQL)).to_be_focused()
    page.get_by_label("Search tables and columns").fill("film_work")
    page.locator("#tables [data-table=film_work] summary").click()
    page.locator("#tables [data-table=film_work] [data-column=id] button").press("Enter")
    expect(page.locator("#announcer")).to_have_text("id")
    assert _sql(page) == "SELECT title, id"
    page.keyboard.press("Shift+Tab")
    type_sql(page, FILMS)
    page.locator("#tables [data-column=type] button").press("Enter")
    assert _sql(page) == FILMS + ", f.type"  # under the name by which the SELECT reads its table
    page.get_by_label("Search tables and columns").fill("no such thing")
    expect(page.locator("#tables")).to_contain_text("No table and no column has this")


def test_columns_tables_and_keywords_are_completed(page: Page) -> None:
    type_sql(page, "SELECT f. FROM content.film_work f")
    page.keyboard.press("Home")
    for _ in range(len("SELECT f.")):
        page.keyboard.press("ArrowRight")
    page.keyboard.type("tit")
    options = page.get_by_role("listbox")
    expect(options).to_contain_text("title")
    assert violations(page) == []
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    assert _sql(page) == "SELECT f.title FROM content.film_work f"
    type_sql(page, "SELECT 1 FROM ")
    page.keyboard.type("content.genr")
    expect(options).to_contain_text("genre_film_work")
    page.keyboard.press("Escape")
    expect(options).to_have_count(0)
    page.keyboard.press("Enter")  # nothing was chosen, so it is a new line
    page.keyboard.type("wher")
    expect(options).to_contain_text("WHERE")
    assert _sql(page) == "SELECT 1 FROM content.genr\nwher"


def test_what_is_wrong_is_underlined_where_it_is_and_led_to(page: Page) -> None:
    type_sql(page, "SELECT '😀' AS a,\n       f.titel\nFROM content.film_work f")
    page.locator("#f-name").fill("fresh")
    wrong = page.locator(".cm-wrong")
    expect(wrong).to_have_text("f.titel")
    page.get_by_role("button", name="line 2, column 8").click()
    expect(page.locator(SQL)).to_be_focused()
    page.keyboard.press("Control+Shift+ArrowRight")
    page.keyboard.press("Delete")
    page.keyboard.press("Control+a")
    type_sql(page, FILMS)
    expect(wrong).to_have_count(0)


def test_only_what_matters_for_the_mode_is_seen(page: Page) -> None:
    cursor, impact = page.locator(".for-incremental_key"), page.locator(".for-impact")
    expect(cursor).to_be_hidden()
    page.get_by_label("mode").select_option("incremental")
    expect(cursor).to_be_visible()
    page.locator("#f-incremental_key").fill("modified")
    page.get_by_label("mode").select_option("live")
    expect(impact).to_be_visible()
    expect(cursor).to_be_visible()  # something stands in it, and would be saved
    zone = page.get_by_label("Time zone")
    expect(zone).to_be_hidden()
    page.get_by_label("schedule_interval").fill("0 3 * * *")
    expect(zone).to_be_visible()
    assert page.locator("#zones option[value='Europe/Moscow']").count() == 1


def test_what_is_taken_is_said_while_one_types(page: Page) -> None:
    page.locator("#f-name").fill("films")
    expect(page.locator("#e-name")).to_contain_text("is taken by pipeline 'films'")
    page.get_by_label("target_table").fill("analytics.films")
    expect(page.locator("#e-target_table")).to_contain_text("is taken by pipeline 'films'")
    page.locator("#f-name").fill("fresh")
    expect(page.locator("#e-name")).to_have_text("")


def test_what_is_not_saved_is_not_left_without_a_question(page: Page) -> None:
    asked: list[str] = []

    def answer(dialog: Dialog) -> None:
        asked.append(dialog.type)
        dialog.dismiss() if len(asked) == 1 else dialog.accept()

    page.on("dialog", answer)
    page.locator("#f-name").fill("fresh")
    page.get_by_role("button", name="As YAML").click()
    expect(page.locator('[data-for="f-yaml"]')).to_contain_text("name: fresh")
    page.get_by_role("link", name="Cancel").click()
    expect(page.get_by_role("heading", name="New pipeline")).to_be_visible()
    page.get_by_role("link", name="Cancel").click()
    expect(page.get_by_role("heading", name="Pipelines", exact=True)).to_be_visible()
    assert asked == ["beforeunload", "beforeunload"]


def test_a_check_that_comes_due_meanwhile_does_not_break_off_the_change_of_view(page: Page) -> None:
    expect(page.locator("#checked .verdict")).to_be_visible()
    held: list[Route] = []
    page.route("**/editor/view", lambda route: held.append(route))
    page.clock.install()
    page.locator("#f-name").fill("typed_just_now")
    with page.expect_request("**/editor/view"):
        page.get_by_role("button", name="As YAML").click()
    page.clock.run_for(1000)  # the check of what was typed
    held[0].continue_()
    expect(page.locator('[data-for="f-yaml"]')).to_contain_text("name: typed_just_now")


def test_as_yaml_and_back_and_saved(page: Page, filled: Api) -> None:
    type_sql(page, FILMS)
    page.locator("#f-name").fill("both_ways")
    page.locator("#f-key").fill("film_id")
    page.get_by_label("target_table").fill("analytics.both_ways")
    page.get_by_role("button", name="As YAML").click()
    yaml = page.locator("#f-yaml")
    expect(page.locator('[data-for="f-yaml"]')).to_contain_text("name: both_ways")
    expect(page.locator("#checked")).to_contain_text("Valid")
    page.locator('[data-for="f-yaml"]').press("Control+End")
    page.keyboard.insert_text("batch_size: 7\n")
    assert yaml.input_value().endswith("batch_size: 7\n")
    page.get_by_role("button", name="As fields").click()
    expect(page.get_by_label("batch_size")).to_have_value("7")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("heading", name="both_ways")).to_be_visible()
    assert filled.get("/pipelines/both_ways")["config"]["batch_size"] == 7


def test_the_editor_at_work_fits_a_phone_in_russian(filled: Api, browser: Browser) -> None:
    with browser.new_context(locale="ru-RU", viewport={"width": 390, "height": 844}, color_scheme="dark") as context:
        desk = Desk(filled, context)
        desk.sign_in()
        page = desk.open("/pipelines/films/edit")
        page.get_by_label("Искать таблицы и столбцы").fill("poster")
        page.get_by_label("mode").select_option("live")
        type_sql(page, "SELECT f.id AS film_id, f.titel FROM content.film_work f")
        expect(page.locator(".cm-wrong")).to_be_visible()
        assert overflow(page) == []
        assert violations(page) == []
        desk.check()

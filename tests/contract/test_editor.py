"""What the editor asks over plain HTTP: places of errors, what is taken, both views, copies and earlier versions."""

import html
import json
import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.contract.server import FILMS, Api
from tests.contract.test_console import sign_in

FORM = {"name": "fresh", "target_table": "analytics.fresh", "key": "film_id", "mode": "full", "source": "warehouse"}


@pytest.fixture
def console(api: Api) -> Iterator[httpx.Client]:
    with sign_in(api, "admin") as client:
        yield client


def _marks(said: str) -> list[dict[str, Any]]:
    found = re.search(r'data-marks="([^"]*)"', said)
    assert found
    return list(json.loads(html.unescape(found[1])))


def _check(console: httpx.Client, **form: str) -> str:
    return console.post("/editor/check", data=FORM | form).text


@pytest.mark.parametrize(
    ("query", "wrong"),
    [
        ("SELECT f.id AS film_id, f.titel FROM content.film_work f", "f.titel"),
        ("\n\n  SELECT '😀é' AS film_id, f.titel\nFROM content.film_work f;\n", "f.titel"),
        ("-- a comment, é\nSELECT f.id AS film_id\nFROM content.film_wrk f", "content.film_wrk"),
        ("SELECT f.id AS film_id, lenght(f.title) AS n FROM content.film_work f", "lenght"),
        ("SELECT f.id AS film_id FROM content.film_work f WHEREE", "WHEREE"),
        ("SELECT f.id AS film_id FROM film_work f", "film_work"),
        ("SELECT f.id = 1 AS film_id FROM content.film_work f", "= 1"),
    ],
)
def test_what_is_wrong_is_marked_at_its_place(console: httpx.Client, query: str, wrong: str) -> None:
    said = _check(console, source_query=query)
    assert [mark["at"] for mark in _marks(said)] == [query.index(wrong) + 1]
    line, column = query[: query.index(wrong)].count("\n") + 1, len(query[: query.index(wrong)].split("\n")[-1]) + 1
    assert f"line {line}, column {column}" in said


def test_what_is_right_is_not_marked_and_what_has_no_place_neither(console: httpx.Client) -> None:
    assert _marks(_check(console, source_query=FILMS)) == []
    twice = "SELECT 1 AS film_id FROM content.film_work f"
    assert "gives a key twice" in (said := _check(console, source_query=twice))
    assert _marks(said) == []


def test_the_api_tells_the_place_too(api: Api) -> None:
    body = {"name": "a", "target_table": "analytics.a", "key": ["x"]}
    body["source_query"] = " SELECT x FROM content.film_work"
    [wrong] = [f for f in api.post("/pipelines", body).json()["findings"] if f["level"] == "error"]
    assert wrong["data"] | {"at": 9, "line": 1, "column": 9} == wrong["data"]


def test_a_name_and_a_target_that_are_taken_are_said_at_their_fields(console: httpx.Client, api: Api) -> None:
    stored = api.create()
    taken = _check(console, name="films", target_table="analytics.films", source_query=FILMS)
    for field in ("name", "target_table"):
        at_field = re.search(rf'id="e-{field}" hx-swap-oob="true">(.*?)</ul>', taken, re.DOTALL)
        assert at_field
        assert "is taken by pipeline &#39;films&#39;" in at_field[1]
    own = _check(console, name="films", target_table="analytics.films", source_query=FILMS, of=stored["id"])
    assert "is taken" not in own
    plan = "- {order_index: 1, task_type: SQL, body: SELECT 1 AS id, target_table: analytics.films}"
    assert "is taken" in _check(console, tasks=plan, target_table="")


def test_the_other_view_has_the_same_and_unreadable_text_stays(console: httpx.Client) -> None:
    form = FORM | {"source_query": FILMS, "schedule_interval": "0 3 * * *", "zone": "Europe/Moscow"}
    as_yaml = html.unescape(console.post("/editor/view", data=form).text)
    assert "schedule_interval: TZ=Europe/Moscow 0 3 * * *" in as_yaml
    text = re.search(r"<textarea[^>]*>\n(.*?)</textarea>", as_yaml, re.DOTALL)
    assert text
    back = html.unescape(console.post("/editor/view", data={"yaml": text[1]}).text)
    for value in ('value="fresh"', 'value="analytics.fresh"', 'value="0 3 * * *"', 'value="Europe/Moscow"', FILMS):
        assert value in back
    for wrong, said in (("name: [", "is no YAML"), ("nme: x", "a pipeline has no field nme")):
        kept = html.unescape(console.post("/editor/view", data={"yaml": wrong}).text)
        assert said in kept
        assert f">\n{wrong}</textarea>" in kept


def test_what_is_written_as_yaml_is_stored(console: httpx.Client, api: Api) -> None:
    text = f"name: typed\nsource_query: {FILMS}\ntarget_table: analytics.typed\nkey: [film_id]\nbatch_size: 7\n"
    assert console.post("/new", data={"yaml": text}).status_code == 303
    stored = api.get("/pipelines/typed")
    assert stored["config"]["batch_size"] == 7
    less = text.replace("batch_size: 7\n", "")
    sent = {"yaml": less, "version": str(stored["version"]), "of": stored["id"]}
    assert console.post("/pipelines/typed/edit", data=sent).status_code == 303
    assert api.get("/pipelines/typed")["config"]["batch_size"] == 5000


def test_a_copy_has_no_name_and_no_target(console: httpx.Client, api: Api) -> None:
    api.create(description="to be copied")
    page = console.get("/new?like=films").text
    assert "A copy of films" in page
    assert 'value="to be copied"' in page
    assert 'id="f-name" name="name" value=""' in page
    assert 'id="f-target_table" name="target_table" value=""' in page


def test_an_earlier_version_is_shown_with_its_difference_and_can_be_had_again(console: httpx.Client, api: Api) -> None:
    api.create(batch_size=11)
    api.patch("films", {"batch_size": 22})
    assert "edit?version=1" in console.get("/pipelines/films/config").text
    page = console.get("/pipelines/films/edit?version=1").text
    assert "Going back to version 1" in page
    assert "22 → 11" in page
    assert 'name="batch_size" value="11"' in page
    assert api.get("/pipelines/films")["config"]["batch_size"] == 22
    assert console.get("/pipelines/films/edit?version=9").status_code == 404


def test_a_default_that_is_not_stored_is_no_difference(console: httpx.Client, api: Api) -> None:
    stored = api.create()
    fields = {"name": "films", "target_table": "analytics.films", "source_query": FILMS, "batch_size": "5000"}
    form = fields | {"enabled": "true", "on_failure": "stop", "of": stored["id"]}
    assert "Nothing differs from what is stored." in _check(console, **form)


def test_the_tables_of_a_source_are_there_with_types_and_comments(console: httpx.Client, api: Api) -> None:
    api.lab.sql("COMMENT ON COLUMN content.film_work.title IS 'as on the poster'")
    page = console.get("/editor/tables?source=warehouse").text
    assert 'data-table="film_work" data-schema="content"' in page
    assert 'data-column="title" data-type="text" data-text="as on the poster"' in page
    assert console.get("/editor/tables?source=nowhere").status_code == 404


def test_what_a_change_of_each_table_means_is_beside_the_query(console: httpx.Client) -> None:
    said = _check(console, source_query=FILMS, mode="live")
    verdicts = said.partition('id="verdicts"')[2]
    assert "content.film_work" in verdicts
    assert "the rows that carry it" in verdicts


def test_the_documents_of_an_index_are_asked_of_a_runner_by_an_operator(console: httpx.Client, api: Api) -> None:
    api.lab.add(name="searched", source_query=FILMS, target_table="es:films", key=["film_id"])
    assert 'hx-post="/console/pipelines/searched/sample"' in console.get("/pipelines/searched/data").text
    with sign_in(api, "viewer") as viewer:
        page = viewer.get("/pipelines/searched/data").text
        assert "An operator can ask one" in page
        assert "hx-post" not in page

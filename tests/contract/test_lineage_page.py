"""The lineage page: down to columns, both ways."""

from collections.abc import Iterator

import httpx
import pytest

from tests.contract.server import FILMS, serve
from tests.contract.test_console import sign_in
from tests.support import Lab

OVER = "SELECT m.film_id, upper(m.title) AS name FROM analytics.films m"


@pytest.fixture(scope="module")
def console() -> Iterator[httpx.Client]:
    """A mart, one over it, and one over a mart that was never filled."""
    with Lab.open("vitrina_template") as lab:
        lab.configure(allowed_source_schemas=["content", "analytics"])
        lab.run(lab.add(name="films", source_query=FILMS, target_table="analytics.films", key=["film_id"]))
        lab.add(name="over", source_query=OVER, target_table="analytics.over", key=["film_id"])
        lost = OVER.replace("analytics.films", "analytics.over")
        lab.add(name="lost", source_query=lost, target_table="analytics.lost", key=["film_id"])
        with serve(lab) as api, sign_in(api, "viewer") as client:
            yield client


def _columns(console: httpx.Client, of: str) -> str:
    return console.get("/lineage/columns", params={"of": of}).text


def test_a_mart_says_where_its_columns_come_from(console: httpx.Client) -> None:
    for of in ("pipeline:films", "analytics.films"):
        page = _columns(console, of)
        assert "content.film_work.title" in page
        assert 'href="/console/pipelines/films"' in page


def test_a_table_says_where_its_columns_go_to(console: httpx.Client) -> None:
    page = _columns(console, "content.film_work")
    assert '<th scope="row">title</th><td><code>analytics.films.title</code></td>' in page
    assert '<th scope="row">id</th><td><code>analytics.films.film_id</code></td>' in page


def test_a_mart_that_another_reads_says_both_and_an_error_is_said(console: httpx.Client) -> None:
    page = _columns(console, "analytics.films")
    assert "Computed from" in page
    assert '<th scope="row">title</th><td><code>analytics.over.name</code></td>' in page
    assert "does not exist" in _columns(console, "analytics.lost")
    assert "mart that others read" in console.get("/lineage").text


def test_a_mart_that_was_never_filled_has_no_age(console: httpx.Client) -> None:
    page = console.get("/lineage").text
    assert 'aria-label="mart that others read analytics.films, ' in page
    assert 'aria-label="mart analytics.lost"' in page


def test_what_is_not_in_the_graph_is_not_found(console: httpx.Client) -> None:
    assert console.get("/lineage/columns", params={"of": "nowhere.x"}).status_code == 404

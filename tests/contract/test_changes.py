"""What changed in the last runs, on the console's pages: a few rows before and after, where the pipeline keeps them."""

import pytest

from tests.contract.server import Api
from tests.contract.test_console import sign_in
from vitrina.runner.main import Runner


@pytest.fixture(autouse=True)
def changed(api: Api) -> None:
    """A film that is renamed by the second run."""
    api.create(keep_changes=5)
    _run(api)
    first = "SELECT id FROM content.film_work ORDER BY id LIMIT 1"
    api.lab.sql(f"UPDATE content.film_work SET title = 'renamed <i> ' || now() WHERE id = ({first})")
    _run(api)


def _run(api: Api) -> None:
    api.post("/pipelines/films/run")
    Runner(api.lab.connections).run_once()
    assert api.get("/pipelines/films/status")["last_run"]["status"] == "SUCCESS"


def test_rows_are_shown_before_and_after_when_somebody_asks(api: Api) -> None:
    with sign_in(api, "viewer") as browser:
        page = browser.get("/pipelines/films").text
        assert "What changed in the last runs" in page
        assert "renamed" not in page
        shown = browser.get("/pipelines/films/changes").text
    assert "row changed" in shown
    assert "<td><code>title</code></td>" in shown
    assert "<td>renamed &lt;i&gt; " in shown
    assert "<code>rating</code>" not in shown  # it did not change


def test_a_run_shows_its_own_and_says_how_many_in_its_log(api: Api) -> None:
    [(first,), (second,)] = api.lab.sql("SELECT id FROM etl.etl_runs ORDER BY id")
    with sign_in(api, "viewer") as browser:
        page = browser.get(f"/runs/{second}").text
        assert "What it changed, a few rows" in page
        assert "renamed &lt;i&gt;" in page
        assert "rows=1" in page
        assert "What it changed" not in browser.get(f"/runs/{first}").text


def test_nobody_is_told_of_what_is_not_kept(api: Api) -> None:
    api.create("other", target_table="analytics.other")
    with sign_in(api, "admin") as browser:
        page = browser.get("/pipelines/other/changes").text
    assert "set keep_changes" in page
    assert 'href="/console/pipelines/other/edit#f-keep_changes"' in page

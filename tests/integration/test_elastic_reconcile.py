"""Reconciling an index looks at what it really holds, and a repair puts it right."""

import re
from collections.abc import Iterator

import pytest
from markupsafe import escape

from tests.contract.server import serve
from tests.contract.test_console import sign_in
from tests.elastic import BOTH, Search, open_search
from tests.support import Lab

engines = BOTH


@pytest.fixture
def search(lab: Lab, engine: str, engine_url: str, index_prefix: str) -> Iterator[Search]:
    """A lab that may write to indexes of its own."""
    with open_search(lab, engine_url, index_prefix, engine) as search:
        yield search


def test_an_equal_index_is_equal(search: Search) -> None:
    pipeline = search.add()
    search.lab.run(pipeline)
    report = search.lab.reconcile(pipeline, control_field="rating")
    assert report["equal"]
    assert (report["query_rows"], report["mart_rows"], report["missing"], report["extra"]) == (60, 60, 0, 0)
    assert report["control"]["query"] == report["control"]["mart"]
    assert report["control"]["query"]["min"] is not None


@pytest.mark.scenario(63)
def test_what_was_changed_by_hand_is_shown_and_repaired(search: Search) -> None:
    pipeline = search.add()
    search.lab.run(pipeline)
    ids = sorted(search.documents())
    index = search.name()
    search.http.post(f"/{index}/_update/{ids[0]}", json={"doc": {"title": "by hand"}}).raise_for_status()
    search.http.delete(f"/{index}/_doc/{ids[1]}").raise_for_status()
    search.http.put(f"/{index}/_doc/stranger", json={"title": "stranger"}).raise_for_status()
    report = search.lab.reconcile(pipeline)
    assert (report["equal"], report["missing"], report["extra"], report["different"]) == (False, 1, 1, 1)
    [different] = report["samples"]["different"]
    assert different["key"] == {"film_id": ids[0]}
    assert different["columns"] == {"title": {"query": search.wanted(pipeline)[ids[0]]["title"], "mart": "by hand"}}
    assert report["samples"]["extra"] == [{"key": {"_id": "stranger"}}]
    assert search.lab.run(pipeline)["rows_written"] == 0  # an ordinary run trusts its shadow
    run = search.lab.run(pipeline, repair=True)
    assert (run["status"], run["rows_written"], run["rows_deleted"]) == ("SUCCESS", 2, 1)
    assert search.documents() == search.wanted(pipeline)
    assert search.lab.reconcile(pipeline)["equal"]


def test_a_version_set_by_hand_far_above_ours_is_overtaken_by_a_repair(search: Search) -> None:
    pipeline = search.add()
    search.lab.run(pipeline)
    id_ = min(search.documents())
    far = 2**62
    path = f"/{search.name()}/_doc/{id_}?version={far}&version_type=external"
    search.http.put(path, json={"title": "by hand"}).raise_for_status()
    search.lab.sql("UPDATE content.film_work SET title = 'ours' WHERE id = %s", id_)
    run = search.lab.run(pipeline)
    assert run["status"] == "FAILED"
    assert "somebody else writes" in run["said"]
    assert search.lab.run(pipeline, repair=True)["status"] == "SUCCESS"
    assert search.documents() == search.wanted(pipeline)


@pytest.mark.parametrize("key", [["film_id"], ["film_id", "type"]])
def test_an_index_of_transformed_rows(search: Search, key: list[str]) -> None:
    tasks = [
        {"order_index": 1, "task_type": "SQL", "body": "SELECT id AS film_id, title, type FROM content.film_work"},
        {"order_index": 2, "task_type": "PYTHON", "body": "normalise_title"},
    ]
    pipeline = search.add(key=key, source_query=None, tasks=tasks)
    run = search.lab.run(pipeline)
    assert (run["status"], run["rows_written"]) == ("SUCCESS", 60)
    assert search.lab.reconcile(pipeline)["equal"]
    search.lab.sql("DELETE FROM content.film_work WHERE id IN (SELECT id FROM content.film_work LIMIT 2)")
    report = search.lab.reconcile(pipeline)
    assert (report["extra"], report["missing"]) == (2, 0)


def test_a_runner_tells_the_first_documents_of_an_index_as_they_are(search: Search) -> None:
    pipeline = search.add()
    row = search.lab.answer("preview", pipeline, mart=True)
    assert (row["status"], "does not exist yet" in row["error"]) == ("FAILED", True)
    search.lab.run(pipeline)
    one = min(search.documents())
    search.http.post(f"/{search.name()}/_update/{one}", json={"doc": {"title": "by hand"}}).raise_for_status()
    answer = search.lab.answer("preview", pipeline, mart=True, limit=200)["result"]
    assert {row["_id"]: row["title"] for row in answer["rows"]} == {
        id_: document["title"] for id_, document in search.documents().items()
    }
    assert not answer["more"]
    few = search.lab.answer("preview", pipeline, mart=True, limit=3)["result"]
    assert (len(few["rows"]), few["more"]) == (3, True)


def test_an_operator_sees_them_in_the_console(search: Search) -> None:
    pipeline = search.add()
    search.lab.run(pipeline)
    with serve(search.lab) as api, search.lab.runner(), sign_in(api, "operator") as console:
        page = console.post(f"/pipelines/{pipeline.id}/sample").text
    [id_, *_] = re.findall(r"<td>([0-9a-f-]{36})</td>", page)
    assert escape(search.documents()[id_]["title"]) in page
    assert page.count("<tr>") == 21
    assert "There are more." in page


def test_a_table_is_not_asked_of_a_runner(lab: Lab) -> None:
    films = "SELECT f.id AS film_id, f.title FROM content.film_work f"
    row = lab.answer("preview", lab.add(source_query=films, key=["film_id"]), mart=True)
    assert (row["status"], "is a table" in row["error"]) == ("FAILED", True)

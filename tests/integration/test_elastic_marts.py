"""Marts in a search engine, on the real server: filled, kept equal, rebuilt without anybody noticing."""

from tests.elastic import BOTH, Search

engines = BOTH


def test_an_index_is_filled_and_found_under_its_name(search: Search) -> None:
    pipeline = search.add(batch_size=7)
    run = search.lab.run(pipeline)
    assert (run["status"], run["error"]) == ("SUCCESS", None)
    assert run["rows_written"] == 60
    assert search.documents() == search.wanted(pipeline)
    assert list(search.indexes()) == [search.name("films-000001")]


def test_an_unchanged_rerun_sends_nothing(search: Search) -> None:
    pipeline = search.add()
    search.lab.run(pipeline)
    before = search.get(f"/{search.name()}/_stats/indexing")["_all"]["primaries"]["indexing"]["index_total"]
    run = search.lab.run(pipeline)
    after = search.get(f"/{search.name()}/_stats/indexing")["_all"]["primaries"]["indexing"]["index_total"]
    assert (before, after) == (60, 60)
    assert (run["rows_written"], run["rows_unchanged"]) == (0, 60)


def test_changes_and_deletes_arrive(search: Search) -> None:
    pipeline = search.add(batch_size=5)
    search.lab.run(pipeline)
    search.lab.sql(
        "UPDATE content.film_work SET title = title || '!' WHERE id IN (SELECT id FROM content.film_work LIMIT 3)"
    )
    search.lab.sql("DELETE FROM content.film_work WHERE id IN (SELECT id FROM content.film_work ORDER BY id LIMIT 4)")
    run = search.lab.run(pipeline)
    assert run["status"] == "SUCCESS"
    assert run["rows_deleted"] == 4
    assert search.documents() == search.wanted(pipeline)

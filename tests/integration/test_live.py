"""Live marts on real captures: what changes in the tables arrives in the mart, and nothing else is touched."""

from collections.abc import Iterator

import pytest

from tests.elastic import open_search
from tests.living import Living, living
from tests.support import Lab

CARD = """
    SELECT f.id AS film_id, f.title, f.rating,
           array_agg(DISTINCT g.name ORDER BY g.name) FILTER (WHERE g.name IS NOT NULL) AS genres
    FROM content.film_work f
    LEFT JOIN content.genre_film_work fg ON fg.film_work_id = f.id
    LEFT JOIN content.genre g ON g.id = fg.genre_id
    GROUP BY f.id
"""
AGGREGATE = "SELECT film_id, count(*) AS votes, avg(rating) AS average FROM ugc.ratings GROUP BY film_id"

LIKED = "SELECT id AS film_id, title FROM content.film_work WHERE rating > 5"


@pytest.fixture(params=["wal", "trigger"])
def live(request: pytest.FixtureRequest, lab: Lab) -> Iterator[Living]:
    """The cinema, captured."""
    with living(lab, request.param) as live:
        yield live


@pytest.mark.scenario(36)
def test_a_renamed_genre_refreshes_its_films(live: Living) -> None:
    pipeline = live.add(CARD)
    live.follow(pipeline)
    assert "comparing" in live.events(pipeline)
    live.assert_equal(pipeline)
    live.lab.sql(
        "UPDATE content.genre SET name = name || '!' WHERE id = (SELECT genre_id FROM content.genre_film_work LIMIT 1)"
    )
    touched = live.lab.value(
        "SELECT count(DISTINCT film_work_id) FROM content.genre_film_work"
        " JOIN content.genre g ON g.id = genre_id WHERE g.name LIKE '%!'"
    )
    run = live.follow(pipeline)
    assert "comparing" not in live.events(pipeline)
    assert (run["rows_written"], run["rows_deleted"]) == (touched, 0)
    live.assert_equal(pipeline)


def test_what_is_touched_and_the_same_is_not_written_and_from_the_second_batch_on_not_even_locked(live: Living) -> None:
    pipeline = live.add("SELECT id AS film_id, title FROM content.film_work", batch_size=10)
    live.follow(pipeline)
    lab = live.lab
    written = lab.sql("SELECT film_id, xmin::text FROM analytics.mart ORDER BY film_id")
    lab.sql("UPDATE content.film_work SET rating = coalesce(rating, 0) + 1")
    run = live.follow(pipeline)
    assert (run["rows_read"], run["rows_written"], run["rows_unchanged"]) == (len(written), 0, len(written))
    assert lab.sql("SELECT film_id, xmin::text FROM analytics.mart ORDER BY film_id") == written
    assert lab.value("SELECT count(*) FROM analytics.mart WHERE xmax::text <> '0'") == 10
    lab.sql("UPDATE content.film_work SET title = title || '!'")
    run = live.follow(pipeline)
    assert (run["rows_written"], run["rows_unchanged"]) == (len(written), 0)
    live.assert_equal(pipeline)


@pytest.mark.scenario(32, 36)
def test_foreign_keys_move_links_and_films_are_deleted(live: Living) -> None:
    pipeline = live.add(CARD, batch_size=3)
    live.follow(pipeline)
    lab = live.lab
    lab.sql("DELETE FROM content.genre_film_work WHERE film_work_id IN (SELECT id FROM content.film_work LIMIT 5)")
    lab.sql("DELETE FROM content.film_work WHERE id IN (SELECT id FROM content.film_work ORDER BY id DESC LIMIT 4)")
    lab.sql(
        "UPDATE content.genre_film_work SET film_work_id = (SELECT min(id::text)::uuid FROM content.film_work)"
        " WHERE id IN (SELECT id FROM content.genre_film_work ORDER BY id LIMIT 3)"
    )
    lab.sql("UPDATE content.film_work SET title = 'moved' WHERE rating > 8")
    run = live.follow(pipeline)
    assert "comparing" not in live.events(pipeline)
    assert run["rows_deleted"] == 4
    live.assert_equal(pipeline)


def test_a_new_rating_refreshes_one_average(live: Living) -> None:
    pipeline = live.add(AGGREGATE)
    live.follow(pipeline)
    live.lab.sql("UPDATE ugc.ratings SET rating = 1 WHERE id = (SELECT id FROM ugc.ratings WHERE rating > 3 LIMIT 1)")
    run = live.follow(pipeline)
    assert run["rows_written"] == 1
    live.assert_equal(pipeline)


@pytest.mark.scenario(36)
def test_a_group_that_is_emptied_goes_and_so_does_a_row_that_leaves_the_where(live: Living) -> None:
    groups = live.add(AGGREGATE)
    liked = live.add(LIKED, name="liked", target_table="analytics.liked")
    live.follow(groups, liked)
    live.lab.sql("DELETE FROM ugc.ratings WHERE film_id IN (SELECT film_id FROM ugc.ratings LIMIT 1)")
    live.lab.sql("UPDATE content.film_work SET rating = 1 WHERE id = (SELECT film_id FROM analytics.liked LIMIT 1)")
    live.follow(groups, liked)
    for pipeline in (groups, liked):
        assert live.lab.last_run(pipeline)["rows_deleted"] == 1
        assert live.why(pipeline) == ""
        live.assert_equal(pipeline)


def test_an_index_is_live_too(lab: Lab, elastic: str, index_prefix: str) -> None:
    with living(lab, "wal") as live, open_search(lab, elastic, index_prefix) as search:
        pipeline = search.add("cards", source_query=CARD, mode="live")
        live.follow(pipeline)
        assert search.documents("cards") == search.wanted(pipeline)
        lab.sql(
            "UPDATE content.genre SET name = name || '!'"
            " WHERE id = (SELECT genre_id FROM content.genre_film_work LIMIT 1)"
        )
        lab.sql("DELETE FROM content.film_work WHERE id IN (SELECT id FROM content.film_work ORDER BY id DESC LIMIT 4)")
        run = live.follow(pipeline)
        assert run["rows_deleted"] == 4
        assert "comparing" not in live.events(pipeline)
        assert search.documents("cards") == search.wanted(pipeline)


def test_an_impact_query_that_fails_means_a_comparison(lab: Lab) -> None:
    select = """
        SELECT f.id AS film_id, count(r.id) AS votes
        FROM content.film_work f LEFT JOIN ugc.ratings r ON r.film_id = f.id AND r.rating > 0 AND 10 / r.rating > 0
        GROUP BY f.id
    """
    impact = {"ugc.ratings": "SELECT c.film_id FROM changed c WHERE 10 / c.rating >= 0"}
    with living(lab, "wal") as live:
        pipeline = live.add(select, impact=impact)
        live.follow(pipeline)
        lab.sql("UPDATE ugc.ratings SET rating = 0 WHERE id = (SELECT id FROM ugc.ratings WHERE rating > 5 LIMIT 1)")
        live.follow(pipeline)
        assert "comparing" in live.events(pipeline)
        live.assert_equal(pipeline)

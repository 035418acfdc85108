"""What a run changes, kept for people where a pipeline asks for it: a few rows, as they were and as they are."""

from typing import Any

import pytest

from tests.living import living
from tests.support import Lab, wait_for
from vitrina.domain.errors import ConfigError
from vitrina.domain.pipeline import Pipeline
from vitrina.planning import check_plan
from vitrina.runner.main import Runner

QUERY = "SELECT id AS film_id, title, rating FROM content.film"
FILM = {"source_query": QUERY, "key": ["film_id"], "batch_size": 5, "keep_changes": 10}


@pytest.fixture
def films(lab: Lab) -> Lab:
    """Twelve films."""
    lab.sql(
        "CREATE TABLE content.film (id int PRIMARY KEY, title text, rating numeric, seen timestamptz DEFAULT now())"
    )
    lab.sql("INSERT INTO content.film SELECT n, 'film ' || n, n % 10 FROM generate_series(1, 12) n")
    lab.sql("GRANT SELECT ON content.film TO vitrina_reader")
    return lab


def kept(lab: Lab, pipeline: Pipeline) -> list[dict[str, Any]]:
    """What the last run kept, by key."""
    query = """SELECT jsonb_array_elements(fields -> 'changes') FROM etl.etl_run_events
               WHERE event = 'changed' AND run_id = (SELECT max(id) FROM etl.etl_runs WHERE pipeline_id = %s)"""
    return sorted((change for (change,) in lab.sql(query, pipeline.id)), key=lambda c: int(c["key"]["film_id"]))


def change_three(lab: Lab) -> None:
    """A row that is changed, one that is new and one that is gone."""
    lab.sql("UPDATE content.film SET title = NULL, seen = now() WHERE id = 3")
    lab.sql("INSERT INTO content.film VALUES (13, 'new', 1.50)")
    lab.sql("DELETE FROM content.film WHERE id = 12")


THREE = [
    {"key": {"film_id": "3"}, "before": {"title": "film 3"}, "after": {"title": None}},
    {"key": {"film_id": "12"}, "before": {"title": "film 12", "rating": "2"}, "after": None},
    {"key": {"film_id": "13"}, "before": None, "after": {"title": "new", "rating": "1.50"}},
]


@pytest.mark.parametrize("publish", ["batches", "atomic"])
def test_a_run_keeps_what_was_and_what_is(films: Lab, publish: str) -> None:
    mart = films.add(**FILM, publish=publish)
    films.run(mart)
    assert kept(films, mart) == []  # all of a first load is new
    change_three(films)
    films.run(mart)
    assert kept(films, mart) == THREE
    films.run(mart)
    assert kept(films, mart) == []


def test_nothing_is_kept_where_nobody_asked(films: Lab) -> None:
    mart = films.add(**FILM | {"keep_changes": 0})
    films.run(mart)
    change_three(films)
    films.run(mart)
    assert kept(films, mart) == []


def test_no_more_than_was_asked_for(films: Lab) -> None:
    mart = films.add(**FILM | {"keep_changes": 3, "batch_size": 2})
    films.run(mart)
    films.sql("UPDATE content.film SET title = 'other'")
    assert films.run(mart)["rows_written"] == 12
    assert [change["after"] for change in kept(films, mart)] == [{"title": "other"}] * 3


def test_rows_that_are_removed_have_a_number_of_their_own(films: Lab) -> None:
    mart = films.add(**FILM | {"keep_changes": 2})
    films.run(mart)
    films.sql("UPDATE content.film SET title = 'other' WHERE id < 9")
    films.sql("DELETE FROM content.film WHERE id > 9")
    films.run(mart)
    assert [change["after"] is None for change in kept(films, mart)] == [False, False, True, True]


def test_an_incremental_run_tells_what_its_cursor_found(films: Lab) -> None:
    query = QUERY.replace("FROM", ", seen FROM")
    mart = films.add(**FILM | {"source_query": query}, mode="incremental", incremental_key="seen")
    films.run(mart)
    films.sql("UPDATE content.film SET title = 'other', seen = now() WHERE id = 3")
    films.run(mart)
    [change] = kept(films, mart)
    assert (change["before"]["title"], change["after"]["title"]) == ("film 3", "other")
    assert change["before"].keys() == {"title", "seen"}


def test_what_is_long_is_cut_and_still_told_apart(films: Lab) -> None:
    films.sql("UPDATE content.film SET title = repeat('x', 1000) || 'a' WHERE id = 3")
    mart = films.add(**FILM)
    films.run(mart)
    films.sql("UPDATE content.film SET title = repeat('x', 1000) || 'b' WHERE id = 3")
    films.run(mart)
    [change] = kept(films, mart)
    assert change["after"] == {"title": "x" * 200 + "… (1001 characters)"}


def test_a_mart_whose_code_runs_as_the_writer_tells_it_too(films: Lab) -> None:
    films.sql("CREATE TABLE analytics.mart (film_id int PRIMARY KEY, title text, rating numeric CHECK (rating >= 0))")
    films.sql("ALTER TABLE analytics.mart OWNER TO vitrina_writer")
    mart = films.add(**FILM)
    films.run(mart)
    change_three(films)
    films.run(mart)
    assert kept(films, mart) == THREE


def test_a_live_mart_tells_it_in_the_row_of_its_hour(lab: Lab) -> None:
    select = "SELECT id AS film_id, title FROM content.film_work"
    with living(lab, "trigger", ["content.film_work"]) as live:
        mart = live.add(select, keep_changes=5)
        live.follow(mart)
        film, title = lab.sql("SELECT id, title FROM content.film_work ORDER BY id LIMIT 1")[0]
        runner = Runner(lab.connections)
        live.captured.run(f"UPDATE content.film_work SET title = 'other' WHERE id = '{film}'")
        live.catch_up()
        runner.run_once()
        query = """SELECT e.fields -> 'changes' FROM etl.etl_run_events e JOIN etl.etl_runs r ON r.id = e.run_id
                   WHERE r.pipeline_id = %s AND e.event = 'changed'"""
        wait_for(lambda: lab.sql(query, mart.id) != [])
        [(changes,)] = lab.sql(query, mart.id)
        assert changes == [{"key": {"film_id": str(film)}, "before": {"title": title}, "after": {"title": "other"}}]


def test_what_no_statement_reaches_is_refused(films: Lab) -> None:
    with pytest.raises(ConfigError, match="keep_changes is for tables"):
        check_plan(Pipeline(name="x", target_table="es:x", **FILM), films.connections.settings)  # type: ignore[arg-type]

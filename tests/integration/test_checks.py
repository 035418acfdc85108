"""Checks of a pipeline: what blocks is never published, what warns is told; by each mode and kind of mart."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from psycopg.conninfo import make_conninfo

from tests.elastic import Search
from tests.living import living
from tests.support import Lab, wait_for
from vitrina import Row, transform
from vitrina.control.services.validation import Validation
from vitrina.domain.errors import ConfigError
from vitrina.domain.pipeline import Pipeline
from vitrina.meta.repos.alerts import AlertRepo
from vitrina.runner.main import Runner
from vitrina.transforms import REGISTRY

QUERY = "SELECT id AS film_id, title, rating FROM content.film"
RANGE = {"name": "rating in range", "condition": "rating BETWEEN 0 AND 10"}


@pytest.fixture
def films(lab: Lab) -> Lab:
    """Twelve films, in batches of five."""
    lab.sql(
        "CREATE TABLE content.film (id int PRIMARY KEY, title text, rating numeric, seen timestamptz DEFAULT now())"
    )
    lab.sql("INSERT INTO content.film SELECT n, 'film ' || n, n % 10 FROM generate_series(1, 12) n")
    lab.sql("GRANT SELECT ON content.film TO vitrina_reader")
    return lab


def pipeline(*checks: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"source_query": QUERY, "key": ["film_id"], "batch_size": 5, "checks": list(checks)} | more


def kept(lab: Lab) -> list[Any]:
    """What the last run's history has of its checks."""
    return lab.sql(
        "SELECT name, outcome, rows, keys FROM etl.etl_run_checks"
        " WHERE run_id = (SELECT max(id) FROM etl.etl_runs) ORDER BY name"
    )


def test_a_batch_that_breaks_a_check_is_not_published_and_its_keys_are_named(films: Lab) -> None:
    mart = films.add(**pipeline(RANGE))
    assert films.run(mart)["status"] == "SUCCESS"
    films.sql("UPDATE content.film SET rating = 11 WHERE id IN (7, 9)")
    films.sql("UPDATE content.film SET title = 'other' WHERE id = 8")
    run = films.run(mart)
    assert run["status"] == "FAILED"
    assert "check 'rating in range' is broken by 2 rows: film_id = 7; film_id = 9; nothing of this batch" in run["said"]
    assert films.value("SELECT count(*) FROM analytics.mart WHERE rating > 10 OR title = 'other'") == 0
    assert kept(films) == [("rating in range", "blocked", 2, [{"film_id": "7"}, {"film_id": "9"}])]
    films.sql("UPDATE content.film SET rating = 10 WHERE id IN (7, 9)")
    assert films.run(mart)["status"] == "SUCCESS"
    films.assert_equal(mart)
    assert kept(films) == [("rating in range", "kept", 0, [])]


@pytest.mark.parametrize(
    ("check", "change"),
    [
        ({"not_null": ["title", "rating"]}, "SET title = NULL WHERE id = 3"),
        ({"accepted_values": {"rating": [*range(10)]}}, "SET rating = 9.5 WHERE id = 3"),
        ({"condition": "rating < 10 AND title LIKE 'film%' -- or so"}, "SET title = 'other' WHERE id = 3"),
    ],
)
def test_each_kind_of_check_by_row_names_the_row(films: Lab, check: dict[str, Any], change: str) -> None:
    mart = films.add(**pipeline({"name": "asked"} | check))
    assert films.run(mart)["error"] is None
    films.sql(f"UPDATE content.film {change}")
    assert "check 'asked' is broken by 1 row: film_id = 3; nothing" in films.run(mart)["said"]


def test_null_breaks_no_condition_and_no_list(films: Lab) -> None:
    films.sql("UPDATE content.film SET rating = NULL, title = NULL")
    listed = {"name": "listed", "accepted_values": {"title": ["a"]}}
    assert films.run(films.add(**pipeline(RANGE, listed)))["status"] == "SUCCESS"


def test_the_first_load_is_checked_batch_by_batch(films: Lab) -> None:
    films.sql("UPDATE content.film SET rating = -1 WHERE id = 8")
    run = films.run(mart := films.add(**pipeline(RANGE)))
    assert run["status"] == "FAILED"
    assert films.sql("SELECT max(film_id) FROM analytics.mart") == [(5,)]  # the batch before
    films.sql("UPDATE content.film SET rating = 1 WHERE id = 8")
    assert films.run(mart)["status"] == "SUCCESS"
    films.assert_equal(mart)


def test_what_warns_is_published_and_told_and_over_once_it_is_mended(films: Lab) -> None:
    mart = films.add(**pipeline(RANGE | {"effect": "warn"}))
    films.run(mart)
    films.sql("UPDATE content.film SET rating = 11 WHERE id IN (1, 7, 9)")
    run = films.run(mart)
    assert (run["status"], run["rows_written"]) == ("SUCCESS", 3)
    films.assert_equal(mart)
    assert kept(films) == [("rating in range", "broken", 3, [{"film_id": "1"}, {"film_id": "7"}, {"film_id": "9"}])]
    incidents, alerts = (
        "SELECT kind FROM etl.etl_incidents",
        "SELECT event, details FROM etl.etl_alerts ORDER BY number",
    )
    assert films.sql(incidents) == [("check",)]
    [(event, details)] = films.sql(alerts)
    assert (event, details["checks"][0]["check"], details["checks"][0]["rows"]) == ("check", "rating in range", 3)
    assert [e["fields"]["keys"][0] for e in films.events(mart) if e["event"] == "check_broken"] == [{"film_id": "1"}]
    films.run(mart)  # nothing has changed, and they are still in the mart
    assert kept(films)[0][1:3] == ("broken", 3)
    assert films.sql(incidents) == [("check",)]
    films.sql("UPDATE content.film SET rating = 10 WHERE rating > 10")
    films.run(mart)
    assert (kept(films)[0][1], films.sql(incidents)) == ("kept", [])
    assert [event for event, _ in films.sql(alerts)] == ["check", "recovered"]


def test_rows_that_were_there_before_a_check_are_told_and_block_nothing(films: Lab) -> None:
    films.sql("UPDATE content.film SET rating = 11 WHERE id = 7")
    mart = films.add(**pipeline())
    films.run(mart)
    films.sql("UPDATE etl.etl_pipelines SET checks = %s", '[{"name": "low", "condition": "rating < 10"}]')
    assert films.run(mart)["status"] == "SUCCESS"
    assert kept(films) == [("low", "broken", 1, [{"film_id": "7"}])]
    assert films.sql("SELECT kind FROM etl.etl_incidents") == [("check",)]
    films.sql("UPDATE etl.etl_pipelines SET checks = '[]'")
    films.run(mart)
    AlertRepo(films.db).check_freshness(0, 0, 0)
    assert films.sql("SELECT kind FROM etl.etl_incidents") == []


WHOLE: list[tuple[dict[str, Any], str, int]] = [
    ({"unique": ["title"]}, "UPDATE content.film SET title = 'film 2' WHERE id = 5", 2),
    ({"row_count": {"at_least": 10, "at_most": 12}}, "INSERT INTO content.film VALUES (13, 'more', 1)", 13),
    ({"empty": "SELECT m.film_id FROM mart m JOIN content.film f ON f.id = m.film_id WHERE m.title = 'other'"},
     "UPDATE content.film SET title = 'other' WHERE id = 5", 1),
]  # fmt: skip


@pytest.mark.parametrize(("check", "change", "rows"), WHOLE)
def test_a_mart_that_is_published_at_once_is_checked_as_a_whole_before(
    films: Lab, check: dict[str, Any], change: str, rows: int
) -> None:
    mart = films.add(**pipeline({"name": "whole"} | check, publish="atomic"))
    assert films.run(mart)["said"] is None
    before = films.sql("SELECT * FROM analytics.mart ORDER BY 1")
    films.sql("UPDATE content.film SET rating = 3 WHERE id = 1")
    films.sql(change)
    run = films.run(mart)
    assert run["status"] == "FAILED"
    assert films.sql("SELECT * FROM analytics.mart ORDER BY 1") == before
    assert kept(films)[0][:3] == ("whole", "blocked", rows)


@pytest.mark.parametrize(("check", "change", "rows"), WHOLE)
def test_else_it_is_told_at_the_end_of_the_run(films: Lab, check: dict[str, Any], change: str, rows: int) -> None:
    mart = films.add(**pipeline({"name": "whole", "effect": "warn"} | check))
    films.run(mart)
    assert kept(films) == [("whole", "kept", 0, [])]
    films.sql(change)
    run = films.run(mart)
    assert (run["status"], kept(films)[0][:3]) == ("SUCCESS", ("whole", "broken", rows))
    films.assert_equal(mart)


def test_a_first_load_at_once_is_checked_as_a_whole(films: Lab) -> None:
    films.sql("UPDATE content.film SET rating = 11, title = 'same' WHERE id IN (2, 4)")
    mart = films.add(**pipeline(RANGE, {"name": "title once", "unique": ["title"]}, publish="atomic"))
    said = films.run(mart)["said"]
    assert "'rating in range' is broken by 2 rows: film_id = 2; film_id = 4" in said
    assert "check 'title once' is broken by 2 rows" in said
    assert films.value("SELECT count(*) FROM analytics.mart") == 0


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({}, "cannot block what is published batch by batch — set publish: atomic, or effect: warn"),
        ({"mode": "live"}, "a live mart is published slice by slice — set effect: warn; or CREATE UNIQUE INDEX"),
        ({"target_table": "es:films"}, "statements do not reach es:films — ask each row"),
    ],
)
def test_a_check_that_cannot_block_is_refused(films: Lab, more: dict[str, Any], why: str) -> None:
    mart = films.add(**pipeline({"name": "title once", "unique": ["title"]}, **more))
    assert why in films.run(mart)["said"]


def test_a_blocked_window_leaves_the_cursor_where_it_was(films: Lab) -> None:
    query = "SELECT id AS film_id, title, rating, seen FROM content.film"
    more = {"source_query": query, "mode": "incremental", "incremental_key": "seen", "incremental_id_key": "film_id"}
    mart = films.add(**pipeline(RANGE, **more))
    assert films.run(mart)["said"] is None
    place = "SELECT last_processed_value::timestamptz FROM etl.etl_state"
    before = films.value(place)
    films.sql("UPDATE content.film SET rating = 12, seen = clock_timestamp() WHERE id = 3")
    assert "is broken by 1 row: film_id = 3" in films.run(mart)["said"]
    assert films.value(place) == before
    films.sql("UPDATE content.film SET rating = 1, seen = clock_timestamp() WHERE id = 3")
    assert films.run(mart)["said"] is None
    assert films.value(place) > before
    films.assert_equal(mart)


def test_a_check_that_fails_to_answer_blocks_or_is_told(films: Lab) -> None:
    films.sql("UPDATE content.film SET rating = 0 WHERE id = 3")
    broken = {"name": "odd", "condition": "1 / rating > 0"}
    run = films.run(films.add(**pipeline(RANGE, broken)))
    assert "check 'odd' cannot be asked: division by zero; nothing of this batch" in run["said"]
    other = films.add(**pipeline(RANGE, broken | {"effect": "warn"}, name="told", target_table="analytics.told"))
    assert films.run(other)["status"] == "SUCCESS"
    assert [row[:2] for row in kept(films)] == [("odd", "unasked"), ("rating in range", "kept")]
    films.assert_equal(other)


def test_a_composite_key_and_names_that_need_quotes(films: Lab) -> None:
    query = """SELECT id AS "the id", title AS "group", rating FROM content.film"""
    check = {"name": "it's 100 %", "condition": "\"group\" <> 'film 4'"}
    mart = films.add(**pipeline(check, source_query=query, key=["the id", "group"]))
    assert 'check "it\'s 100 %" is broken by 1 row: group = film 4, the id = 4' in films.run(mart)["said"]


def test_rows_are_checked_as_transforms_have_made_them(films: Lab) -> None:
    def twice(rows: Sequence[Row]) -> Any:
        return [row | {"rating": row["rating"] * 2} for row in rows]

    transform("twice_the_rating")(twice)
    try:
        more = {"type": "PYTHON", "python_task": "twice_the_rating"}
        said = films.run(films.add(**pipeline(RANGE, **more)))["said"]
    finally:
        del REGISTRY["twice_the_rating"]
    assert "is broken by 4 rows: film_id = 6; film_id = 7; film_id = 8; film_id = 9" in said


def test_rows_of_another_server_are_checked_in_the_warehouse(films: Lab) -> None:
    sources = {"cinema": make_conninfo(films.conninfo, user="vitrina_reader")}
    films.connections = replace(films.connections, sources=sources)
    mart = films.add(**pipeline(RANGE | {"condition": "length(title) < 7 AND rating < 10"}, source="cinema"))
    assert "is broken by 3 rows: film_id = 10; film_id = 11; film_id = 12" in films.run(mart)["said"]
    assert films.value("SELECT count(*) FROM analytics.mart") == 0
    films.sql("UPDATE content.film SET title = 'film'")
    assert films.run(mart)["said"] is None
    films.assert_equal(mart)
    films.sql("UPDATE content.film SET rating = 99 WHERE id = 2")
    assert "film_id = 2" in films.run(mart)["said"]


# ── live ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


LIVE = "SELECT id AS film_id, title, rating FROM content.film_work"
LOW = {"name": "low", "condition": "rating < 100"}


def test_a_slice_that_breaks_a_check_is_not_published_and_is_applied_once_it_is_mended(lab: Lab) -> None:
    with living(lab, "trigger") as live:
        mart = live.add(LIVE, checks=[LOW])
        live.follow(mart)
        lab.sql(
            "UPDATE content.film_work SET rating = 100 WHERE id = (SELECT min(id::text)::uuid FROM content.film_work)"
        )
        lab.sql("UPDATE content.film_work SET title = 'later' WHERE rating < 5")
        place = "SELECT (checkpoint #>> '{live,id}')::bigint FROM etl.etl_state"
        before = lab.value(place)
        live.catch_up()
        Runner(lab.connections).run_once(mart.id)
        assert lab.status(mart) == "FAILED"
        assert "check 'low' is broken by 1 row: film_id = " in lab.last_run(mart)["error"]
        assert lab.value("SELECT count(*) FROM analytics.mart WHERE rating = 100 OR title = 'later'") == 0
        assert lab.value(place) == before
        lab.sql("UPDATE content.film_work SET rating = 9 WHERE rating = 100")
        live.follow(mart)
        live.assert_equal(mart)


def test_a_follower_tells_what_it_publishes_and_looks_at_all_of_the_mart_now_and_then(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vitrina.runner.ledger.LOOK_SECONDS", 0.2)
    once = {"name": "title once", "unique": ["title"], "effect": "warn"}
    with living(lab, "trigger") as live:
        mart = live.add(LIVE, checks=[LOW | {"effect": "warn"}, once])
        live.follow(mart)
        standing = "SELECT outcome, rows FROM etl.etl_checks WHERE name = %s"
        assert lab.sql(standing, "title once") == [("kept", 0)]
        with lab.runner():
            wait_for(lambda: lab.status(mart) == "FOLLOWING")
            lab.sql("UPDATE content.film_work SET title = 'same', rating = 100 WHERE rating > 8")
            rows = lab.value("SELECT count(*) FROM content.film_work WHERE title = 'same'")
            wait_for(lambda: lab.sql(standing, "title once") == [("broken", rows)])
            wait_for(lambda: lab.sql(standing, "low") == [("broken", rows)])
            assert lab.sql("SELECT kind FROM etl.etl_incidents") == [("check",)]
            lab.sql("UPDATE content.film_work SET title = 'film ' || id, rating = 1 WHERE title = 'same'")
            wait_for(lambda: lab.sql("SELECT DISTINCT outcome FROM etl.etl_checks") == [("kept",)])
            wait_for(lambda: lab.sql("SELECT kind FROM etl.etl_incidents") == [])
        assert lab.value("SELECT count(*) FROM etl.etl_run_checks WHERE outcome = 'broken'") == 2
        live.assert_equal(mart)


# ── an index ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_no_document_is_sent_that_breaks_a_check(search: Search) -> None:
    mart = search.add(batch_size=7, checks=[LOW, {"name": "titled", "not_null": ["title"], "effect": "warn"}])
    run = search.lab.run(mart)
    assert (run["status"], run["error"]) == ("SUCCESS", None)
    before = search.documents()
    search.lab.sql(
        "UPDATE content.film_work SET rating = 100 WHERE id = (SELECT min(id::text)::uuid FROM content.film_work)"
    )
    assert "check 'low' is broken by 1 row: film_id = " in search.lab.run(mart)["said"]
    assert search.documents() == before
    search.lab.sql("UPDATE content.film_work SET rating = 10 WHERE rating = 100")
    assert search.lab.run(mart)["status"] == "SUCCESS"
    assert search.documents() == search.wanted(mart)


# ── before it is saved ───────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("check", "message"),
    [
        ({"not_null": ["titel"]}, "check 'c' names titel, which the mart does not have"),
        ({"condition": "titel = ''"}, "check 'c': column \"titel\" does not exist"),
        ({"condition": "title"}, "check 'c': argument of IS FALSE must be type boolean"),
        ({"condition": "title >"}, "check 'c': the query does not parse"),
        ({"condition": "true, false"}, "check 'c': the condition is refused: it is more than one expression"),
        ({"condition": "count(*) > 1"}, "check 'c': aggregate functions are not allowed in WHERE"),
        ({"accepted_values": {"rating": ["low"]}}, "check 'c': invalid input syntax for type numeric: \"low\""),
        ({"condition": "rating IN ('low')"}, "check 'c': invalid input syntax for type numeric: \"low\""),
        ({"empty": "SELECT nothing FROM mart", "effect": "warn"}, "check 'c': column \"nothing\" does not exist"),
        (
            {"empty": "SELECT 1 FROM film", "effect": "warn"},
            "check 'c': the query is refused: table film has no schema",
        ),
    ],
)
def test_what_cannot_be_asked_is_found_before_it_is_saved(films: Lab, check: dict[str, Any], message: str) -> None:
    mart = films.add(**pipeline({"name": "c"} | check))
    found = [f.message for f in Validation(films.connections).of(mart) if f.level == "error"]
    assert len(found) == 1
    assert found[0].startswith(message)
    assert films.run(mart)["status"] == "FAILED"  # nor by hand
    assert (
        films.value("SELECT to_regclass('analytics.mart')") is None
        or films.value("SELECT count(*) FROM analytics.mart") == 0
    )


def test_every_kind_of_check_passes_before_its_mart_is_there_and_after(films: Lab) -> None:
    checks: list[dict[str, Any]] = [
        RANGE,
        {"name": "values", "accepted_values": {"rating": [*range(10)], "title": ["film 1"]}},
    ]
    checks += [{"name": name, "effect": "warn"} | check for name, (check, _, _) in zip("abc", WHOLE, strict=True)]
    mart = films.add(**pipeline(*checks, {"name": "there", "not_null": ["film_id"]}))
    assert [f for f in Validation(films.connections).of(mart) if f.level != "info"] == []
    films.sql("UPDATE content.film SET title = 'film 1'")
    films.run(mart)
    assert [f for f in Validation(films.connections).of(mart) if f.level != "info"] == []


@pytest.mark.parametrize(
    ("check", "message"),
    [
        ({}, "asks one of not_null, accepted_values, condition, unique, row_count, empty, not none of them"),
        ({"not_null": ["a"], "unique": ["b"]}, "not not_null, unique"),
        ({"row_count": {}}, "needs at_least, at_most or both"),
        ({"row_count": {"at_least": 5, "at_most": 4}}, "at_least is more than at_most"),
        ({"accepted_values": {"a": []}}, "accepted_values of a names no value"),
        ({"not_null": ["a"], "effect": "stop"}, "effect of item 1 of checks must be block or warn, not 'stop'"),
    ],
)
def test_a_check_that_asks_nothing_or_too_much_is_refused(check: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Pipeline.parse({"name": "p", "checks": [{"name": "c"} | check]})


def test_two_checks_of_one_name_are_refused() -> None:
    with pytest.raises(ConfigError, match="two checks are called 'c'"):
        Pipeline.parse({"name": "p", "checks": [{"name": "c", "not_null": ["a"]}] * 2})


def test_a_check_is_kept_as_it_was_written(films: Lab) -> None:
    mart = films.add(**pipeline(RANGE, {"name": "rows", "row_count": {"at_least": 0}, "effect": "warn"}))
    config = films.value("SELECT config FROM etl.etl_config_versions")
    assert config["checks"][0] == RANGE | {"effect": "block"}
    assert Pipeline.parse(config) == mart
    films.sql("UPDATE etl.etl_pipelines SET checks = '[]'")
    assert "checks" not in films.value("SELECT config FROM etl.etl_config_versions ORDER BY version DESC LIMIT 1")

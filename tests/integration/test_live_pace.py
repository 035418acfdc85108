"""Marts whose changes mean to compare everything: how often that is done, and that they get there once it is quiet."""

import random
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from threading import Event

import psycopg
import pytest

from tests.integration.test_alerts import look
from tests.living import Living, living
from tests.support import BLOCKED, Lab, beside, differences, wait_for
from vitrina.domain.pipeline import Pipeline
from vitrina.engine.live.follower import Follower
from vitrina.meta.db import connect
from vitrina.meta.repos.pipelines import PipelineRepo
from vitrina.runner import alerting
from vitrina.runner.following import FollowingDesk
from vitrina.runner.main import Runner

RANK = """
    SELECT f.id AS film_id, f.title, rank() OVER (PARTITION BY f.type ORDER BY f.rating DESC NULLS LAST, f.id) AS place
    FROM content.film_work f"""
RATE = """
    UPDATE content.film_work SET rating = %s WHERE id IN (
        SELECT id FROM content.film_work ORDER BY md5(id::text || %s) LIMIT %s)"""


@pytest.fixture
def live(lab: Lab) -> Iterator[Living]:
    with living(lab, "trigger") as live:
        yield live


def is_equal(live: Living, pipeline: Pipeline) -> bool:
    return differences(live.lab.db, str(pipeline.source_query), str(pipeline.target_table)) == 0


def rate_films(live: Living, seed: int, transactions: int) -> None:
    """A writer: so many transactions, each of which moves films up and down."""
    rng = random.Random(seed)
    with connect(live.captured.conn.info.dsn, "application") as conn:
        for _ in range(transactions):
            films, salt, rating = rng.randint(1, 12), str(rng.random()), rng.randint(11, 1000) / 100
            with suppress(psycopg.errors.DeadlockDetected):
                conn.execute(RATE, [rating, salt, films])
            time.sleep(rng.random() / 50)


def write_beside(live: Living, transactions: int) -> None:
    """Four writers, until all have ended."""
    with beside(Event(), *[partial(rate_films, live, seed, transactions) for seed in range(4)]):
        pass


def hold_up_a_comparison(live: Living, pipeline: Pipeline, seconds: float) -> None:
    """Somebody has the mart locked when a comparison wants to write what it found."""
    compared = len(comparisons(live, pipeline))
    with live.lab.connections.open_warehouse("somebody") as somebody:
        somebody.execute(f"BEGIN; LOCK {pipeline.target_table} IN SHARE MODE".encode())
        rate_films(live, 99, 1)
        wait_for(lambda: live.lab.value(BLOCKED), 30)
        time.sleep(seconds)
        somebody.execute("ROLLBACK")
    wait_for(lambda: len(comparisons(live, pipeline)) > compared, 30)
    wait_for(lambda: live.lab.status(pipeline) in ("IDLE", "FOLLOWING"), 30)


def comparisons(live: Living, pipeline: Pipeline) -> list[object]:
    return [event for event in live.lab.events(pipeline) if event["event"] == "compared"]


def test_however_long_a_comparison_was_held_up_it_gets_there_soon_after_the_writers_have_stopped(live: Living) -> None:
    pipeline = live.add(RANK)
    with live.lab.runner():
        wait_for(lambda: live.position(pipeline).get("compare_after"), 30)
        hold_up_a_comparison(live, pipeline, 3)
        write_beside(live, 33)
        wait_for(lambda: is_equal(live, pipeline), 15)


def test_several_of_them_get_there_through_a_pause_and_another_runner(live: Living) -> None:
    lab = live.lab
    lab.configure(slots=2)
    marts = [live.add(RANK, name=f"m{n}", target_table=f"analytics.m{n}") for n in range(3)]
    with lab.runner():
        wait_for(lambda: all(live.position(mart).get("compare_after") for mart in marts), 30)
        hold_up_a_comparison(live, marts[0], 2)
        write_beside(live, 10)
        wait_for(lambda: PipelineRepo(lab.db).request_pause(marts[1].id))
        wait_for(lambda: lab.status(marts[1]) == "PAUSED")
    write_beside(live, 5)
    lab.request(marts[1])
    with lab.runner():
        wait_for(lambda: all(is_equal(live, mart) for mart in marts), 20)


def test_on_a_schedule_too(live: Living) -> None:
    pipeline = live.add(RANK, schedule_interval="1s")
    with live.lab.runner():
        wait_for(lambda: live.position(pipeline).get("compare_after"), 30)
        hold_up_a_comparison(live, pipeline, 2)
        write_beside(live, 5)
        wait_for(lambda: is_equal(live, pipeline), 20)


def test_it_is_compared_again_while_its_writers_go_on_and_no_more_often_than_its_length_allows(live: Living) -> None:
    pipeline, stopping = live.add(RANK), Event()

    def write() -> None:
        while not stopping.is_set():
            rate_films(live, 1, 1)

    with live.lab.runner(), beside(stopping, write, write):
        wait_for(lambda: len(comparisons(live, pipeline)) >= 4, 60)
    apart = """
        SELECT extract(epoch FROM e.at - lag(e.at) OVER (ORDER BY e.id))::float8
        FROM etl.etl_run_events e WHERE e.event = 'comparing' ORDER BY e.id"""
    assert all(seconds > 0.1 for (seconds,) in live.lab.sql(apart)[2:])


def test_comparisons_of_an_hour_that_only_rows_have_caused_are_one_row_of_the_history(live: Living) -> None:
    """Under steady traffic there is one after the other; of those that somebody asked for each is kept."""
    lab, pipeline = live.lab, live.add(RANK)
    rows = "SELECT bursts, status, rows_written > 0 FROM etl.etl_runs ORDER BY id"
    with lab.runner():
        wait_for(lambda: lab.status(pipeline) == "FOLLOWING", 30)
        for seed in range(3):
            compared = len(comparisons(live, pipeline))
            rate_films(live, seed, 1)
            wait_for(lambda compared=compared: len(comparisons(live, pipeline)) > compared, 30)  # type: ignore[misc]
            wait_for(lambda: is_equal(live, pipeline) and lab.status(pipeline) == "FOLLOWING", 30)
        assert lab.sql(rows) == [(0, "SUCCESS", True), (3, "SUCCESS", True)]
        assert lab.request(pipeline)
        wait_for(lambda: len(lab.sql(rows)) == 3 and lab.status(pipeline) == "FOLLOWING", 30)
    assert [bursts for bursts, *_ in lab.sql(rows)] == [0, 3, 0]
    assert lab.value("SELECT count(*) FROM etl.etl_run_attempts") == 3


def test_what_it_takes_to_begin_a_run_counts_as_a_part_of_its_comparison(
    live: Living, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else cheap comparisons would come so close together that their runs have a slot for themselves."""
    pipeline, understand = live.add(RANK), Follower._understand

    def understand_slowly(follower: Follower) -> None:
        time.sleep(0.3)
        understand(follower)

    live.follow(pipeline)
    monkeypatch.setattr(Follower, "_understand", understand_slowly)
    rate_films(live, 1, 1)
    live.follow(pipeline)
    assert live.position(pipeline)["compare_seconds"] > 0.3


def test_one_whose_log_was_trimmed_under_it_is_woken_though_nothing_of_its_own_has_changed(live: Living) -> None:
    pipeline = live.add(RANK)
    live.follow(pipeline)
    live.catch_up()
    live.lab.sql("UPDATE etl.etl_captures SET log_start = last_id + 1")
    assert live.position(pipeline)["id"] < live.tip.log_start - 1
    Runner(live.lab.connections).run_once()
    assert "no longer reaches back" in live.why(pipeline)


# ── one that stands still ────────────────────────────────────────────────────────────────────────────────────


def test_one_that_is_behind_and_that_nobody_wakes_is_an_incident_until_it_moves(
    live: Living, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab, pipeline = live.lab, live.add("SELECT id AS film_id, title FROM content.film_work")
    live.follow(pipeline)
    monkeypatch.setattr(FollowingDesk, "look", lambda *_: None)
    monkeypatch.setattr(alerting, "STUCK_SECONDS", 1.0)
    lab.sql("UPDATE content.film_work SET title = title || '!'")
    lab.sql("UPDATE etl.etl_runs SET tried_at = tried_at - interval '1 min'")
    lab.sql("UPDATE etl.etl_state SET checkpoint = jsonb_set(checkpoint, '{live,committed_at}', '\"2020-01-01\"')")
    kinds = "SELECT kind FROM etl.etl_incidents"
    with lab.runner():
        wait_for(lambda: lab.sql(kinds) == [("stuck",)], 30)
        assert lab.status(pipeline) == "FOLLOWING"
        monkeypatch.undo()
        wait_for(lambda: is_equal(live, pipeline))
        wait_for(lambda: lab.sql(kinds) == [], 30)
    alerts = lab.sql(
        "SELECT event, details ->> 'after', (details ->> 'behind')::int > 0 FROM etl.etl_alerts ORDER BY number"
    )
    assert alerts == [("stuck", None, True), ("recovered", "stuck", None)]


def test_one_that_rests_between_two_comparisons_or_is_paused_is_none(live: Living) -> None:
    lab, pipeline = live.lab, live.add(RANK)
    live.follow(pipeline)
    lab.sql("INSERT INTO etl.etl_behind (pipeline_id, at_id, still_since) SELECT pipeline_id,"
            " (checkpoint #>> '{live,id}')::bigint, now() - interval '10 min' FROM etl.etl_state")  # fmt: skip
    rate_films(live, 1, 1)
    live.catch_up()
    lab.sql("UPDATE etl.etl_state SET checkpoint = jsonb_set(checkpoint, '{live,compare_seconds}', '60')")
    look(lab)
    assert lab.sql("SELECT kind FROM etl.etl_incidents") == []
    lab.sql("UPDATE etl.etl_state SET checkpoint = jsonb_set(checkpoint, '{live,compare_seconds}', '1')")
    look(lab)
    assert lab.sql("SELECT kind FROM etl.etl_incidents") == [("stuck",)]
    assert PipelineRepo(lab.db).request_pause(pipeline.id)
    look(lab)
    assert lab.sql("SELECT kind FROM etl.etl_incidents") == []

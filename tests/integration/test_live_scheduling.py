"""When live marts run, and are followed: when something concerns them, on a schedule, and in hourly rows."""

from collections.abc import Iterator
from datetime import timedelta
from uuid import uuid4

import pytest

from tests.integration.test_live import AGGREGATE, CARD
from tests.living import Living, living
from tests.support import Lab, differences, wait_for
from vitrina.domain.pipeline import Pipeline
from vitrina.engine.live import pacing
from vitrina.meta.repos.leases import LeaseRepo
from vitrina.meta.repos.pipelines import PipelineRepo
from vitrina.runner.main import Runner
from vitrina.runner.manager import PipelineManager

TITLES = "SELECT id AS film_id, title FROM content.film_work"
THRESHOLD = (
    "SELECT film_id, count(*) AS n FROM ugc.ratings WHERE rating > (SELECT avg(rating) FROM ugc.ratings) GROUP BY 1"
)


@pytest.fixture
def live(lab: Lab) -> Iterator[Living]:
    with living(lab, "trigger") as live:
        yield live


def is_equal(lab: Lab, pipeline: Pipeline) -> bool:
    return differences(lab.db, str(pipeline.source_query), str(pipeline.target_table)) == 0


def is_due(lab: Lab, pipeline: Pipeline) -> bool:
    """Whether a tick finds that it has to run."""
    PipelineManager(lab.db).tick()
    return lab.value("SELECT due_at <= now() FROM etl.etl_pipelines WHERE id = %s", pipeline.id) is True


def add_title_marts(live: Living, count: int) -> list[Pipeline]:
    return [live.add(TITLES, name=f"m{n}", target_table=f"analytics.m{n}") for n in range(count)]


def test_bursts_of_an_hour_are_one_row_with_all_they_counted(live: Living) -> None:
    lab, pipeline = live.lab, live.add(CARD)
    live.follow(pipeline)
    asked_for = lab.last_run(pipeline)["id"]
    for n in range(3):
        lab.sql("UPDATE content.film_work SET title = %s WHERE rating > 5", str(n))
        run_when_due(live, pipeline)
    films = lab.value("SELECT count(*) FROM content.film_work WHERE rating > 5")
    runs = lab.sql("SELECT id, bursts, rows_written, batches, status FROM etl.etl_runs WHERE id > %s", asked_for)
    assert [(3, 3 * films, 3, "SUCCESS")] == [row[1:] for row in runs]
    assert lab.value("SELECT count(*) FROM etl.etl_runs") == 2


def run_when_due(live: Living, pipeline: Pipeline) -> None:
    """As a runner does that finds something to follow."""
    live.catch_up()
    Runner(live.lab.connections).run_once()
    assert is_equal(live.lab, pipeline)


def test_what_a_burst_found_worth_saying_is_kept_with_its_hour(live: Living) -> None:
    lab, pipeline = live.lab, live.add(CARD, batch_size=5)
    live.follow(pipeline)
    for _ in range(2):
        lab.sql("UPDATE content.genre SET name = name || '!'")
        run_when_due(live, pipeline)
    query = """SELECT count(*) FROM etl.etl_run_events e JOIN etl.etl_runs r ON r.id = e.run_id
               WHERE r.bursts = 2 AND e.event = 'touched_found'"""
    assert lab.value(query) == 2


def test_more_marts_than_slots_all_keep_up(live: Living) -> None:
    lab = live.lab
    lab.configure(slots=2)
    marts = add_title_marts(live, 5)
    live.follow(*marts)
    with lab.runner():
        for n in range(4):
            lab.sql("UPDATE content.film_work SET title = %s || id::text", f"t{n}")
            wait_for(lambda: all(is_equal(lab, mart) for mart in marts), 30)


@pytest.mark.parametrize("lost", [False, True], ids=["asked for", "left by a lost runner"])
def test_a_full_mart_that_is_due_gets_a_slot_though_followers_are_busy(live: Living, lost: bool) -> None:
    lab = live.lab
    lab.configure(slots=1)
    (mart,) = add_title_marts(live, 1)
    live.follow(mart)
    full = lab.add(name="full", target_table="analytics.full", source_query=AGGREGATE, key=["film_id"])
    with lab.runner():
        lab.sql("UPDATE content.film_work SET title = title || '.'")
        wait_for(lambda: lab.status(mart) == "FOLLOWING")
        with lab.db.transaction():
            lab.request(full)
            if lost:
                assert LeaseRepo(lab.db, uuid4(), "somebody", 0).claim(full.id)

        def is_done() -> bool:
            lab.sql("UPDATE content.film_work SET title = title || '.' WHERE rating > 5")  # it is never idle
            return lab.status(full) == "IDLE"

        wait_for(is_done, 30)
        wait_for(lambda: is_equal(lab, mart))


def test_on_a_schedule_it_follows_then_and_only_then(live: Living) -> None:
    lab, pipeline = live.lab, live.add(TITLES, schedule_interval="1h")
    live.follow(pipeline)
    lab.sql("UPDATE etl.etl_pipelines SET last_due_at = now()")
    lab.sql("UPDATE content.film_work SET title = title || '!'")
    live.catch_up()
    assert not is_due(lab, pipeline)
    due = lab.value("SELECT due_at - now() FROM etl.etl_pipelines")
    assert timedelta(0) < due <= timedelta(hours=1)
    lab.sql("UPDATE etl.etl_pipelines SET due_at = now()")
    with lab.runner():
        wait_for(lambda: is_equal(lab, pipeline))


@pytest.mark.parametrize("rest", ["PAUSED", "disabled"])
def test_one_that_rests_is_not_woken_and_catches_up_later(live: Living, rest: str) -> None:
    lab, pipeline = live.lab, live.add(TITLES)
    live.follow(pipeline)
    if rest == "PAUSED":
        PipelineRepo(lab.db).request_pause(pipeline.id)
    else:
        lab.sql("UPDATE etl.etl_pipelines SET enabled = false")
    lab.sql("UPDATE content.film_work SET title = title || '!'")
    live.catch_up()
    assert not is_due(lab, pipeline)
    lab.sql("UPDATE etl.etl_pipelines SET enabled = true")
    live.follow(pipeline)
    assert live.why(pipeline) == ""
    live.assert_equal(pipeline)


def test_comparisons_are_kept_apart_and_the_change_arrives_in_the_end(
    live: Living, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab, pipeline = live.lab, live.add(THRESHOLD)
    monkeypatch.setattr(pacing, "COMPARISONS", 1000.0)
    for _ in range(2):
        live.follow(pipeline)
        lab.sql("UPDATE ugc.ratings SET rating = 10 - rating")
    live.catch_up()
    with lab.runner():
        wait_for(lambda: "not_before" in live.position(pipeline))
        assert not is_due(lab, pipeline)
        wait_for(lambda: is_equal(lab, pipeline), 60)
    runs = [event["run_id"] for event in lab.events(pipeline) if event["event"] == "comparing"]
    assert len(runs) == 3

"""A live mart is followed, not run: going live ends, following is a state, and anything can be asked of it any time."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from threading import Event
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest

from tests.elastic import Search, open_search
from tests.integration.test_live import CARD
from tests.integration.test_live_scheduling import TITLES, is_equal
from tests.living import Living, living
from tests.patience import is_prompt
from tests.support import Lab, beside, wait_for
from vitrina.control.services.freshness import Freshness, freshness
from vitrina.domain.pipeline import Pipeline
from vitrina.meta.repos.following import FollowingRepo
from vitrina.meta.repos.pipelines import PipelineRepo
from vitrina.runner.following import FollowingDesk
from vitrina.runner.heartbeat import Heartbeat
from vitrina.runner.identity import Identity
from vitrina.runner.main import Runner

AT_RATES = pytest.mark.parametrize("rate", [1, 50, 500])
SECONDS = 5.0  # in which anything that is asked for has its effect, on a quiet machine


@pytest.fixture
def live(lab: Lab) -> Iterator[Living]:
    with living(lab, "wal") as live:
        yield live


@contextmanager
def writing(lab: Lab, rate: int) -> Iterator[None]:
    """So many changes a second, until the block ends."""
    stopping = Event()

    def write() -> None:
        with psycopg.connect(lab.conninfo, autocommit=True) as conn:
            films = [row[0] for row in conn.execute("SELECT id FROM content.film_work ORDER BY id")]
            began, done = time.monotonic(), 0
            while not stopping.wait(max(began + done / rate - time.monotonic(), 0)):
                text = "UPDATE content.film_work SET title = %s WHERE id = %s"
                conn.execute(text, [f"title {done}", films[done % len(films)]])
                done += 1

    with beside(stopping, write):
        yield


def is_followed(lab: Lab, pipeline: Pipeline) -> bool:
    """By somebody."""
    held = "SELECT owner IS NOT NULL FROM etl.etl_leases WHERE pipeline_id = %s"
    return lab.status(pipeline) == "FOLLOWING" and bool(lab.value(held, pipeline.id))


def runs(lab: Lab, pipeline: Pipeline) -> list[dict[str, Any]]:
    """Those that are no bursts, oldest first."""
    query = "SELECT * FROM etl.etl_runs WHERE pipeline_id = %s AND bursts = 0 ORDER BY id"
    return lab.db.execute(query, [pipeline.id]).fetchall()


def test_the_run_that_makes_it_live_ends_and_changes_are_followed_without_one(live: Living) -> None:
    lab, pipeline = live.lab, live.add(CARD)
    with lab.runner():
        wait_for(lambda: is_followed(lab, pipeline), 30)
        for n in range(3):
            lab.sql("UPDATE content.genre SET name = name || %s", str(n))
            wait_for(lambda: is_equal(lab, pipeline))
        assert is_followed(lab, pipeline)
    assert [run["status"] for run in runs(lab, pipeline)] == ["SUCCESS"]
    assert lab.value("SELECT count(*) FROM etl.etl_runs WHERE status = 'RUNNING'") == 0
    assert lab.value("SELECT sum(bursts) FROM etl.etl_runs") >= 1
    assert lab.value("SELECT sum(rows_written) FROM etl.etl_runs WHERE bursts > 0") > 0
    assert lab.value("SELECT owner FROM etl.etl_leases") is None, "the runner has let go of it"


def test_a_follower_takes_no_slot(live: Living) -> None:
    lab = live.lab
    lab.configure(slots=1)
    marts = [live.add(TITLES, name=f"m{n}", target_table=f"analytics.m{n}") for n in range(3)]
    full = lab.add(name="full", target_table="analytics.full", source_query=TITLES, key=["film_id"])
    with lab.runner(), writing(lab, 50):
        wait_for(lambda: all(is_followed(lab, mart) for mart in marts), 30)
        assert lab.request(full)
        wait_for(lambda: lab.status(full) == "IDLE", 30)
    with lab.runner():
        wait_for(lambda: all(is_equal(lab, mart) for mart in marts), 30)


def test_several_marts_share_one_set_of_sessions(live: Living) -> None:
    lab = live.lab
    marts = [live.add(TITLES, name=f"m{n}", target_table=f"analytics.m{n}") for n in range(6)]
    live.follow(*marts)
    sessions = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name LIKE %s"
    with lab.runner():
        wait_for(lambda: all(is_followed(lab, mart) for mart in marts), 30)
        lab.sql("UPDATE content.film_work SET title = title || '.'")
        wait_for(lambda: all(is_equal(lab, mart) for mart in marts), 30)
        assert lab.value(sessions, "vitrina following warehouse") == 1
        assert lab.value(sessions, "vitrina follow") == 1


# ── what can be asked for ────────────────────────────────────────────────────────────────────────────────────────


def run_again(lab: Lab, pipeline: Pipeline, **options: bool) -> None:
    before = len(runs(lab, pipeline))
    assert lab.request(pipeline, **options)
    wait_for(lambda: len(runs(lab, pipeline)) > before and is_followed(lab, pipeline), SECONDS)
    assert runs(lab, pipeline)[-1]["status"] == "SUCCESS"


def pause(lab: Lab, pipeline: Pipeline) -> None:
    assert PipelineRepo(lab.db).request_pause(pipeline.id)
    assert lab.status(pipeline) == "PAUSED"
    seq = "SELECT seq FROM etl.etl_state WHERE pipeline_id = %s"
    before = lab.value(seq, pipeline.id)
    time.sleep(0.5)
    assert lab.value(seq, pipeline.id) == before, "nothing is written that was under way"
    run_again(lab, pipeline)


def disable(lab: Lab, pipeline: Pipeline) -> None:
    lab.sql("UPDATE etl.etl_pipelines SET enabled = false WHERE id = %s", pipeline.id)
    assert lab.status(pipeline) == "IDLE"
    lab.sql("UPDATE etl.etl_pipelines SET enabled = true WHERE id = %s", pipeline.id)
    wait_for(lambda: is_followed(lab, pipeline), SECONDS)


def edit(lab: Lab, pipeline: Pipeline) -> None:
    before = len(runs(lab, pipeline))
    text = "UPDATE etl.etl_pipelines SET source_query = source_query || ' WHERE rating IS NOT NULL' WHERE id = %s"
    lab.sql(text, pipeline.id)
    wait_for(lambda: len(runs(lab, pipeline)) > before and is_followed(lab, pipeline), SECONDS)
    assert runs(lab, pipeline)[-1]["status"] == "SUCCESS"


def repair(lab: Lab, pipeline: Pipeline) -> None:
    lab.sql("UPDATE analytics.mart SET title = 'by hand'")
    run_again(lab, pipeline, repair=True)


def rebuild(lab: Lab, pipeline: Pipeline) -> None:
    run_again(lab, pipeline, rebuild=True)


def compare(lab: Lab, pipeline: Pipeline) -> None:
    run_again(lab, pipeline)


def ask_how_it_is(lab: Lab, pipeline: Pipeline) -> None:
    request = lab.ask("reconcile", pipeline)
    wait_for(lambda: lab.get_request(request)["status"] == "DONE", SECONDS)


@AT_RATES
@pytest.mark.parametrize("what", [compare, repair, rebuild, pause, disable, edit, ask_how_it_is])
def test_whatever_is_asked_of_it_has_its_effect_at_any_traffic(
    lab: Lab, what: Callable[[Lab, Pipeline], None], rate: int
) -> None:
    with living(lab, "wal") as live:
        pipeline = live.add(TITLES)
        with lab.runner():
            wait_for(lambda: is_followed(lab, pipeline), 30)
            with writing(lab, rate):
                wait_for(lambda: is_followed(lab, pipeline), 30)
                what(lab, pipeline)
            stored = Pipeline.parse(PipelineRepo(lab.db).get(pipeline.id).config)
            wait_for(lambda: is_equal(lab, stored), 30)


def test_it_can_be_deleted_while_it_is_followed(live: Living) -> None:
    lab, pipeline, other = live.lab, live.add(TITLES), live.add(TITLES, name="o", target_table="analytics.other")
    with lab.runner(), writing(lab, 50):
        wait_for(lambda: is_followed(lab, pipeline) and is_followed(lab, other), 30)
        lab.sql("DELETE FROM etl.etl_pipelines WHERE id = %s", pipeline.id)
        time.sleep(0.5)
        assert is_followed(lab, other)
    with lab.runner():
        wait_for(lambda: is_equal(lab, other))


def test_a_run_waits_for_a_slice_under_way_no_longer_than_it_has_to(live: Living) -> None:
    """The mart is locked by a stranger, so that the follower stands in the middle of a slice."""
    lab, pipeline = live.lab, live.add(TITLES)
    with lab.runner():
        wait_for(lambda: is_followed(lab, pipeline), 30)
        with psycopg.connect(lab.conninfo) as stranger:
            stranger.execute("LOCK TABLE analytics.mart IN SHARE MODE")
            lab.sql("UPDATE content.film_work SET title = title || '!'")
            wait_for(lambda: lab.value("SELECT count(*) FROM pg_locks WHERE NOT granted AND relation IS NOT NULL") > 0)
            assert lab.request(pipeline)
            wait_for(lambda: lab.status(pipeline) == "RUNNING")
        wait_for(lambda: is_followed(lab, pipeline) and is_equal(lab, pipeline), 30)
    assert [run["status"] for run in runs(lab, pipeline)] == ["SUCCESS", "SUCCESS"]


# ── what is a run's ──────────────────────────────────────────────────────────────────────────────────────────────


def test_a_truncated_table_is_compared_by_a_run_and_followed_again(live: Living) -> None:
    lab, pipeline = live.lab, live.add("SELECT film_id, count(*) AS votes FROM ugc.ratings GROUP BY film_id")
    with lab.runner():
        wait_for(lambda: is_followed(lab, pipeline), 30)
        with lab.db.transaction():
            lab.sql("CREATE TEMP TABLE kept AS SELECT * FROM ugc.ratings")
            lab.sql("TRUNCATE ugc.ratings")
            lab.sql("INSERT INTO ugc.ratings SELECT * FROM kept")
        wait_for(lambda: len(runs(lab, pipeline)) == 2 and is_followed(lab, pipeline), 30)
    assert is_equal(lab, pipeline)


def test_what_no_trying_cures_fails_as_a_run_and_says_so(live: Living) -> None:
    lab, pipeline = live.lab, live.add("SELECT id AS film_id, 10 / (rating + 1) AS part FROM content.film_work")
    other = live.add(TITLES, name="other", target_table="analytics.other")
    with lab.runner():
        wait_for(lambda: is_followed(lab, pipeline) and is_followed(lab, other), 30)
        lab.sql("UPDATE content.film_work SET rating = -1 WHERE id = (SELECT id FROM content.film_work LIMIT 1)")
        wait_for(lambda: lab.status(pipeline) == "FAILED", 30)
        assert "division by zero" in lab.last_run(pipeline)["error"]
        lab.sql("UPDATE content.film_work SET title = title || '?'")
        wait_for(lambda: is_equal(lab, other))


# ── many, and several runners ────────────────────────────────────────────────────────────────────────────────────


def test_a_mart_that_has_much_to_do_keeps_no_other_waiting(live: Living) -> None:
    lab = live.lab
    much = live.add(CARD, name="much", target_table="analytics.much", batch_size=1)
    little = live.add("SELECT id AS genre_id, name FROM content.genre", ["genre_id"], name="little",
                      target_table="analytics.little")  # fmt: skip
    with lab.runner():
        wait_for(lambda: is_followed(lab, much) and is_followed(lab, little), 30)
        lab.sql("UPDATE content.genre SET name = name || '!'")
        wait_for(lambda: is_equal(lab, little))
        assert not is_equal(lab, much), "it takes a transaction for each film"
        wait_for(lambda: is_equal(lab, much), 60)


SLOW = """
    SELECT f.id AS film_id, (SELECT sum(length(md5((a * b)::text)))
                             FROM generate_series(1, 3000) a, generate_series(1, 500) b WHERE f.rating >= 1000) AS much
    FROM content.film_work f"""
READING = """
    SELECT count(*) FROM pg_stat_activity
    WHERE state = 'active' AND query LIKE '%t."much"%' AND pid <> pg_backend_pid()"""
RATE = "UPDATE content.film_work SET rating = %s WHERE id IN (SELECT id FROM content.film_work ORDER BY id LIMIT %s)"


def test_a_mart_whose_query_is_slow_keeps_no_other_waiting(live: Living, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once it has shown that it is: whoever shares a thread with it waits for its step."""
    monkeypatch.setattr("vitrina.runner.followed.SLOW_SECONDS", 0.2)
    lab, slow = live.lab, live.add(SLOW, name="slow", target_table="analytics.slow")
    quick = live.add(TITLES, name="quick", target_table="analytics.quick")
    with lab.runner():
        wait_for(lambda: is_followed(lab, slow) and is_followed(lab, quick), 30)
        lab.sql(RATE, 1000, 1)
        wait_for(lambda: is_equal(lab, slow), 60)
        wait_for(lambda: is_followed(lab, slow) and not lab.value(READING))
        lab.sql(RATE, 1001, 8)
        wait_for(lambda: lab.value(READING))
        lab.sql("UPDATE content.film_work SET title = title || '!'")
        wait_for(lambda: is_equal(lab, quick))
        assert lab.value(READING), "it is at its first step still"


def test_who_keeps_one_pipeline_locked_keeps_no_other_mart_waiting(live: Living) -> None:
    """Somebody pauses it in psql, and goes to lunch before COMMIT."""
    lab, locked = live.lab, live.add(TITLES, name="locked", target_table="analytics.locked")
    other = live.add(TITLES, name="other", target_table="analytics.other")
    with lab.runner():
        wait_for(lambda: is_followed(lab, locked) and is_followed(lab, other), 30)
        with psycopg.connect(lab.conninfo) as person:
            person.execute("UPDATE etl.etl_pipelines SET status = 'PAUSED' WHERE name = 'locked'")
            for n in range(3):
                lab.sql("UPDATE content.film_work SET title = title || %s", str(n))
                wait_for(lambda: is_equal(lab, other))
        wait_for(lambda: lab.status(locked) == "PAUSED")
        assert is_followed(lab, other)


def test_runners_share_what_there_is(live: Living) -> None:
    lab = live.lab
    marts = [live.add(TITLES, name=f"m{n}", target_table=f"analytics.m{n}") for n in range(4)]
    live.follow(*marts)
    owners = "SELECT count(DISTINCT owner) FROM etl.etl_leases WHERE owner IS NOT NULL"
    desks = [desk(lab) for _ in range(2)]
    for each in desks:
        each.heartbeat._beat(lab.db)
    for each in desks:
        each.look(lab.db)
    assert lab.value(owners) == 2
    assert sorted(len(each._held()) for each in desks) == [2, 2]
    for each in desks:
        each.stopping.set()
        each.stop()
    assert lab.value(owners) == 0


def desk(lab: Lab) -> FollowingDesk:
    identity = Identity()
    heartbeat = Heartbeat(lab.connections, identity, 60, 1)
    return FollowingDesk(lab.connections, identity, heartbeat, Event())


def test_a_runner_that_stops_keeps_no_mart_whatever_reaches_its_desk_last(live: Living) -> None:
    """Whoever ends is woken once more, and a crew lets go while the desk may still hand it something."""
    lab, owned = live.lab, "SELECT count(*) FROM etl.etl_leases WHERE owner IS NOT NULL"
    pipeline = live.add(TITLES)
    live.follow(pipeline)
    leaving = desk(lab)
    leaving.look(lab.db)
    assert lab.value(owned) == 1
    leaving.stopping.set()
    wait_for(lambda: lab.value(owned) == 0)
    leaving.look(lab.db)
    assert lab.value(owned) == 0, "it takes nothing any more"
    taken = leaving._repo(lab.db).take(pipeline.id)
    assert taken
    next(leaving._all()).add(taken[0], is_suspect=False)
    leaving.stop()
    assert lab.value(owned) == 0


def test_one_that_a_runner_died_of_is_proven_before_the_next_is_taken(live: Living) -> None:
    lab = live.lab
    marts = [live.add(TITLES, name=f"m{n}", target_table=f"analytics.m{n}") for n in range(3)]
    live.follow(*marts)
    dead = FollowingRepo(lab.db, uuid4(), "dead", 0)
    for mart in marts:
        assert dead.take(mart.id)
    successor = desk(lab)
    successor.look(lab.db)
    assert len(successor._held()) == 1
    wait_for(lambda: not any(crew.is_unproven() for crew in successor._all()))
    assert lab.value("SELECT max(crashes) FROM etl.etl_leases WHERE owner IS NOT NULL AND runner <> 'dead'") == 0
    successor.look(lab.db)
    assert len(successor._held()) == 2
    successor.stopping.set()
    successor.stop()


def test_the_third_runner_that_dies_of_following_it_is_the_last(live: Living) -> None:
    lab, pipeline = live.lab, live.add(TITLES)
    live.follow(pipeline)
    for number in range(3):
        taken = FollowingRepo(lab.db, uuid4(), "dead", 0).take(pipeline.id)
        assert taken
        assert taken[1] == number
    desk(lab).look(lab.db)
    assert lab.status(pipeline) == "FAILED"
    assert "lost 3 times in a row while following" in lab.last_run(pipeline)["error"]


def test_positions_of_marts_that_nothing_concerns_are_moved_together(
    live: Living, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vitrina.runner.crew.FAR_BEHIND", 100)
    lab = live.lab
    marts = [live.add(TITLES, name=f"m{n}", target_table=f"analytics.m{n}") for n in range(2)]
    with lab.runner():
        wait_for(lambda: all(is_followed(lab, mart) for mart in marts), 30)
        for _ in range(2):
            lab.sql("UPDATE ugc.ratings SET rating = 3")
            live.catch_up()
            wait_for(lambda: all(live.position(mart)["id"] > live.tip.last_id - 100 for mart in marts))
            lab.sql("UPDATE content.film_work SET title = title || '.'")
            wait_for(lambda: all(is_equal(lab, mart) for mart in marts))
    assert [len(runs(lab, mart)) for mart in marts] == [1, 1]


def test_one_run_by_hand_follows_too(live: Living) -> None:
    """For outside orchestrators: nobody else may be there to follow."""
    lab, pipeline = live.lab, live.add(TITLES)
    live.follow(pipeline)
    lab.sql("UPDATE content.film_work SET title = title || '.'")
    live.catch_up()
    assert Runner(lab.connections).run_once() == 1
    assert is_equal(lab, pipeline)
    assert lab.status(pipeline) == "FOLLOWING"


# ── indexes ──────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def search(lab: Lab, elastic: str, index_prefix: str) -> Iterator[Search]:
    with open_search(lab, elastic, index_prefix) as search:
        yield search


@AT_RATES
def test_a_new_index_is_served_at_any_traffic_and_ends_equal(search: Search, rate: int) -> None:
    lab = search.lab
    with living(lab, "wal"):
        pipeline = search.add(mode="live", source_query=TITLES)
        with lab.runner():
            with writing(lab, rate):
                wait_for(lambda: is_followed(lab, pipeline), 30)
                assert search.serves()
            wait_for(lambda: search.documents() == search.wanted(pipeline), 30)
        assert is_prompt(within(lab, pipeline, "index_verified", "index_served"), 3)


def seen_with(search: Search, title: str) -> int:
    """How many a search finds, without a refresh of its own."""
    query = {"query": {"match_phrase": {"title": title}}, "track_total_hits": True}
    answer = search.http.post(f"/{search.name()}/_search", json=query).raise_for_status()
    return int(answer.json()["hits"]["total"]["value"])


def as_of(found: dict[UUID, Freshness], pipeline: Pipeline) -> datetime:
    """It is known."""
    at = found[pipeline.id].as_of
    assert at
    return at


def test_an_index_is_as_fresh_as_what_a_search_sees_and_not_as_what_was_sent(search: Search) -> None:
    lab = search.lab
    with living(lab, "wal") as live:
        pipeline = search.add(mode="live", source_query=TITLES, settings={"refresh_interval": "1h"})
        table = live.add(TITLES)
        live.follow(pipeline, table)
        for word in ("quokka", "numbat"):
            lab.sql("UPDATE content.film_work SET title = %s WHERE title <> %s", word, word)
            live.catch_up()
            Runner(lab.connections).run_once()
            found = freshness(lab.db, [pipeline.id, table.id])
            assert [found[one.id].state for one in (pipeline, table)] == ["following", "following"]
            assert seen_with(search, word) == 0
            since = live.position(pipeline)["unseen_from"]
            assert found[pipeline.id].as_of == datetime.fromisoformat(since)
            assert as_of(found, table) > as_of(found, pipeline)
            if word == "quokka":
                first = since
        assert since == first, "of the oldest change that is not seen"
        over = "jsonb_set(checkpoint, '{live,unseen_until}', to_jsonb(now()))"
        lab.sql(f"UPDATE etl.etl_state SET checkpoint = {over} WHERE pipeline_id = %s", pipeline.id)
        assert as_of(freshness(lab.db, [pipeline.id]), pipeline) >= as_of(found, table)


def within(lab: Lab, pipeline: Pipeline, first: str, last: str) -> float:
    """Seconds between two events of its runs."""
    at = {event["event"]: event["at"] for event in lab.events(pipeline)}
    return float((at[last] - at[first]).total_seconds())


def test_the_old_index_is_served_until_one_of_another_mapping_is_whole(search: Search) -> None:
    lab = search.lab
    with living(lab, "wal"):
        pipeline = search.add(mode="live", source_query=TITLES)
        with lab.runner(), writing(lab, 50):
            wait_for(lambda: is_followed(lab, pipeline), 30)
            before = search.serves()
            mapping = '{"title": {"type": "keyword"}}'
            lab.sql("UPDATE etl.etl_pipelines SET mapping = %s::jsonb WHERE id = %s", mapping, pipeline.id)
            wait_for(lambda: len(runs(lab, pipeline)) == 2 and is_followed(lab, pipeline), 30)
            assert search.serves() != before
        with lab.runner():
            wait_for(lambda: search.documents() == search.wanted(pipeline), 30)

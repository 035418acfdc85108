"""Going live, and going live again: no open transaction is lost, and whatever breaks continuity means a comparison."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Thread

import psycopg
import pytest

from tests.capturing import Captured
from tests.integration.test_live import AGGREGATE, CARD
from tests.living import TABLES, Living, living
from tests.patience import patient
from tests.support import BLOCKED, Lab, wait_for
from vitrina.capture import barrier, log
from vitrina.capture.installation import remove
from vitrina.capture.status import report
from vitrina.control.services.freshness import freshness
from vitrina.domain.pipeline import Pipeline
from vitrina.meta.db import fetch_all, queries
from vitrina.meta.repos.pipelines import PipelineRepo
from vitrina.runner.main import Runner

RATE = """INSERT INTO ugc.ratings (id, user_id, film_id, rating)
    SELECT gen_random_uuid(), gen_random_uuid(), id, 9 FROM content.film_work"""
VOTES = (
    "CREATE OR REPLACE VIEW content.votes AS SELECT film_id, count(*) * {} AS votes FROM ugc.ratings GROUP BY film_id"
)


@pytest.fixture(params=["wal", "trigger"])
def live(request: pytest.FixtureRequest, lab: Lab) -> Iterator[Living]:
    with living(lab, request.param) as live:
        yield live


@pytest.fixture
def wal(lab: Lab) -> Iterator[Living]:
    with living(lab, "wal") as live:
        yield live


@contextmanager
def open_rating(lab: Lab) -> Iterator[psycopg.Connection]:
    """Somebody who has rated every film and has not committed."""
    with psycopg.connect(lab.conninfo) as writer:
        writer.execute(RATE)
        yield writer


@contextmanager
def running(lab: Lab, pipeline: Pipeline) -> Iterator[None]:
    """One run in the background, waited for at the end."""
    lab.request(pipeline)
    thread = Thread(target=lambda: Runner(lab.connections).run_once(pipeline.id), daemon=True)
    thread.start()
    yield
    thread.join(patient(30))
    assert not thread.is_alive()


def is_waiting(lab: Lab, pipeline: Pipeline) -> bool:
    return "barrier_set" in [event["event"] for event in lab.events(pipeline)]


def added_under_a_writer(live: Living, writer: psycopg.Connection) -> Pipeline:
    """A mart over a table that is captured only after somebody has written to it."""
    del writer
    pipeline = live.add(AGGREGATE)
    live.captured.install("ugc.ratings")
    return pipeline


@pytest.mark.scenario(59)
def test_a_transaction_open_before_its_table_was_captured_is_waited_for(lab: Lab) -> None:
    tables = [table for table in TABLES if table != "ugc.ratings"]
    lab.sql("ALTER TABLE ugc.ratings REPLICA IDENTITY FULL")
    with living(lab, "wal", tables) as live, open_rating(lab) as writer:
        pipeline = added_under_a_writer(live, writer)
        with running(lab, pipeline):
            wait_for(lambda: is_waiting(lab, pipeline))
            wait_for(lambda: "barred" in live.events(pipeline))
            assert "comparing" not in live.events(pipeline)
            assert f"session {writer.info.backend_pid} of" in str([event["fields"] for event in lab.events(pipeline)])
            writer.commit()
        assert "live" in live.events(pipeline)
        live.follow(pipeline)
        live.assert_equal(pipeline)


def test_without_waiting_it_would_be_lost(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    tables = [table for table in TABLES if table != "ugc.ratings"]
    lab.sql("ALTER TABLE ugc.ratings REPLICA IDENTITY FULL")
    monkeypatch.setattr(barrier, "holder_of", lambda *_: None)
    with living(lab, "wal", tables) as live, open_rating(lab) as writer:
        pipeline = added_under_a_writer(live, writer)
        with running(lab, pipeline):
            pass
        writer.commit()
        live.follow(pipeline)
        with pytest.raises(AssertionError):
            live.assert_equal(pipeline)


def test_waiting_can_be_paused(wal: Living) -> None:
    pipeline = wal.add(AGGREGATE)
    with open_rating(wal.lab), running(wal.lab, pipeline):
        wait_for(lambda: is_waiting(wal.lab, pipeline))
        PipelineRepo(wal.lab.db).request_pause(pipeline.id)
    assert wal.lab.status(pipeline) == "PAUSED"
    wal.follow(pipeline)
    wal.assert_equal(pipeline)


@pytest.mark.scenario(60)
def test_a_change_of_a_key_whose_batch_is_under_way_is_not_lost(live: Living) -> None:
    lab, pipeline = live.lab, live.add(CARD)
    live.follow(pipeline)
    film = lab.value("SELECT id FROM content.film_work LIMIT 1")
    lab.sql("UPDATE content.film_work SET title = 'first' WHERE id = %s", film)
    live.catch_up()
    with psycopg.connect(lab.conninfo) as reader:
        reader.execute("SELECT FROM analytics.mart WHERE film_id = %s FOR UPDATE", [film])
        with running(lab, pipeline):
            wait_for(lambda: lab.value(BLOCKED))
            lab.sql("UPDATE content.film_work SET title = 'second' WHERE id = %s", film)
            live.catch_up()
            reader.rollback()
    live.follow(pipeline)
    assert lab.value("SELECT title FROM analytics.mart WHERE film_id = %s", film) == "second"
    live.assert_equal(pipeline)


def test_a_mart_goes_live_and_back_without_a_row_rewritten(live: Living) -> None:
    lab = live.lab
    cursor = {"incremental_key": "modified", "incremental_id_key": "film_id"}
    select = "SELECT id AS film_id, title, rating, modified FROM content.film_work"
    pipeline = live.add(select, mode="incremental", **cursor)
    lab.run(pipeline)
    for mode in ("live", "full", "live", "incremental", "live"):
        names = cursor if mode == "incremental" else dict.fromkeys(cursor)
        sets = ", ".join(f"{name} = %s" for name in ["mode", *names])
        lab.sql(f"UPDATE etl.etl_pipelines SET {sets} WHERE id = %s", mode, *names.values(), pipeline.id)
        run = live.follow(pipeline)
        assert (run["rows_written"], run["rows_deleted"]) == (0, 0)
        lab.sql("UPDATE content.film_work SET title = title || '!', modified = clock_timestamp() WHERE rating > 5")
        changed = live.follow(pipeline)
        assert changed["rows_written"] > 0
        live.assert_equal(pipeline)


def test_another_query_is_compared(wal: Living) -> None:
    pipeline = wal.add(CARD)
    wal.follow(pipeline)
    select = CARD.replace("f.title, ", "upper(f.title) AS title, ")
    wal.lab.sql("UPDATE etl.etl_pipelines SET source_query = %s WHERE id = %s", select, pipeline.id)
    wal.follow(pipeline)
    assert wal.why(pipeline) == "it is not live yet"
    wal.assert_equal(pipeline, select)


def test_a_replaced_view_is_compared(wal: Living) -> None:
    lab = wal.lab
    lab.sql(VOTES.format(1))
    lab.sql("GRANT SELECT ON content.votes TO vitrina_reader")
    pipeline = wal.add("SELECT film_id, votes FROM content.votes")
    wal.follow(pipeline)
    lab.sql(VOTES.format(2))
    wal.follow(pipeline)
    assert wal.why(pipeline) == "the view content.votes was replaced"
    wal.assert_equal(pipeline)
    wal.follow(pipeline)
    assert wal.why(pipeline) == ""


def test_a_mart_dropped_by_hand_is_filled_again(wal: Living) -> None:
    pipeline = wal.add(CARD)
    wal.follow(pipeline)
    wal.lab.sql("DROP TABLE analytics.mart")
    wal.follow(pipeline)
    assert wal.why(pipeline) == "the mart was created or extended"
    wal.assert_equal(pipeline)


# ── changes may be missing ───────────────────────────────────────────────────────────────────────────────────


def drop_slot(captured: Captured) -> None:
    captured.lab.sql("SELECT pg_drop_replication_slot(%s)", captured.capture.slot)


def drop_publication(captured: Captured) -> None:
    captured.lab.sql(f"DROP PUBLICATION {captured.capture.publication}")
    captured.install(*captured.capture.tables)  # the capture's role may not publish tables of others


def promote(captured: Captured) -> None:
    captured.lab.sql("UPDATE etl.etl_captures SET timeline = timeline + 1")


def restore(captured: Captured) -> None:
    captured.lab.sql("UPDATE etl.etl_captures SET system_identifier = '1'")


def install_anew(captured: Captured) -> None:
    tables = captured.capture.tables
    remove(captured.lab.db, captured.conn, captured.capture)
    captured.lab.sql("UPDATE content.film_work SET title = title || '?'")
    captured.install(*tables)
    captured.lab.sql("UPDATE content.film_work SET title = title || '!'")  # until the log is as long as it was


@pytest.mark.parametrize(
    ("happens", "said"),
    [
        (drop_slot, "was dropped"),
        (drop_publication, "publication"),
        (promote, "the source is another server now"),
        (restore, "the source is another server now"),
        (install_anew, "the capture was installed anew"),
    ],
)
def test_what_breaks_continuity_means_a_comparison(wal: Living, happens: Callable[[Captured], None], said: str) -> None:
    lab, pipeline = wal.lab, wal.add(CARD)
    wal.follow(pipeline)
    wal.captured.stop()
    before = wal.tip
    lab.sql("DELETE FROM content.film_work WHERE rating > 8")
    happens(wal.captured)
    wal.captured.start()
    wait_for(lambda: (wal.tip.slot, wal.tip.generation) != (before.slot, before.generation))
    wal.follow(pipeline)
    assert said in wal.why(pipeline)
    wal.assert_equal(pipeline)
    lab.sql("UPDATE content.genre SET name = name || '!'")
    wal.follow(pipeline)
    assert wal.why(pipeline) == ""
    wal.assert_equal(pipeline)


def test_no_backlog_is_told_of_a_log_that_was_begun_anew(wal: Living) -> None:
    """Its position is an id of the log that is gone; the new one is shorter."""
    lab, pipeline = wal.lab, wal.add(CARD)
    lab.sql("UPDATE content.film_work SET title = title || '?'")
    wal.follow(pipeline)
    wal.captured.stop()
    tables = wal.captured.capture.tables
    remove(lab.db, wal.captured.conn, wal.captured.capture)
    wal.captured.install(*tables)
    [status] = report(lab.db, wal.captured.capture)["pipelines"]
    [metric] = fetch_all(lab.db, queries("metrics")["pipelines"])
    assert status["id"] > wal.tip.last_id
    assert (status["backlog"], metric["backlog"]) == (None, None)
    assert freshness(lab.db, [pipeline.id])[pipeline.id].why == "changes may be missing: the capture was installed anew"


def test_a_log_that_no_longer_reaches_back_means_a_comparison(wal: Living) -> None:
    lab, pipeline = wal.lab, wal.add(CARD)
    wal.follow(pipeline)
    lab.sql("UPDATE content.genre SET name = name || '!'")
    wal.catch_up()
    lab.sql("UPDATE etl.etl_captures SET log_start = last_id + 1")
    lab.request(pipeline)
    Runner(lab.connections).run_once()
    assert wal.why(pipeline) == "the change log no longer reaches back to where it was"
    wal.assert_equal(pipeline)


def test_segments_dropped_while_they_are_read_are_noticed(wal: Living, monkeypatch: pytest.MonkeyPatch) -> None:
    lab, pipeline = wal.lab, wal.add(CARD)
    wal.follow(pipeline)
    lab.sql("UPDATE content.genre SET name = name || '!'")
    wal.catch_up()
    read_slice = log.read_slice

    def read_what_is_left(*args: object) -> object:
        """As if the log had been trimmed between two looks at it."""
        lab.sql("UPDATE etl.etl_captures SET log_start = last_id + 1")
        return [], wal.tip.last_id

    monkeypatch.setattr(log, "read_slice", read_what_is_left)
    lab.request(pipeline)
    Runner(lab.connections).run_once()
    monkeypatch.setattr(log, "read_slice", read_slice)
    wal.follow(pipeline)
    whys = [event["fields"].get("why") for event in lab.events(pipeline)]
    assert "the change log no longer reaches back to where it was" in whys
    wal.assert_equal(pipeline)


def test_a_slot_that_is_gone_is_waited_for_until_the_capture_has_made_another(wal: Living) -> None:
    lab, pipeline = wal.lab, wal.add(CARD)
    wal.captured.stop()
    lab.sql("SELECT pg_drop_replication_slot(%s)", wal.captured.capture.slot)
    with running(lab, pipeline):
        wait_for(lambda: lab.status(pipeline) == "RUNNING")
        wal.captured.start()
    assert lab.last_run(pipeline)["status"] == "SUCCESS"
    wal.assert_equal(pipeline)


def test_a_table_not_captured_for_a_while_fails_with_the_remedy_and_then_catches_up(wal: Living) -> None:
    lab, pipeline = wal.lab, wal.add(AGGREGATE)
    wal.follow(pipeline)
    remove(lab.db, lab.db, wal.captured.capture, ["ugc.ratings"])
    wait_for(lambda: wal.tip.last_id > wal.position(pipeline)["id"])
    run = lab.run(pipeline)
    assert run["status"] == "FAILED"
    assert "not captured: ugc.ratings" in run["said"]
    assert "vitrina capture install --source warehouse --tables ugc.ratings" in run["said"]
    lab.sql("DELETE FROM ugc.ratings WHERE rating > 8")
    wal.captured.install("ugc.ratings")
    wal.follow(pipeline)
    wal.assert_equal(pipeline)

"""The query of several targets is read once for those that are due together; whoever is late reads for itself."""

from typing import Any

import pytest

from tests.integration.test_targets import BOTH, member, run_all, shared
from tests.patience import wait_for
from tests.support import Lab
from vitrina.domain.pipeline import Pipeline
from vitrina.meta.db import connect
from vitrina.meta.repos.pipelines import PipelineRepo
from vitrina.runner.main import Runner
from vitrina.runner.manager import PipelineManager

COUNTED = "SELECT id AS film_id, title FROM content.counted"
THREE = [*BOTH, "analytics.three"]
HERE = " AND datname = current_database()"  # the server is shared with other tests
WAITING = (
    "SELECT FROM pg_stat_activity WHERE query LIKE '%%pg_try_advisory_xact_lock%%' AND usename = 'vitrina_runner'"
    + HERE
)
SCANS = "SELECT seq_scan + coalesce(idx_scan, 0) FROM pg_stat_user_tables WHERE relname = 'counted'"


def counted(lab: Lab, **config: Any) -> Pipeline:
    """A pipeline of several targets over a table that tells how often it was read."""
    lab.sql("CREATE TABLE content.counted AS SELECT id, title FROM content.film_work")
    lab.sql("GRANT SELECT ON content.counted TO vitrina_reader")
    return shared(lab, source_query=COUNTED, **config)


def reads(lab: Lab) -> int:
    """So far, once nobody has anything to tell."""
    wait_for(lambda: lab.value("SELECT count(*) FROM pg_stat_activity WHERE usename = 'vitrina_reader'" + HERE) == 0)
    lab.sql("SELECT pg_stat_force_next_flush()")  # what this session has read
    lab.sql("SELECT pg_stat_clear_snapshot()")
    return int(lab.value(SCANS))


def read_for_all(lab: Lab, target: str) -> list[bool]:
    return [e["fields"]["read_for_all"] for e in lab.events(member(lab, target)) if "read_for_all" in e["fields"]]


def run_again(lab: Lab) -> None:
    with lab.db.transaction():
        for target in BOTH:
            assert lab.request(member(lab, target))


def test_it_is_read_once_for_all_that_are_due_and_every_mart_is_equal(lab: Lab) -> None:
    whole = counted(lab, targets=THREE)
    before = reads(lab)
    run_all(lab, *THREE)
    for target in THREE:
        lab.assert_equal(whole, target)
    lab.sql("UPDATE content.counted SET title = upper(title) WHERE title < 'M'")
    lab.sql("DELETE FROM content.counted WHERE title > 'S'")
    between = reads(lab)
    run_all(lab, *THREE)
    assert reads(lab) - between == 1
    for target in THREE:
        lab.assert_equal(whole, target)
    assert between - before == 1 + len(THREE) + 2  # to compare each, and to update and delete
    assert sorted(flag for target in THREE for flag in read_for_all(lab, target)) == [False] * 4 + [True] * 2
    assert lab.sql("SELECT relname FROM pg_class WHERE relnamespace = 'etl_stage'::regnamespace") == []
    assert lab.value("SELECT count(*) FROM etl.etl_readings") == 0


def test_one_slot_after_the_other_reads_once_too(lab: Lab) -> None:
    lab.configure(slots=1)
    counted(lab)
    before = reads(lab)
    run_all(lab)
    assert reads(lab) - before == 1


def test_one_that_is_run_alone_reads_in_place(lab: Lab) -> None:
    whole = counted(lab)
    run_all(lab, BOTH[0])
    assert read_for_all(lab, BOTH[0]) == []
    lab.assert_equal(whole, BOTH[0])


def test_what_was_read_before_a_run_was_asked_for_is_not_used(lab: Lab) -> None:
    whole = counted(lab, targets=THREE)
    one, two, three = (member(lab, target) for target in THREE)
    with lab.db.transaction():
        for each in (one, two, three):
            assert lab.request(each)
    lab.sql("UPDATE etl.etl_pipelines SET status = 'PAUSED' WHERE id = %s", three.id)
    Runner(lab.connections).run_once(one.id)
    assert lab.value("SELECT count(*) FROM etl.etl_readings") == 1
    lab.sql("UPDATE content.counted SET title = 'since then'")
    assert lab.request(three)
    Runner(lab.connections).run_once(three.id)
    lab.assert_equal(whole, THREE[2])
    assert read_for_all(lab, THREE[2]) == [True]


def test_a_run_is_as_old_as_what_it_took(lab: Lab) -> None:
    counted(lab)
    with lab.db.transaction():
        for target in BOTH:
            assert lab.request(member(lab, target))
    Runner(lab.connections).run_once(member(lab, BOTH[0]).id)
    [(taken_at,)] = lab.sql("SELECT taken_at FROM etl.etl_readings")
    Runner(lab.connections).run_once(member(lab, BOTH[1]).id)
    assert lab.sql(
        "SELECT tried_at = %s, started_at > tried_at FROM etl.etl_runs WHERE pipeline_id = %s",
        taken_at,
        member(lab, BOTH[1]).id,
    ) == [(True, True)]


def test_who_waits_for_another_to_read_is_paused_if_asked_and_goes_on_if_that_one_dies(lab: Lab) -> None:
    whole = counted(lab)
    reading = "SELECT pg_advisory_xact_lock(hashtextextended('vitrina reading ' || %s::text, 0))"
    with connect(lab.conninfo, "reading") as other, lab.runner():
        with other.transaction():
            other.execute(reading, [whole.id])
            run_again(lab)
            wait_for(lambda: lab.value(f"SELECT count(*) FROM ({WAITING}) AS w") == 2)
            assert PipelineRepo(lab.db).request_pause(member(lab, BOTH[0]).id)
            wait_for(lambda: lab.status(member(lab, BOTH[0])) == "PAUSED")
        wait_for(lambda: lab.status(member(lab, BOTH[1])) == "IDLE")
    lab.assert_equal(whole, BOTH[1])


def test_a_restarted_server_and_an_emptied_table_are_not_believed(lab: Lab) -> None:
    whole = first_of_two(lab)
    lab.sql("UPDATE etl.etl_readings SET taken_at = pg_postmaster_start_time() - interval '1s'")
    lab.sql("UPDATE etl.etl_pipelines SET due_at = '2000-01-01' WHERE status = 'RUN_REQUESTED'")
    lab.sql(f"TRUNCATE etl_stage.r_{whole.id.hex}")
    Runner(lab.connections).run_once(member(lab, BOTH[1]).id)
    lab.assert_equal(whole, BOTH[1])


def test_another_query_is_another_reading(lab: Lab) -> None:
    whole = counted(lab)
    with lab.db.transaction():
        for target in BOTH:
            assert lab.request(member(lab, target))
    Runner(lab.connections).run_once(member(lab, BOTH[0]).id)
    narrower = f"{COUNTED} WHERE title < 'M'"
    lab.sql("UPDATE etl.etl_pipelines SET source_query = %s WHERE id = %s", narrower, whole.id)
    Runner(lab.connections).run_once(member(lab, BOTH[1]).id)
    lab.assert_equal(member(lab, BOTH[1]))


@pytest.mark.parametrize("mode", ["full", "incremental"])
def test_a_rebuild_and_a_repair_of_all_read_once(lab: Lab, mode: str) -> None:
    more: dict[str, Any] = {"incremental_key": "film_id"} if mode == "incremental" else {}
    whole = counted(lab, mode=mode, **more)
    run_all(lab)
    for target in BOTH:
        lab.sql(f"UPDATE {target} SET title = 'wrong'")
    for option in ("repair", "rebuild"):
        before = [len(read_for_all(lab, target)) for target in BOTH]
        with lab.db.transaction():
            for target in BOTH:
                assert lab.request(member(lab, target), **{option: True})
        Runner(lab.connections).run_once()
        told = [read_for_all(lab, target)[known:] for target, known in zip(BOTH, before, strict=True)]
        assert sorted(told) == [[False], [True]], option
        for target in BOTH:
            lab.assert_equal(whole, target)


def test_tidying_leaves_what_a_target_may_still_take_and_drops_the_rest(lab: Lab) -> None:
    whole = counted(lab)
    lab.sql(f"CREATE TABLE etl_stage.r_{whole.id.hex} (x int)")
    lab.sql(f"ALTER TABLE etl_stage.r_{whole.id.hex} OWNER TO vitrina_runner")
    held = "UPDATE etl.etl_leases SET owner = %s, expires_at = {} WHERE pipeline_id = %s"
    lab.sql(held.format("now()"), whole.id, member(lab, BOTH[0]).id)
    PipelineManager(lab.db).tidy()
    there = "SELECT to_regclass(%s) IS NOT NULL"
    assert lab.value(there, f"etl_stage.r_{whole.id.hex}")
    lab.sql("UPDATE etl.etl_leases SET owner = NULL, expires_at = NULL")
    PipelineManager(lab.db).tidy()
    assert not lab.value(there, f"etl_stage.r_{whole.id.hex}")


def first_of_two(lab: Lab) -> Pipeline:
    """Both are asked for, and the first has read for both."""
    whole = counted(lab)
    with lab.db.transaction():
        for target in BOTH:
            assert lab.request(member(lab, target))
    Runner(lab.connections).run_once(member(lab, BOTH[0]).id)
    assert lab.value("SELECT rows = (SELECT count(*) FROM content.counted) FROM etl.etl_readings")
    return whole


def test_rows_that_a_crash_took_are_read_anew(lab: Lab) -> None:
    whole = first_of_two(lab)
    lab.sql(f"TRUNCATE etl_stage.r_{whole.id.hex}")  # as a server does that recovers, which has not started since
    Runner(lab.connections).run_once(member(lab, BOTH[1]).id)
    lab.assert_equal(whole, BOTH[1])
    assert read_for_all(lab, BOTH[1]) == [True]


def test_the_note_of_a_reading_goes_with_its_rows(lab: Lab) -> None:
    assert lab.value("SELECT relpersistence FROM pg_class WHERE oid = 'etl.etl_readings'::regclass") == "u"


def test_who_comes_while_another_replaces_the_reading_waits_without_a_lock_and_can_be_paused(lab: Lab) -> None:
    """Longer than lock_timeout, as far as anybody can tell: nobody is ever seen to wait for a lock."""
    first_of_two(lab)
    two = member(lab, BOTH[1])
    reading = (
        "SELECT pg_advisory_xact_lock(hashtextextended('vitrina reading ' || part_of::text, 0)) FROM etl.etl_pipelines"
    )
    with connect(lab.conninfo, "reading") as other, lab.runner(), other.transaction():
        other.execute(f"{reading} WHERE id = %s", [two.id])
        other.execute("DELETE FROM etl.etl_readings")
        lab.sql("UPDATE etl.etl_pipelines SET status = 'RUN_REQUESTED' WHERE id = %s AND status = 'IDLE'", two.id)
        wait_for(lambda: lab.value(f"SELECT count(*) FROM ({WAITING}) AS w") == 1)
        assert lab.sql("SELECT query FROM pg_stat_activity WHERE wait_event_type = 'Lock'" + HERE) == []
        assert PipelineRepo(lab.db).request_pause(two.id)
        wait_for(lambda: lab.status(two) == "PAUSED")


def test_who_reads_anew_waits_without_a_lock_for_one_that_still_takes_the_old_rows(lab: Lab) -> None:
    whole = first_of_two(lab)
    two = member(lab, BOTH[1])
    lab.sql("UPDATE etl.etl_pipelines SET due_at = clock_timestamp() WHERE id = %s", two.id)
    lab.sql("UPDATE etl.etl_pipelines SET status = 'RUN_REQUESTED' WHERE id = %s", member(lab, BOTH[0]).id)
    asks = "SELECT FROM pg_stat_activity WHERE query LIKE '%%SELECT FROM gone%%' AND usename = 'vitrina_runner'" + HERE
    with connect(lab.conninfo, "taking") as other, lab.runner():
        with other.transaction():
            other.execute("SELECT FROM etl.etl_readings FOR KEY SHARE")
            wait_for(lambda: lab.value(f"SELECT count(*) FROM ({asks}) AS w") == 1)
            assert lab.sql("SELECT query FROM pg_stat_activity WHERE wait_event_type = 'Lock'" + HERE) == []
        wait_for(lambda: lab.status(two) == "IDLE")
    lab.assert_equal(whole, BOTH[1])


def test_what_is_asked_for_once_more_is_not_given_what_was_read_before(lab: Lab) -> None:
    whole = first_of_two(lab)
    lab.sql("UPDATE content.counted SET title = 'since then'")
    two = member(lab, BOTH[1])
    assert not lab.request(two)
    PipelineRepo(lab.db).ask_again(two.id)
    Runner(lab.connections).run_once(two.id)
    lab.assert_equal(whole, BOTH[1])

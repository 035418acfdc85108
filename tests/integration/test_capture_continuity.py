"""When changes may be missing: noticed, said, a new generation, and capturing goes on by itself."""

import time
from collections.abc import Iterator
from dataclasses import replace
from threading import Thread
from typing import Any

import psycopg
import pytest

from tests.capturing import Captured, capturing, capturing_from, own_server
from tests.support import wait_for
from vitrina.capture import log
from vitrina.capture.engine import Pace
from vitrina.capture.installation import uncovered
from vitrina.capture.stream import Stream
from vitrina.embedded.postgres import EmbeddedPostgres
from vitrina.meta.db import connect

KINDS = ["wal", "trigger"]


@pytest.fixture(scope="module")
def server() -> Iterator[EmbeddedPostgres]:
    with own_server(synchronous_commit="on", max_wal_size="64MB") as server:
        yield server


@pytest.fixture(scope="module")
def remote(server: EmbeddedPostgres) -> Iterator[Captured]:
    with capturing_from(server.conninfo(), "wal") as captured:
        captured.install()
        yield captured


@pytest.fixture
def wal(remote: Captured) -> Iterator[Captured]:
    yield from started(remote)


def started(captured: Captured) -> Iterator[Captured]:
    captured.start()
    captured.empty()
    captured.run("INSERT INTO content.keyed VALUES (1, 'before')")
    captured.catch_up()
    captured.generation = captured.capture.generation
    yield captured
    captured.stop()


def goes_on(captured: Captured, reason: str) -> None:
    """Another generation for this reason, and what comes now is captured."""
    generation = captured.generation + 1
    try:
        wait_for(lambda: captured.capture.generation == generation, 20)
    except AssertionError:
        raise AssertionError(captured.capture) from None
    assert reason in captured.capture.generation_reason
    captured.run("INSERT INTO content.keyed VALUES (99, 'after')")
    assert captured.catch_up()[-1]["new_image"]["title"] == "after"
    assert captured.capture.generation == generation
    assert not log.tip(captured.lab.db, captured.source).holds(generation - 1, captured.capture.last_id)


def test_a_slot_that_was_dropped(wal: Captured) -> None:
    wal.stop()
    wal.run("SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots")
    wal.run("INSERT INTO content.keyed VALUES (2, 'missed')")
    wal.start()
    goes_on(wal, "was dropped")


def test_a_slot_whose_wal_was_removed(wal: Captured) -> None:
    wal.stop()
    wal.conn.execute("ALTER SYSTEM SET max_slot_wal_keep_size = '1MB'")
    wal.conn.execute("SELECT pg_reload_conf()")
    try:
        for _ in range(8):
            wal.run("INSERT INTO content.items SELECT 1 WHERE false", "SELECT pg_logical_emit_message(false, 'x', 'x')")
            wal.conn.execute("SELECT pg_switch_wal()")
        wal.conn.execute("CHECKPOINT")
        assert wal.conn.execute("SELECT wal_status FROM pg_replication_slots").fetchall() == [{"wal_status": "lost"}]
        wal.start()
        goes_on(wal, "can no longer be read")
    finally:
        wal.conn.execute("ALTER SYSTEM RESET max_slot_wal_keep_size")
        wal.conn.execute("SELECT pg_reload_conf()")


def test_a_publication_that_was_dropped(wal: Captured) -> None:
    wal.run(f"DROP PUBLICATION {wal.capture.publication}", "INSERT INTO content.keyed VALUES (2, 'skipped')")
    goes_on(wal, "publication")


def test_a_table_that_was_taken_out_of_the_publication(wal: Captured) -> None:
    wal.run(f"ALTER PUBLICATION {wal.capture.publication} DROP TABLE content.keyed")
    goes_on(wal, "content.keyed")


def test_a_table_that_was_out_of_the_publication_for_a_moment_is_an_entry(wal: Captured) -> None:
    """Nobody looked meanwhile; its entry there is a new one."""
    wal.run(
        f"ALTER PUBLICATION {wal.capture.publication} DROP TABLE content.keyed",
        f"ALTER PUBLICATION {wal.capture.publication} ADD TABLE content.keyed",
    )
    wait_for(lambda: [c for c in wal.changes("content.keyed") if c["op"] == "R"])
    assert wal.capture.generation == wal.generation


def test_a_slot_that_somebody_else_has_read(wal: Captured) -> None:
    wal.stop()
    wal.run("INSERT INTO content.keyed VALUES (2, 'stolen')")
    wal.conn.execute(
        "SELECT count(*) FROM pg_logical_slot_get_binary_changes(%s, NULL, NULL, 'proto_version', '1',"
        " 'publication_names', %s)",
        [wal.capture.slot, wal.capture.publication],
    )
    wal.start()
    goes_on(wal, "read by somebody else")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ("system_identifier = '1'", "another server"),
        ("timeline = 7", "another server"),
        ("position = 'FFFF/0'", "set back to before FFFF/0"),
    ],
)
def test_another_server_or_an_older_one(wal: Captured, change: str, reason: str) -> None:
    """As after a failover or a restore: our position means nothing there."""
    wal.stop()
    wal.lab.sql(f"UPDATE etl.etl_captures SET {change}")
    wal.start()
    goes_on(wal, reason)


@pytest.mark.scenario(61)
def test_a_promotion_is_noticed(wal: Captured, server: EmbeddedPostgres) -> None:
    """The real thing: the server comes back on another timeline, with the same system identifier."""
    wal.stop()
    wal.conn.close()
    server.stop()
    home = server._home / "data"
    server._account.run(["touch", home / "standby.signal"])
    server.start()
    with psycopg.connect(server.conninfo(), autocommit=True) as conn:
        assert conn.execute("SELECT pg_promote()").fetchone() == (True,)
    wal.origin = connect(server.conninfo(), "origin")
    before = wal.capture.timeline
    wal.start()
    goes_on(wal, "timeline")
    assert wal.capture.timeline == (before or 0) + 1


def test_losing_continuity_again_and_again_is_slowed_down(wal: Captured) -> None:
    """Until the last time is long ago, as here by the clock of another pace."""
    wal.lab.sql("UPDATE etl.etl_captures SET generation = generation + 1, generation_at = clock_timestamp()")
    wal.generation += 1
    wal.stop()
    wal.start(Pace(look=0.2, quiet=3600))
    drop = "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots"
    end = "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots"

    def dropped() -> bool:
        wal.run(end)
        try:
            wal.run(drop)
        except psycopg.errors.ObjectInUse:
            return False
        return True

    wait_for(dropped)
    wait_for(dropped)
    wait_for(lambda: "lost again" in (wal.capture.last_error or ""))
    assert wal.capture.generation == wal.generation
    wal.stop()
    wal.start()  # and this one is in no such hurry
    goes_on(wal, "was dropped")


def test_a_commit_that_nobody_can_see_yet_waits(wal: Captured) -> None:
    """Decoded as soon as it is flushed; visible once the synchronous standby has answered."""
    wal.conn.execute("ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
    wal.conn.execute("SELECT pg_reload_conf()")

    def write() -> None:
        with psycopg.connect(wal.lab.connections.sources["other"], autocommit=True) as conn:
            conn.execute("INSERT INTO content.keyed VALUES (2, 'waits')")

    writer = Thread(target=write)
    try:
        wait_for(lambda: wal.conn.execute("SHOW synchronous_standby_names").fetchone()["synchronous_standby_names"])  # type: ignore[index]
        writer.start()
        waiting = "SELECT count(*) AS n FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND query LIKE 'INSERT%'"
        wait_for(lambda: wal.conn.execute(waiting).fetchone()["n"] == 1)  # type: ignore[index]
        decoded = "SELECT pg_current_wal_lsn() <= sent_lsn AS all FROM pg_stat_replication"
        wait_for(lambda: wal.conn.execute(decoded).fetchone()["all"])  # type: ignore[index]
        renewed = wal.capture.expires_at
        wait_for(lambda: wal.capture.expires_at != renewed)
        assert [c["new_image"]["id"] for c in wal.changes("content.keyed")] == ["1"]
    finally:
        wal.conn.execute("ALTER SYSTEM RESET synchronous_standby_names")
        wal.conn.execute("SELECT pg_reload_conf()")
        writer.join()
    assert [c["new_image"]["id"] for c in wal.catch_up()] == ["1", "2"]


def test_what_the_server_sends_again_is_skipped(wal: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if no acknowledgement had ever reached it, and it did not listen to where we want to start."""
    start = Stream.start
    monkeypatch.setattr(Stream, "acknowledge", lambda *_: None)
    monkeypatch.setattr(Stream, "start", lambda stream, slot, publication, _: start(stream, slot, publication, 0))
    for number in (2, 3, 4):
        wal.stop()
        wal.start()
        wal.run(f"INSERT INTO content.keyed VALUES ({number}, 'x')")
        wal.catch_up()
    assert [c["new_image"]["id"] for c in wal.changes("content.keyed")] == ["1", "2", "3", "4"]


def test_the_position_moves_on_while_nothing_happens(wal: Captured) -> None:
    """Other writes of the server must not keep its WAL for us."""
    lag = "SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), confirmed_flush_lsn) AS lag FROM pg_replication_slots"
    wal.run("CREATE TABLE content.other AS SELECT i, repeat('x', 1000) FROM generate_series(1, 3000) i")
    wait_for(lambda: wal.conn.execute(lag).fetchone()["lag"] < 10_000)  # type: ignore[index]
    assert wal.capture.generation == wal.generation


# ── triggers ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def local() -> Iterator[Captured]:
    with capturing("trigger") as captured:
        own = captured.lab.connections
        captured.lab.connections = replace(own, captures={"warehouse": captured.lab.conninfo})
        captured.install()
        yield captured


@pytest.fixture
def trigger(local: Captured) -> Iterator[Captured]:
    yield from started(local)


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("DROP SCHEMA vitrina_capture CASCADE", "was dropped"),
        ("ALTER TABLE content.keyed DISABLE TRIGGER vitrina_update", "triggers are off or missing on content.keyed"),
        ("DROP TRIGGER vitrina_truncate ON content.parts_1", "triggers are off or missing on content.parts_1"),
    ],
)
def test_triggers_that_were_taken_away(trigger: Captured, statement: str, reason: str) -> None:
    trigger.run(statement)
    goes_on(trigger, reason)


def test_a_source_set_back(trigger: Captured) -> None:
    trigger.stop()
    trigger.lab.sql("UPDATE etl.etl_captures SET position = '900000000:900000000:'")
    trigger.start()
    goes_on(trigger, "set back")


def test_a_position_that_was_lost_after_the_log_was_emptied(trigger: Captured) -> None:
    """As when the meta-store was restored from a backup."""
    trigger.stop()
    trigger.lab.sql("UPDATE vitrina_capture.half SET emptied = pg_current_snapshot()")
    trigger.lab.sql("UPDATE etl.etl_captures SET position = '10:10:'")
    trigger.start()
    goes_on(trigger, "emptied beyond the position")


def test_what_is_stored_is_emptied_at_the_source(trigger: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vitrina.capture.trigger.HALF_BYTES", 50_000)

    def left() -> Any:
        return trigger.lab.value(
            "SELECT (SELECT count(*) FROM vitrina_capture.log_0) + (SELECT count(*) FROM vitrina_capture.log_1)"
        )

    with psycopg.connect(trigger.lab.conninfo) as late:
        late.execute("INSERT INTO content.keyed VALUES (5000, 'late')")
        for n in range(4):
            trigger.run(f"INSERT INTO content.keyed SELECT {n} * 1000 + i, 'x' FROM generate_series(2, 500) i")
        trigger.catch_up()
        time.sleep(0.5)  # a half that an open transaction has written to stays
        assert left() > 0
        late.commit()
    wait_for(lambda: left() < 1000)
    trigger.catch_up()
    trigger.assert_replay_equals()


# ── rights, and partitions ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("kind", KINDS)
def test_what_the_role_may_not_put_right_is_said_and_install_puts_it_right(kind: str) -> None:
    broken = {"wal": "DROP PUBLICATION {}", "trigger": "DROP SCHEMA vitrina_capture CASCADE"}[kind]
    with capturing(kind) as captured:
        captured.install()
        captured.start()
        captured.catch_up()
        captured.run(broken.format(captured.capture.publication))
        wait_for(lambda: "vitrina capture install" in (captured.capture.last_error or ""))
        captured.install()
        goes_on(captured, "")
        assert captured.capture.last_error is None


@pytest.mark.parametrize("kind", KINDS)
def test_partitions_that_come_go_or_are_emptied_are_entries(kind: str) -> None:
    """Publishing through the root keeps silent about them."""
    steps = (
        "ALTER TABLE content.parts DETACH PARTITION content.parts_2",
        "ALTER TABLE content.parts ATTACH PARTITION content.parts_2 FOR VALUES FROM ('2026-02-01') TO ('2026-03-01')",
        "TRUNCATE content.parts_1",
    )
    with capturing(kind) as captured:
        captured.install()
        captured.start()
        captured.run("INSERT INTO content.parts VALUES (1, '2026-01-05'), (2, '2026-02-05')")
        captured.catch_up()
        for step in steps:
            base = captured.capture.last_id
            captured.run(step)
            wait_for(lambda: [c for c in captured.changes("content.parts") if c["op"] in "TR" and c["id"] > base])  # noqa: B023
        assert captured.capture.generation == 1


@pytest.mark.parametrize("kind", KINDS)
def test_a_new_partition_is_captured_or_asked_for(kind: str) -> None:
    with capturing(kind) as captured:
        captured.install()
        captured.start()
        captured.catch_up()
        captured.run(
            "CREATE TABLE content.parts_3 PARTITION OF content.parts FOR VALUES FROM ('2026-03-01') TO ('2026-04-01')",
            "ALTER TABLE content.parts_3 REPLICA IDENTITY FULL",
        )
        if kind == "trigger":
            wait_for(lambda: "content.parts_3" in (captured.capture.last_error or ""))
            captured.install()
        captured.run("INSERT INTO content.parts_3 VALUES (1, '2026-03-05', 'x')")
        assert {"id": "1", "day": "2026-03-05", "note": "x"} in [c["new_image"] for c in captured.catch_up()]


@pytest.mark.parametrize("kind", KINDS)
def test_a_table_that_is_dropped_does_not_stop_the_others(kind: str) -> None:
    with capturing(kind) as captured:
        captured.install()
        captured.start()
        captured.catch_up()
        captured.run("DROP TABLE content.items")
        wait_for(lambda: [c for c in captured.changes("content.items") if c["op"] == "R"])
        captured.run("INSERT INTO content.keyed VALUES (1, 'x')")
        assert captured.catch_up()[-1]["relation"] == "content.keyed"
        assert uncovered(captured.conn, captured.capture, ["content.items", "content.keyed"]) == {
            "content.items": "it does not exist"
        }

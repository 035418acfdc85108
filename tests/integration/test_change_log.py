"""The log itself: one writer, segments that are dropped, slices for followers, the barrier."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from threading import Thread
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from tests.capturing import Captured, capturing, logged
from tests.patience import SHORT_LEASE, wait
from tests.support import BLOCKED, Lab, wait_for
from vitrina.capture import appending as writer
from vitrina.capture import barrier, log
from vitrina.capture.appending import LogWriter
from vitrina.capture.changes import Change, Chunk
from vitrina.domain.errors import ConfigError, LeaseLost
from vitrina.meta.db import Connection, connect
from vitrina.meta.repos.captures import Capture, CaptureRepo, Origin
from vitrina.meta.repos.marks import CAPTURE, Mark
from vitrina.meta.repos.waits import in_words

TABLES = ("content.a", "content.b")
AT = "2026-01-01T00:00:00+00:00"


@pytest.fixture
def store() -> Iterator[Lab]:
    """A capture without a source: only its log is looked at."""
    with Lab.open("vitrina_template") as lab:
        repo = CaptureRepo(lab.db)
        repo.prepare("warehouse", "wal", None, f"vitrina_{uuid4().hex[:8]}")
        repo.installed("warehouse", TABLES, {}, Origin("0/10", "1", 1))
        yield lab


@contextmanager
def claimed(lab: Lab, seconds: float = 30, max_rows: int = 1_000_000) -> Iterator[tuple[Capture, LogWriter]]:
    with lab.connections.open_warehouse("test") as conn:
        held = wait(lambda: CaptureRepo(conn, seconds).claim("warehouse", uuid4(), "test"))
        assert held is not None  # at the latest when a predecessor that was ended is gone
        log_writer = LogWriter(conn, held, seconds, max_rows)
        log_writer.start()
        yield held, log_writer


def change(xid: int, relation: str = "content.a", image: str = "{}") -> Change:
    return Change(xid, f"0/{xid:X}", AT, relation, "I", None, image)


def chunk(*xids: int, position: str | None = "0/20") -> Chunk:
    return Chunk([change(xid) for xid in xids], position)


def read(lab: Lab, after: int = 0, limit: int = 1000, relations: tuple[str, ...] = TABLES) -> tuple[list[int], int]:
    told, last = log.read_slice(lab.db, "warehouse", after, limit, dict.fromkeys(relations, ()))
    ids = [row["id"] for row in logged(lab.db, "warehouse", after, relations) if row["id"] <= last]
    assert sum(one.changes for one in told) == len(ids)
    return ids, last


# ── one writer ───────────────────────────────────────────────────────────────────────────────────────────────


def test_position_and_changes_are_stored_together(store: Lab) -> None:
    with claimed(store) as (_, log_writer):
        log_writer.append(chunk(1, 1, position="0/77"))
    found = CaptureRepo(store.db).find("warehouse")
    assert found is not None
    assert (found.position, found.last_id, read(store)) == ("0/77", 2, ([1, 2], 2))


def test_a_part_of_a_transaction_is_seen_only_with_the_rest(store: Lab) -> None:
    with claimed(store) as (_, log_writer):
        log_writer.append(chunk(1))
        log_writer.append(chunk(2, 2, position=None))
        assert read(store) == ([1], 1)
        log_writer.append(chunk(2))
        assert read(store) == ([1, 2, 3, 4], 4)


def test_what_a_predecessor_left_unpublished_is_forgotten(store: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "SEGMENT_ROWS", 3)
    with claimed(store) as (_, log_writer):
        log_writer.append(chunk(1, 1))
        for _ in range(3):
            log_writer.append(chunk(2, 2, position=None))
        store.sql("UPDATE etl.etl_captures SET expires_at = now()")
    with claimed(store) as (_, log_writer):
        log_writer.append(chunk(3))
        assert [row["xid"] for row in logged(store.db, "warehouse", 0, TABLES)] == [1, 1, 3]
        assert read(store) == ([1, 2, 3], 3)


def test_only_one_claims_and_a_zombie_appends_nothing(store: Lab) -> None:
    with claimed(store, seconds=0.3) as (held, zombie):
        with store.connections.open_warehouse("other") as other:
            assert CaptureRepo(other, 30).claim("warehouse", uuid4(), "second") is None
            wait_for(lambda: CaptureRepo(other, 30).free())
            successor = CaptureRepo(other, 30).claim("warehouse", uuid4(), "second")
        assert successor is not None
        assert successor.epoch == held.epoch + 1
        with pytest.raises(LeaseLost):
            zombie.append(chunk(1))
        CaptureRepo(store.db).release(held)
        with pytest.raises(LeaseLost):
            CaptureRepo(store.db).start_over(held, "x", Origin("0/1", "1", 1), {})
        found = CaptureRepo(store.db).find("warehouse")
        assert found is not None
        assert (found.owner, found.generation) == (successor.owner, 1)
    assert read(store) == ([], 0)


def copy_with_a_pause(conn: Connection, name: str, pause: Callable[[], None]) -> None:
    """A COPY that is left, whatever happens in the pause: psycopg waits for its end before it closes the session."""
    with conn.cursor().copy(writer.COPY.format(writer._table(name))) as copy:
        copy.write_row((2, *change(2)))
        pause()


def test_a_zombie_in_the_middle_of_an_append_is_ended(store: Lab) -> None:
    """Stopped in a COPY it is no idle session, so only its successor can end it."""
    with claimed(store, seconds=SHORT_LEASE) as (_, zombie):
        zombie.append(chunk(1))
        conn, name = zombie._conn, store.value("SELECT name FROM etl.etl_change_segments")
        conn.execute("BEGIN")
        Mark(conn, "warehouse", CAPTURE).leave()
        zombie._lock()

        def take_over() -> None:
            wait_for(lambda: store.value("SELECT expires_at <= clock_timestamp() FROM etl.etl_captures"))
            with claimed(store) as (_, successor):
                successor.append(chunk(3))
            assert conn.pgconn.socket

        with pytest.raises(psycopg.Error):
            copy_with_a_pause(conn, name, take_over)
        conn.close()
    assert [row["xid"] for row in logged(store.db, "warehouse", 0, TABLES)] == [1, 3]


def test_images_come_with_the_wanted_columns_alone(store: Lab) -> None:
    wide = json.dumps({f"c{n}": "v" for n in range(60)})
    wanted = {"content.a": ["film", "id"], "content.b": list(json.loads(wide))}
    with claimed(store) as (_, log_writer):
        first = change(1, "content.a", '{"id": "1", "film": null, "body": "x"}')
        log_writer.append(Chunk([first, change(1, "content.b", wide)], "0/20"))
        a, b = log.read_slice(store.db, "warehouse", 0, 10, wanted)[0]
        assert (json.loads(a.images or ""), a.rows, a.lacks) == ([{"id": "1", "film": None}], 1, False)
        assert (json.loads(b.images or ""), b.lacks) == ([json.loads(wide)], False)
        log_writer.append(Chunk([change(2, "content.a", '{"id": "2", "body": "x"}')], "0/20"))
        assert [told.lacks for told in log.read_slice(store.db, "warehouse", 0, 10, wanted)[0]] == [True, False]


def test_an_old_row_that_says_the_same_as_the_new_one_is_left_out(store: Lab) -> None:
    rows = [('{"id": 1, "body": "x"}', '{"id": 1, "body": "y"}'), ('{"id": 2}', '{"id": 3}'), ('{"id": 4}', None)]
    with claimed(store) as (_, log_writer):
        changes = [change(1)._replace(op="U" if new else "D", old_image=old, new_image=new) for old, new in rows]
        log_writer.append(Chunk(changes, "0/20"))
    (told,) = log.read_slice(store.db, "warehouse", 0, 10, {"content.a": ["id"]})[0]
    assert json.loads(told.images or "") == [{"id": 1}, {"id": 2}, {"id": 3}, {"id": 4}]
    assert (told.rows, told.changes, told.upheaval) == (4, 3, False)


def test_keys_are_told_straight_and_once(store: Lab) -> None:
    images = [('{"a": 1, "b": "7"}', '{"a": 2, "b": "7"}'), (None, '{"a": 2, "b": "7"}'), ('{"a": 3, "b": null}', None)]
    wanted, keys = {"content.a": ["a", "b"], "content.b": ["id"]}, {"content.a": ["b", "a"]}
    with claimed(store) as (_, log_writer):
        changes = [change(1)._replace(op="U", old_image=old, new_image=new) for old, new in images]
        log_writer.append(Chunk([*changes, change(1, "content.b", '{"id": 5}')], "0/20"))
        a, b = log.read_slice(store.db, "warehouse", 0, 10, wanted, keys)[0]
        assert (a.changes, a.rows, a.images, a.upheaval, a.lacks) == (3, 2, None, False, False)
        assert sorted(zip(*(array.strip("{}").split(",") for array in a.keys or ()), strict=True)) == [
            ("7", "1"),
            ("7", "2"),
        ]
        assert (json.loads(b.images or ""), b.keys) == ([{"id": 5}], None)
        log_writer.append(
            Chunk([change(2, "content.a", '{"a": 4}'), Change(2, "0/2", AT, "content.a", "T", None, None)], "0/20")
        )
        (a,) = log.read_slice(store.db, "warehouse", 4, 10, {"content.a": ["a", "b"]}, keys)[0]
        assert (a.changes, a.rows, a.upheaval, a.lacks) == (2, 0, True, True)


def test_errors_are_kept_and_the_source_is_left_alone_for_longer_each_time(store: Lab) -> None:
    pauses = []
    for _ in range(4):
        store.sql("UPDATE etl.etl_captures SET retry_at = NULL")
        with claimed(store) as (held, _):
            CaptureRepo(store.db).fail(held, "it broke")
        found = CaptureRepo(store.db).find("warehouse")
        assert found is not None
        assert found.retry_at is not None
        assert (found.owner, found.last_error) == (None, "it broke")
        assert CaptureRepo(store.db).free() == []
        pauses.append((found.retry_at - found.now).total_seconds())
    assert [round(pause * 2) / 2 for pause in pauses] == [0.5, 1, 2, 4]


# ── segments ─────────────────────────────────────────────────────────────────────────────────────────────────


def follow(lab: Lab, name: str, position: int, generation: int = 1, *, enabled: bool = True) -> None:
    lab.sql(
        "INSERT INTO etl.etl_pipelines (name, mode, source_query, target_table, key, enabled)"
        " VALUES (%s, 'live', 'SELECT 1', 'analytics.' || %s, '{id}', %s)",
        name,
        name,
        enabled,
    )
    lab.sql(
        "UPDATE etl.etl_state SET checkpoint = jsonb_build_object('live', jsonb_build_object("
        "'source', 'warehouse', 'slot', (SELECT slot FROM etl.etl_captures),"
        " 'generation', %s::integer, 'id', %s::bigint))"
        " WHERE pipeline_id = (SELECT id FROM etl.etl_pipelines WHERE name = %s)",
        generation,
        position,
        name,
    )


def segments(lab: Lab) -> list[int]:
    rows = lab.sql("SELECT first_id FROM etl.etl_change_segments ORDER BY 1")
    assert lab.value("SELECT count(*) FROM pg_tables WHERE schemaname = 'etl_log'") == len(rows)
    return [first for (first,) in rows]


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "SEGMENT_ROWS", 10)


@pytest.mark.usefixtures("small")
def test_segments_that_all_have_passed_are_dropped(store: Lab) -> None:
    follow(store, "ahead", 45)
    follow(store, "slow", 25)
    follow(store, "of_another_generation", 1, generation=0)
    follow(store, "off", 1, enabled=False)
    with claimed(store) as (_, log_writer):
        for n in range(10):
            log_writer.append(chunk(*[n] * 5))
        assert segments(store) == [1, 11, 21, 31, 41]
        assert log_writer.tidy() == 2
        assert segments(store) == [21, 31, 41]
        assert read(store, after=25) == ([*range(26, 51)], 50)
        assert log_writer.tidy() == 0
    tip = log.tip(store.db, "warehouse")
    assert (tip.log_start, tip.holds(1, 25), tip.holds(1, 20), tip.holds(1, 19)) == (21, True, True, False)
    assert not tip.holds(0, 25)


@pytest.mark.usefixtures("small")
def test_the_log_does_not_grow_beyond_its_limit(store: Lab) -> None:
    follow(store, "asleep", 0)
    with claimed(store, max_rows=20) as (_, log_writer):
        for n in range(10):
            log_writer.append(chunk(*[n] * 5))
        log_writer.tidy()
    assert segments(store) == [31, 41]
    assert not log.tip(store.db, "warehouse").holds(1, 0)
    with pytest.raises(log.Behind, match="after 0 are gone — compare in full"):
        read(store)
    assert read(store, after=30) == ([*range(31, 51)], 50)
    (name,) = store.sql("SELECT name FROM etl.etl_change_segments ORDER BY first_id")[0]
    store.sql(f"DROP TABLE etl_log.{name}")  # as if it went just after the look at the log's start
    with pytest.raises(log.Behind):
        read(store, after=30)
    (row,) = CaptureRepo(store.db).followers("warehouse")
    assert row["backlog"] is None


@pytest.mark.usefixtures("small")
def test_a_segment_that_somebody_reads_is_dropped_later(store: Lab) -> None:
    with claimed(store) as (_, log_writer):
        for n in range(4):
            log_writer.append(chunk(*[n] * 5))
        with psycopg.connect(store.conninfo) as reader:
            (name,) = store.sql("SELECT name FROM etl.etl_change_segments ORDER BY first_id")[0]
            reader.execute(f"SELECT * FROM etl_log.{name}".encode())
            assert log_writer.tidy() == 0
            log_writer.append(chunk(9))  # and nobody is in anybody's way
        assert log_writer.tidy() == 2


# ── for followers ────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.usefixtures("small")
def test_slices_end_where_transactions_do(store: Lab) -> None:
    with claimed(store) as (_, log_writer):
        for n in range(6):
            log_writer.append(chunk(*[n] * 4))
    assert read(store, limit=10) == ([*range(1, 9)], 8)
    assert read(store, after=8, limit=16) == ([*range(9, 25)], 24)
    assert read(store, after=24) == ([], 24)


def test_a_transaction_larger_than_a_slice_is_cut(store: Lab) -> None:
    with claimed(store) as (_, log_writer):
        log_writer.append(chunk(*[1] * 8))
    assert read(store, limit=3) == ([1, 2, 3], 3)
    assert read(store, after=6, limit=3) == ([7, 8], 8)


@pytest.mark.usefixtures("small")
def test_a_slice_of_a_long_log_ends_within_its_window_and_where_a_transaction_does(
    store: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "WINDOW", 10)
    with claimed(store) as (_, log_writer):
        for n in range(8):
            log_writer.append(Chunk([change(n, "content.a"), *[change(n, "content.b")] * 3], "0/20"))
        log_writer.append(Chunk([change(9, "content.b")] * 14, "0/20"))
    only = ("content.a",)
    assert read(store, limit=5, relations=only) == ([1, 5], 8)
    assert read(store, after=8, limit=1, relations=only) == ([9], 12)
    assert read(store, after=28, limit=5, relations=only) == ([29], 32)
    assert read(store, after=32, limit=5, relations=only) == ([], 42)
    assert read(store, after=42, limit=5, relations=only) == ([], 46)


def test_a_slice_passes_over_other_relations(store: Lab) -> None:
    with claimed(store) as (_, log_writer):
        log_writer.append(Chunk([change(1), change(1, "content.b"), change(1, "content.b")], "0/20"))
    assert read(store, relations=("content.a",)) == ([1], 3)
    assert read(store, relations=()) == ([], 3)


def test_waiting_ends_when_something_comes(store: Lab) -> None:
    tip = log.tip(store.db, "warehouse")
    with store.connections.open_listener() as listener, claimed(store) as (_, log_writer):
        began = time.monotonic()
        assert replace(log.wait(listener, store.db, tip, 0.1), now=tip.now) == tip
        assert time.monotonic() - began >= 0.1
        thread = Thread(target=lambda: log_writer.append(chunk(1)))
        thread.start()
        assert log.wait(listener, store.db, tip, 10).last_id == 1
        thread.join()


def test_a_source_that_is_not_captured_is_said_plainly(lab: Lab) -> None:
    with pytest.raises(ConfigError, match="vitrina capture install"):
        log.tip(lab.db, "warehouse")


def test_the_barrier_waits_for_every_open_writer_and_names_it(lab: Lab) -> None:
    with psycopg.connect(lab.conninfo, application_name="slow writer") as slow, connect(lab.conninfo, "t") as conn:
        slow.execute("INSERT INTO content.genre (id, name) VALUES (gen_random_uuid(), 'x')")
        drawn = barrier.draw(conn)
        holder = barrier.holder_of(conn, drawn)
        assert holder
        assert (holder["application_name"], holder["state"]) == ("slow writer", "idle in transaction")
        assert f"session {slow.info.backend_pid} of postgres (slow writer), idle in transaction" in in_words(holder)
        slow.rollback()
        assert barrier.holder_of(conn, drawn) is None


def test_the_barrier_names_a_prepared_transaction(lab: Lab) -> None:
    with psycopg.connect(lab.conninfo) as writer, connect(lab.conninfo, "t") as conn:
        gid = f"left {writer.info.backend_pid}"
        writer.execute("INSERT INTO content.genre (id, name) VALUES (gen_random_uuid(), 'x')")
        writer.execute(f"PREPARE TRANSACTION '{gid}'".encode())
        drawn = barrier.draw(conn)
        holder = barrier.holder_of(conn, drawn)
        assert f"prepared transaction {gid} of postgres" in in_words(holder or {})
        conn.execute(f"ROLLBACK PREPARED '{gid}'".encode())
        assert barrier.holder_of(conn, drawn) is None


def test_of_whom_the_role_may_see_little_that_is_said(lab: Lab) -> None:
    blind = make_conninfo(lab.conninfo, user="vitrina_runner")
    with psycopg.connect(lab.conninfo) as writer, connect(blind, "t") as conn:
        writer.execute("INSERT INTO content.genre (id, name) VALUES (gen_random_uuid(), 'x')")
        holder, pid = barrier.holder_of(conn, barrier.draw(conn)), writer.info.backend_pid
    assert holder
    assert in_words(holder) == f"session {pid} of postgres (), of which this role may see no more"
    assert "may not see" in in_words({})


@pytest.mark.parametrize("role", ["postgres", "vitrina_reader"])
def test_the_barrier_does_not_wait_for_writers_of_another_database(lab: Lab, role: str) -> None:
    ours = make_conninfo(lab.conninfo, user=role)
    with psycopg.connect(lab.other_database()) as writer, connect(ours, "t") as conn:
        writer.execute("INSERT INTO content.genre (id, name) VALUES (gen_random_uuid(), 'x')")
        assert barrier.holder_of(conn, barrier.draw(conn)) is None


# ── going live ───────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("kind", ["wal", "trigger"])
def test_a_table_captured_while_a_writer_is_open_loses_nothing_behind_the_barrier(kind: str) -> None:
    """The row is in the log or in what is read after the barrier."""
    with capturing(kind) as captured, psycopg.connect(captured.lab.conninfo) as open_writer:
        captured.install("content.marks")
        captured.start()
        open_writer.execute("INSERT INTO content.keyed VALUES (1, 'early')")
        adding = Thread(target=_add_keyed, args=(captured,))
        adding.start()
        if kind == "wal":
            adding.join()
        else:  # a trigger is created once the writer has gone
            wait_for(lambda: captured.lab.value(BLOCKED) > 0)
            open_writer.commit()
            adding.join()
        with connect(captured.lab.conninfo, "t") as conn:
            tip = log.tip(conn, "warehouse")
            drawn = barrier.draw(conn)
            assert (barrier.holder_of(conn, drawn) is not None) == (kind == "wal")
            open_writer.commit()
            assert barrier.holder_of(conn, drawn) is None
            read_after: list[Any] = conn.execute("SELECT id FROM content.keyed").fetchall()
        captured.catch_up()
        logged = [c for c in captured.changes("content.keyed") if c["id"] > tip.last_id]
        assert read_after or logged


def _add_keyed(captured: Captured) -> None:
    with connect(captured.lab.conninfo, "t") as conn:
        Captured(captured.lab, captured.kind, origin=conn).install("content.keyed")

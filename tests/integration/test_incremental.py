"""Mode incremental on a real Postgres: cursors of every type, interruptions, horizons, and what it refuses."""

import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from tests.faults.children import FORKS, run_once
from tests.patience import patient, wait_for
from tests.support import Lab
from vitrina.domain.pipeline import Pipeline
from vitrina.engine.incremental import IncrementalSession
from vitrina.engine.job import StepResult
from vitrina.meta.db import Connection, connect, fetch_all
from vitrina.meta.repos.pipelines import PipelineRepo
from vitrina.meta.repos.state import StateRepo
from vitrina.runner.main import Runner
from vitrina.sources.postgres.horizon import SQL as HORIZON
from vitrina.transforms import Row, transform

NOTES = "SELECT id, body, modified FROM ugc.notes"
LATEST = "SELECT film_id, count(*) AS votes, max(modified) AS modified FROM ugc.ratings GROUP BY film_id"
VALUES = {
    "timestamptz": [
        "2020-01-01 00:00:00.000001+00",
        "2020-01-01 00:00:00.123456+14",
        "2020-01-01 00:00:00.999999-12",
        "2019-12-31 23:59:59.5+05:45",
        "0001-01-01 00:00:00+00",
        "4000-01-01 00:00:00+00 BC",
        "-infinity",
    ],
    "timestamp": ["2020-01-01 00:00:00.000001", "2020-01-01 00:00:00.000002", "0044-03-15 12:00:00 BC", "-infinity"],
    "timestamptz(0)": ["2020-01-01 00:00:01+00", "2020-01-01 00:00:01+03"],
    "date": ["2020-02-29", "1582-10-15", "0044-03-15 BC", "2001-09-09"],
    "int": ["-2147483648", "0", "2147483647"],
    "bigint": ["-9223372036854775808", "9007199254740993", "9223372036854775807"],
    "numeric": ["123456789012345678901234567890.123456789012345678901", "1e-30", "-1.50", "1e200"],
    "numeric(12, 3)": ["0.001", "-0.001", "999999999.999"],
    "text": ["", " ", "ё", "a'b", 'c"d', "e\\f", "{g,h}", "NULL", "i\nj", "%s"],
    "varchar(5)": ["abc", "abcde"],
    "char(4)": ["a", "abcd"],
    "uuid": ["00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff"],
    "float8": ["0.1", "0.30000000000000004", "1.7976931348623157e308", "5e-324", "-Infinity", "-1e-7"],
}


@pytest.fixture
def notes(lab: Lab) -> Lab:
    """A table with a change stamp, and three old rows in it."""
    make_notes(lab.db)
    return lab


def make_notes(conn: Connection) -> None:
    conn.execute("CREATE TABLE ugc.notes (id int PRIMARY KEY, body text, modified timestamptz DEFAULT now())")
    conn.execute("INSERT INTO ugc.notes SELECT n, 'old', '2020-01-01'::date + n FROM generate_series(1, 3) n")


def add(lab: Lab, **config: Any) -> Pipeline:
    """An incremental pipeline over the notes, or over something else."""
    defaults = {"source_query": NOTES, "key": ["id"], "mode": "incremental", "incremental_key": "modified"}
    return lab.add(**(defaults | config))


def counts(run: dict[str, Any]) -> tuple[int, int, int, int]:
    """Read, written, deleted, unchanged; of a run that went well."""
    assert (run["status"], run["error"]) == ("SUCCESS", None)
    return run["rows_read"], run["rows_written"], run["rows_deleted"], run["rows_unchanged"]


def window(lab: Lab, pipeline: Pipeline) -> dict[str, Any]:
    """What the latest run said about its window."""
    fields: dict[str, Any] = [e["fields"] for e in lab.events(pipeline) if e["event"] == "window"][-1]
    return fields


def checkpoint(lab: Lab, pipeline: Pipeline) -> str:
    """The cursor's value in the meta-store."""
    state = StateRepo(lab.db).get(pipeline.id)
    assert state is not None
    return str(state["last_processed_value"])


@contextmanager
def open_transaction(conninfo: str, *statements: str) -> Iterator[Connection]:
    """Somebody else's session, in a transaction that has done this much."""
    with connect(conninfo, "report") as conn:
        conn.execute("BEGIN")
        for statement in statements:
            conn.execute(statement.encode())
        yield conn
        conn.execute("ROLLBACK")


# ── cursors ──────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.scenario(31)
@pytest.mark.parametrize("type_", VALUES)
def test_a_cursor_of_any_type_comes_back_exactly(lab: Lab, type_: str) -> None:
    lab.sql(f"CREATE TABLE ugc.cursors (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, at {type_} NOT NULL)")
    for value in [*VALUES[type_], *VALUES[type_]]:
        lab.sql("INSERT INTO ugc.cursors (at) VALUES (%s)", value)
    pipeline = add(lab, source_query="SELECT id, at FROM ugc.cursors", incremental_key="at", batch_size=1)
    size = 2 * len(VALUES[type_])
    assert counts(lab.run(pipeline)) == (size, size, 0, 0)
    lab.assert_equal(pipeline)
    assert counts(lab.run(pipeline)) == (0, 0, 0, 0)


@pytest.mark.parametrize("type_", ["int", "text", "float8"])
def test_a_cursor_that_is_no_time_goes_on_from_where_it_was(lab: Lab, type_: str) -> None:
    lab.sql(f"CREATE TABLE ugc.cursors (id int PRIMARY KEY, at {type_} NOT NULL)")
    lab.sql("INSERT INTO ugc.cursors VALUES (1, '1'), (2, '2')")
    pipeline = add(lab, source_query="SELECT id, at FROM ugc.cursors", incremental_key="at")
    assert counts(lab.run(pipeline)) == (2, 2, 0, 0)
    assert "held_by" not in window(lab, pipeline)
    lab.sql("INSERT INTO ugc.cursors VALUES (0, '3'), (4, '3')")
    assert counts(lab.run(pipeline)) == (2, 2, 0, 0)
    lab.assert_equal(pipeline)


def test_a_counted_cursor_waits_for_who_was_open_and_then_catches_up_at_once(lab: Lab) -> None:
    lab.sql("CREATE TABLE ugc.cursors (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, body int)")
    pipeline = add(lab, source_query="SELECT id, body FROM ugc.cursors", incremental_key="id")
    with open_transaction(lab.conninfo, "INSERT INTO ugc.cursors (body) VALUES (1)") as late:
        lab.sql("INSERT INTO ugc.cursors (body) VALUES (2)")
        assert counts(lab.run(pipeline)) == (0, 0, 0, 0)
        assert window(lab, pipeline)["held_by"]["pid"] == late.info.backend_pid
        late.execute("COMMIT")
        lab.sql("INSERT INTO ugc.cursors (body) VALUES (3)")
        assert counts(lab.run(pipeline)) == (3, 3, 0, 0)
        late.execute("BEGIN")
        lab.sql("INSERT INTO ugc.cursors (body) VALUES (4)")
        assert counts(lab.run(pipeline)) == (0, 0, 0, 0)
    assert counts(lab.run(pipeline)) == (1, 1, 0, 0)


def test_a_counted_cursor_advances_though_somebody_is_always_open(lab: Lab) -> None:
    lab.sql("CREATE TABLE ugc.cursors (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, body int)")
    pipeline = add(lab, source_query="SELECT id, body FROM ugc.cursors", incremental_key="id")
    with open_transaction(lab.conninfo) as first, connect(lab.conninfo, "second") as second:
        lab.sql("INSERT INTO ugc.cursors (body) VALUES (1), (2)")
        assert counts(lab.run(pipeline)) == (0, 0, 0, 0)
        second.execute("BEGIN")
        first.execute("COMMIT")
        lab.sql("INSERT INTO ugc.cursors (body) VALUES (3)")
        assert counts(lab.run(pipeline)) == (2, 2, 0, 0)


def test_rows_without_a_zone_wait_for_the_later_of_both_clocks(lab: Lab) -> None:
    lab.sql(f"ALTER DATABASE {lab.db.info.dbname} SET TimeZone = 'America/New_York'")
    lab.sql("CREATE TABLE ugc.naive (id int PRIMARY KEY, modified timestamp)")
    lab.sql("INSERT INTO ugc.naive SELECT 1, now() AT TIME ZONE 'America/New_York' - interval '1 minute'")
    lab.sql("INSERT INTO ugc.naive SELECT 2, now() AT TIME ZONE 'UTC'")
    pipeline = add(lab, source_query="SELECT id, modified FROM ugc.naive")
    assert counts(lab.run(pipeline)) == (1, 1, 0, 0)


@pytest.mark.parametrize(
    ("zone", "day"),
    [("America/New_York", "2026-11-01"), ("Europe/Berlin", "2026-10-25"), ("Australia/Lord_Howe", "2026-04-04")],
)
def test_the_hour_that_comes_twice_is_not_final_before_it_has_come_twice(lab: Lab, zone: str, day: str) -> None:
    lab.sql(f"ALTER DATABASE {lab.db.info.dbname} SET TimeZone = '{zone}'")
    moments = [datetime.fromisoformat(f"{day}T00:00Z") + timedelta(minutes=10 * n) for n in range(200)]
    with connect(lab.conninfo, "clock") as conn:
        bounds = [fetch_all(conn, HORIZON["naive_bound"], {"at": at})[0]["bound"] for at in moments]
        query = "SELECT (m AT TIME ZONE %s)::text AS stamp FROM unnest(%s) m"
        stamps = [row["stamp"] for row in fetch_all(conn, query, [zone, moments])]
    assert all(bound <= min(stamps[number:]) for number, bound in enumerate(bounds))


# ── many rows with one stamp, and interruptions ──────────────────────────────────────────────────────────────────


@pytest.fixture
def crowd(lab: Lab) -> Lab:
    """10,000 rows that were stamped alike."""
    lab.sql("CREATE TABLE ugc.notes (id int PRIMARY KEY, body text, modified timestamptz)")
    lab.sql("INSERT INTO ugc.notes SELECT n, 'x', '2020-01-01' FROM generate_series(1, 10000) n")
    return lab


def after_batches(monkeypatch: pytest.MonkeyPatch, number: int, action: Any) -> None:
    """Do something in the step of a batch, when its rows are written and not yet committed."""
    batch, done = IncrementalSession._batch, 0

    def patched(self: IncrementalSession, conn: Connection) -> StepResult:
        nonlocal done
        done += 1
        result = batch(self, conn)
        if done == number:
            action()
        return result

    monkeypatch.setattr(IncrementalSession, "_batch", patched)


@pytest.mark.scenario(25)
def test_ten_thousand_rows_with_one_stamp_arrive_in_batches_of_a_hundred(crowd: Lab) -> None:
    pipeline = add(crowd, batch_size=100)
    run = crowd.run(pipeline)
    assert counts(run) == (10_000, 10_000, 0, 0)
    assert run["batches"] == 101
    crowd.assert_equal(pipeline)


@pytest.mark.scenario(25)
def test_a_runner_killed_among_them_loses_none_and_repeats_none(crowd: Lab) -> None:
    pipeline = add(crowd, batch_size=100)
    crowd.request(pipeline)
    child = FORKS.Process(target=run_once, args=(crowd.connections, pipeline, "before checkpoint=kill:40"))
    child.start()
    child.join(patient(60))
    assert child.exitcode == -signal.SIGKILL
    done = crowd.value("SELECT count(*) FROM analytics.mart")
    assert 0 < done < 10_000
    crowd.sql("UPDATE etl.etl_leases SET expires_at = clock_timestamp()")
    Runner(crowd.connections).run_once(pipeline.id)
    assert counts(crowd.last_run(pipeline)) == (10_000, 10_000, 0, 0)  # of both attempts
    crowd.assert_equal(pipeline)


def test_a_run_paused_among_them_goes_on_where_it_was(crowd: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = add(crowd, batch_size=100)
    after_batches(monkeypatch, 5, lambda: PipelineRepo(crowd.db).request_pause(pipeline.id))
    run = crowd.run(pipeline)
    assert (run["status"], run["rows_written"], crowd.status(pipeline)) == ("PAUSED", 500, "PAUSED")
    assert counts(crowd.run(pipeline)) == (9_500, 9_500, 0, 0)
    crowd.assert_equal(pipeline)


def test_rows_that_share_stamp_and_tie_breaker_stay_in_one_batch(lab: Lab) -> None:
    lab.sql("CREATE TABLE ugc.pairs (a int, b int, modified timestamptz, PRIMARY KEY (a, b))")
    lab.sql("INSERT INTO ugc.pairs SELECT n / 10, n, '2020-01-01' FROM generate_series(1, 100) n")
    config = {"key": ["a", "b"], "incremental_id_key": "a", "batch_size": 3}
    pipeline = add(lab, source_query="SELECT a, b, modified FROM ugc.pairs", **config)
    assert counts(lab.run(pipeline)) == (100, 100, 0, 0)
    lab.assert_equal(pipeline)


# ── what arrives ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_changes_arrive_and_nothing_else_is_touched(notes: Lab) -> None:
    pipeline = add(notes)
    assert counts(notes.run(pipeline)) == (3, 3, 0, 0)
    before = notes.sql("SELECT id, xmin FROM analytics.mart WHERE id <> 2 ORDER BY id")
    notes.sql("UPDATE ugc.notes SET body = 'new', modified = now() WHERE id = 2")
    notes.sql("INSERT INTO ugc.notes VALUES (4, 'new')")
    assert counts(notes.run(pipeline)) == (2, 2, 0, 0)
    notes.assert_equal(pipeline)
    assert notes.sql("SELECT id, xmin FROM analytics.mart WHERE id NOT IN (2, 4) ORDER BY id") == before


def test_a_row_whose_stamp_moves_without_the_mart_showing_it_is_not_rewritten(notes: Lab) -> None:
    notes.sql("CREATE TABLE analytics.mart (id int PRIMARY KEY, body text)")
    pipeline = add(notes)
    assert counts(notes.run(pipeline)) == (3, 3, 0, 0)
    notes.sql("UPDATE ugc.notes SET modified = now() WHERE id = 2")
    assert counts(notes.run(pipeline)) == (1, 0, 0, 1)


@pytest.mark.scenario(32)
def test_deletes_are_not_seen_and_reconcile_shows_them_and_a_repair_makes_them(notes: Lab) -> None:
    pipeline = add(notes)
    notes.run(pipeline)
    notes.sql("DELETE FROM ugc.notes WHERE id = 2")
    assert counts(notes.run(pipeline)) == (0, 0, 0, 0)
    assert notes.value("SELECT count(*) FROM analytics.mart") == 3
    report = notes.reconcile(pipeline)
    assert (report["equal"], report["missing"], report["extra"]) == (False, 0, 1)
    assert report["samples"]["extra"] == [{"key": {"id": "2"}}]
    assert notes.run(pipeline, repair=True)["rows_deleted"] == 1
    notes.assert_equal(pipeline)


def test_a_restart_reads_everything_and_rewrites_nothing(notes: Lab) -> None:
    pipeline = add(notes)
    notes.run(pipeline)
    assert counts(notes.run(pipeline, restart=True)) == (3, 0, 0, 3)
    assert counts(notes.run(pipeline)) == (0, 0, 0, 0)


def test_a_changed_query_drops_the_checkpoint_and_says_so(notes: Lab) -> None:
    pipeline = add(notes)
    notes.run(pipeline)
    changed = NOTES.replace("body", "upper(body) AS body")
    notes.sql("UPDATE etl.etl_pipelines SET source_query = %s", changed)
    assert counts(notes.run(pipeline)) == (3, 3, 0, 0)
    assert "checkpoint_dropped" in [e["event"] for e in notes.events(pipeline)]


@pytest.mark.parametrize("how", ["DROP TABLE analytics.mart", "TRUNCATE analytics.mart"])
def test_a_mart_that_was_dropped_or_emptied_is_read_from_the_start(notes: Lab, how: str) -> None:
    pipeline = add(notes)
    notes.run(pipeline)
    notes.sql(how)
    assert counts(notes.run(pipeline)) == (3, 3, 0, 0)
    notes.assert_equal(pipeline)
    assert counts(notes.run(pipeline)) == (0, 0, 0, 0)


def test_a_column_that_drift_adds_is_filled_for_old_rows_too(notes: Lab) -> None:
    pipeline = add(notes, source_query=None, source_table="ugc.notes", on_drift="add")
    notes.run(pipeline)
    notes.sql("ALTER TABLE ugc.notes ADD COLUMN lang text NOT NULL DEFAULT 'ru'")
    assert counts(notes.run(pipeline)) == (3, 3, 0, 0)
    notes.assert_equal(pipeline)


@pytest.mark.parametrize("python", [{}, {"type": "PYTHON", "python_task": "as_is"}])
def test_an_atomic_window_is_one_batch(notes: Lab, python: dict[str, Any]) -> None:
    transform("as_is")(list)
    run = notes.run(pipeline := add(notes, publish="atomic", batch_size=1, **python))
    assert (counts(run), run["batches"]) == ((3, 3, 0, 0), 1)
    notes.assert_equal(pipeline)


@pytest.mark.scenario(28)
def test_a_row_stamped_in_the_future_waits_and_holds_nobody_up(notes: Lab) -> None:
    pipeline = add(notes)
    notes.sql("INSERT INTO ugc.notes VALUES (9, 'early bird', clock_timestamp() + interval '1 hour')")
    assert counts(notes.run(pipeline)) == (3, 3, 0, 0)
    assert checkpoint(notes, pipeline) == "2020-01-04 00:00:00+00"
    notes.sql("INSERT INTO ugc.notes VALUES (4, 'on time')")
    assert counts(notes.run(pipeline)) == (1, 1, 0, 0)
    notes.sql("UPDATE ugc.notes SET modified = clock_timestamp() + interval '0.2 seconds' WHERE id = 9")
    wait_for(lambda: notes.value("SELECT modified < clock_timestamp() FROM ugc.notes WHERE id = 9"))
    assert counts(notes.run(pipeline)) == (1, 1, 0, 0)
    notes.assert_equal(pipeline)


def test_a_group_arrives_when_its_latest_row_changes(lab: Lab) -> None:
    pipeline = add(lab, source_query=LATEST, key=["film_id"], batch_size=7)
    lab.run(pipeline)
    lab.assert_equal(pipeline)
    lab.sql("UPDATE ugc.ratings SET modified = now() WHERE id IN (SELECT id FROM ugc.ratings ORDER BY id LIMIT 1)")
    assert counts(lab.run(pipeline))[:2] == (1, 1)
    lab.assert_equal(pipeline)


def test_a_composite_key_needs_a_tie_breaker_and_works_with_one(lab: Lab) -> None:
    lab.sql("CREATE TABLE ugc.pairs (a int, b int, body text, modified timestamptz DEFAULT now(), PRIMARY KEY (a, b))")
    lab.sql("INSERT INTO ugc.pairs SELECT n % 3, n, 'x' FROM generate_series(1, 20) n")
    query = "SELECT a, b, body, modified FROM ugc.pairs"
    pipeline = add(lab, source_query=query, key=["a", "b"], incremental_id_key="b", batch_size=6)
    assert counts(lab.run(pipeline)) == (20, 20, 0, 0)
    lab.sql("UPDATE ugc.pairs SET body = 'y', modified = now() WHERE b = 7")
    assert counts(lab.run(pipeline)) == (1, 1, 0, 0)
    lab.assert_equal(pipeline)


@transform("only_kept")
def only_kept(rows: Sequence[Row]) -> Iterator[Row]:
    """Leaves out what is marked so, and moves the stamp: the checkpoint must not notice either."""
    for row in rows:
        if row["body"] != "drop":
            yield row | {"modified": row["modified"] + timedelta(days=3650)}


def test_through_transforms_the_checkpoint_comes_from_the_rows_that_were_read(notes: Lab) -> None:
    notes.sql("UPDATE ugc.notes SET body = 'drop' WHERE id = 3")
    pipeline = add(notes, type="PYTHON", python_task="only_kept", batch_size=2)
    assert counts(notes.run(pipeline)) == (3, 2, 0, 1)
    assert checkpoint(notes, pipeline) == "2020-01-04 00:00:00+00"
    assert counts(notes.run(pipeline)) == (0, 0, 0, 0)
    notes.sql("UPDATE ugc.notes SET body = 'drop', modified = now() WHERE id = 1")
    assert counts(notes.run(pipeline)) == (1, 0, 1, 0)
    assert notes.sql("SELECT id FROM analytics.mart") == [(2,)]


@pytest.mark.parametrize("cursor", ["modified", "id"])
def test_a_remote_source_is_followed_likewise(lab: Lab, cursor: str) -> None:
    remote = lab.other_database()
    sources = {"cinema": make_conninfo(remote, user="vitrina_reader")}
    lab.connections = replace(lab.connections, sources=sources)
    pipeline = add(lab, source="cinema", incremental_key=cursor, batch_size=2)
    with connect(remote, "remote") as conn:
        make_notes(conn)
        assert counts(lab.run(pipeline)) == (3, 3, 0, 0)
        with open_transaction(remote, "INSERT INTO ugc.notes VALUES (4, 'late')") as late:
            conn.execute("INSERT INTO ugc.notes VALUES (5, 'prompt')")
            assert counts(lab.run(pipeline)) == (0, 0, 0, 0)
            assert window(lab, pipeline)["held_by"]["pid"] == late.info.backend_pid
            late.execute("COMMIT")
        assert counts(lab.run(pipeline)) == (2, 2, 0, 0)
        there = conn.execute("SELECT id, body, modified::text FROM ugc.notes ORDER BY id").fetchall()
    assert lab.sql("SELECT id, body, modified::text FROM analytics.mart ORDER BY id") == [
        tuple(r.values()) for r in there
    ]


# ── who holds the horizon ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.scenario(26)
def test_a_long_report_holds_the_window_ever_longer_and_is_named_and_nothing_is_lost(notes: Lab) -> None:
    pipeline = add(notes)
    notes.run(pipeline)
    with open_transaction(notes.conninfo, "SELECT count(*) FROM ugc.notes") as report:
        notes.sql("INSERT INTO ugc.notes VALUES (4, 'new')")
        time.sleep(0.1)
        assert counts(notes.run(pipeline)) == (0, 0, 0, 0)
        holder = window(notes, pipeline)["held_by"]
        assert (holder["pid"], holder["wrote"]) == (report.info.backend_pid, False)
        assert (holder["usename"], holder["application_name"]) == (notes.db.info.user, "vitrina report")
        assert holder["age_seconds"] >= 0.1
        time.sleep(0.1)  # what ages are told in
        assert counts(notes.run(pipeline)) == (0, 0, 0, 0)
        assert window(notes, pipeline)["held_by"]["age_seconds"] > holder["age_seconds"]
    assert counts(notes.run(pipeline)) == (1, 1, 0, 0)
    assert "held_by" not in window(notes, pipeline)
    notes.assert_equal(pipeline)


def test_vitrinas_own_readers_hold_nothing(notes: Lab) -> None:
    pipeline = add(notes)
    with open_transaction(notes.connections.reader, "SELECT count(*) FROM ugc.notes"):
        notes.sql("INSERT INTO ugc.notes VALUES (4, 'new')")
        assert counts(notes.run(pipeline)) == (4, 4, 0, 0)
        assert "held_by" not in window(notes, pipeline)


def test_a_transaction_in_another_database_holds_nothing(notes: Lab) -> None:
    pipeline = add(notes)
    with open_transaction(notes.other_database("template1"), "SELECT 1"):
        notes.sql("INSERT INTO ugc.notes VALUES (4, 'new')")
        assert counts(notes.run(pipeline)) == (4, 4, 0, 0)


# ── what is refused ──────────────────────────────────────────────────────────────────────────────────────────────


def refusal(lab: Lab, pipeline: Pipeline) -> str:
    """The error of a run that must fail, having written nothing."""
    run = lab.run(pipeline)
    assert (run["status"], run["rows_written"], lab.status(pipeline)) == ("FAILED", 0, "FAILED")
    return str(run["said"])


@pytest.mark.scenario(29)
def test_a_null_in_the_cursor_is_refused_and_the_row_named(notes: Lab) -> None:
    notes.sql("UPDATE ugc.notes SET modified = NULL WHERE id = 2")
    assert "cursor: id = 2, modified = None" in refusal(notes, add(notes))


def test_a_cursor_that_the_query_does_not_give_is_refused(notes: Lab) -> None:
    assert "cursor column changed is not in the query" in refusal(notes, add(notes, incremental_key="changed"))


def test_a_tie_breaker_that_the_query_does_not_give_is_refused(notes: Lab) -> None:
    assert "cursor column uid is not in the query" in refusal(notes, add(notes, incremental_id_key="uid"))


def test_a_pipeline_without_a_tie_breaker_is_refused(notes: Lab) -> None:
    assert "incremental_id_key" in refusal(notes, add(notes, key=["id", "body"]))


def test_a_pipeline_without_a_cursor_is_refused(notes: Lab) -> None:
    assert "needs incremental_key" in refusal(notes, add(notes, incremental_key=None))


@pytest.mark.scenario(34)
@pytest.mark.parametrize("cursor", ["modified", "id"])
def test_a_role_that_cannot_see_other_sessions_transactions_is_refused(notes: Lab, cursor: str) -> None:
    role = f"short_sighted_{notes.db.info.dbname}"
    grants = "CREATE ROLE {0} LOGIN; GRANT USAGE ON SCHEMA ugc TO {0}; GRANT SELECT ON ugc.notes TO {0}"
    notes.db.execute(sql.SQL(grants).format(sql.Identifier(role)))
    notes.connections = replace(notes.connections, reader=make_conninfo(notes.conninfo, user=role))
    error = refusal(notes, add(notes, incremental_key=cursor))
    assert "it lacks pg_read_all_stats" in error
    assert "GRANT pg_read_all_stats" in error


def test_a_server_that_does_not_track_activities_is_refused(notes: Lab) -> None:
    notes.sql(f"ALTER DATABASE {notes.db.info.dbname} SET track_activities = off")
    assert "track_activities is off" in refusal(notes, add(notes))


def test_a_single_session_that_is_not_tracked_is_refused(notes: Lab) -> None:
    pipeline = add(notes)
    with connect(notes.conninfo, "shy") as shy:
        shy.execute("SET track_activities = off")
        shy.execute("BEGIN; INSERT INTO ugc.notes VALUES (4, 'late')")
        notes.sql("INSERT INTO ugc.notes VALUES (5, 'prompt')")
        assert f"track_activities is off in a session of {notes.db.info.user}" in refusal(notes, pipeline)
        shy.execute("COMMIT")
    assert counts(notes.run(pipeline)) == (5, 5, 0, 0)

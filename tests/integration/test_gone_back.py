"""Mode incremental when its source, or a clock, goes back behind the checkpoint: noticed, said, compared, equal."""

from dataclasses import replace
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from tests.capturing import own_server
from tests.clocks import jump
from tests.elastic import Search
from tests.support import Lab
from vitrina.domain.pipeline import Pipeline
from vitrina.runner.clock import ClockWatch
from vitrina.sources.postgres.horizon import SQL as HORIZON
from vitrina.transforms import transform

NOTES = "SELECT id, body, at FROM ugc.notes"
CURSORS = {"int": "n", "text": "to_char(n, 'FM000')", "timestamptz": "'2020-01-01'::timestamptz + n * interval '1 day'"}


def make_notes(lab: Lab, kind: str = "int", number: int = 20) -> None:
    lab.sql(f"CREATE TABLE ugc.notes (id int PRIMARY KEY, body text, at {kind} NOT NULL)")
    lab.sql(f"INSERT INTO ugc.notes SELECT n, 'old', {CURSORS[kind]} FROM generate_series(1, {number}) n")


def add(lab: Lab, **config: Any) -> Pipeline:
    return lab.add(**({"source_query": NOTES, "key": ["id"], "mode": "incremental", "incremental_key": "at"} | config))


def run(lab: Lab, pipeline: Pipeline, **options: bool) -> tuple[int, int, int]:
    """Read, written, deleted; of a run that went well."""
    found = lab.run(pipeline, **options)
    assert (found["status"], found["error"]) == ("SUCCESS", None)
    return found["rows_read"], found["rows_written"], found["rows_deleted"]


def why(lab: Lab, pipeline: Pipeline) -> str:
    """Why the last run compared; as a warning in its log."""
    last = lab.last_run(pipeline)["id"]
    said = [e for e in lab.events(pipeline) if e["run_id"] == last and e["event"] == "comparing"]
    assert [e["level"] for e in said] in ([], ["warning"])
    return said[0]["fields"]["why"] if said else ""


# ── the source ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.scenario(71)
@pytest.mark.parametrize("kind", CURSORS)
def test_a_source_that_is_restored_to_before_the_checkpoint_is_compared_and_followed_from_there(
    lab: Lab, kind: str
) -> None:
    make_notes(lab, kind)
    pipeline = add(lab, batch_size=7)
    run(lab, pipeline)
    lab.sql("DELETE FROM ugc.notes WHERE id > 15; UPDATE ugc.notes SET body = 'older' WHERE id = 3")
    assert run(lab, pipeline) == (15, 1, 5)
    assert "gives nothing at or after the checkpoint" in why(lab, pipeline)
    lab.assert_equal(pipeline)
    lab.sql(f"INSERT INTO ugc.notes SELECT n, 'new', {CURSORS[kind]} FROM generate_series(16, 17) n")
    assert run(lab, pipeline) == (2, 2, 0)
    assert (run(lab, pipeline), why(lab, pipeline)) == ((0, 0, 0), "")
    lab.assert_equal(pipeline)


@pytest.mark.scenario(71)
@pytest.mark.parametrize("how", ["elsewhere", "python", "atomic"])
def test_however_its_rows_come(lab: Lab, how: str) -> None:
    make_notes(lab)
    transform("as_is")(list)
    ways: dict[str, dict[str, Any]] = {
        "elsewhere": {"source": "here"},
        "python": {"type": "PYTHON", "python_task": "as_is"},
        "atomic": {"publish": "atomic"},
    }
    lab.connections = replace(lab.connections, sources={"here": make_conninfo(lab.conninfo, user="vitrina_reader")})
    pipeline = add(lab, **ways[how])
    run(lab, pipeline)
    lab.sql("DELETE FROM ugc.notes WHERE id > 15; UPDATE ugc.notes SET body = 'older' WHERE id = 3")
    assert run(lab, pipeline) == (15, 1, 5)
    lab.assert_equal(pipeline)
    lab.sql("INSERT INTO ugc.notes VALUES (16, 'new', 16)")
    assert run(lab, pipeline) == (1, 1, 0)
    lab.assert_equal(pipeline)


@pytest.mark.scenario(71)
def test_an_index_is_compared_likewise(search: Search) -> None:
    make_notes(search.lab)
    pipeline = add(search.lab, target_table=f"es:{search.name()}")
    run(search.lab, pipeline)
    search.lab.sql("DELETE FROM ugc.notes WHERE id > 15; UPDATE ugc.notes SET body = 'older' WHERE id = 3")
    assert run(search.lab, pipeline)[1:] == (1, 5)
    search.lab.sql("INSERT INTO ugc.notes VALUES (16, 'new', 16)")
    assert run(search.lab, pipeline)[1:] == (1, 0)
    assert search.documents() == search.wanted(pipeline, "id")


@pytest.mark.scenario(71)
def test_a_source_that_gives_nothing_empties_no_mart_and_is_compared_once_it_gives_something(lab: Lab) -> None:
    make_notes(lab)
    pipeline = add(lab)
    run(lab, pipeline)
    lab.sql("CREATE TABLE ugc.kept AS TABLE ugc.notes; TRUNCATE ugc.notes")
    for _ in range(2):
        assert run(lab, pipeline) == (0, 0, 0)
        assert "comparing_later" in [e["event"] for e in lab.events(pipeline)]
    lab.sql(
        "INSERT INTO ugc.notes SELECT id, 'restored', at FROM ugc.kept; INSERT INTO ugc.notes VALUES (99, 'new', 99)"
    )
    assert run(lab, pipeline) == (21, 21, 0)
    lab.assert_equal(pipeline)


@pytest.mark.scenario(71)
def test_a_comparison_that_the_guard_refuses_is_not_forgotten(lab: Lab) -> None:
    make_notes(lab, number=300)
    pipeline = add(lab)
    run(lab, pipeline)
    lab.sql("DELETE FROM ugc.notes WHERE id > 20")
    refused = lab.run(pipeline)
    assert (refused["status"], "this would delete 280 of 300 rows" in refused["said"]) == ("FAILED", True)
    lab.sql("INSERT INTO ugc.notes VALUES (400, 'later', 400)")
    assert run(lab, pipeline, allow_deletes=True) == (21, 1, 280)
    lab.assert_equal(pipeline)


def test_a_cursor_that_stands_still_is_not_compared(lab: Lab) -> None:
    """Also where the last rows are not final yet, or some of those that share the last value are gone."""
    make_notes(lab)
    lab.sql("INSERT INTO ugc.notes VALUES (21, 'tied', 20)")
    pipeline = add(lab)
    run(lab, pipeline)
    lab.sql("DELETE FROM ugc.notes WHERE id = 21")
    assert (run(lab, pipeline), why(lab, pipeline)) == ((0, 0, 0), "")
    with psycopg.connect(lab.conninfo) as late:
        late.execute("INSERT INTO ugc.notes VALUES (22, 'late', 22)")
        assert (run(lab, pipeline), why(lab, pipeline)) == ((0, 0, 0), "")


# ── a clock ──────────────────────────────────────────────────────────────────────────────────────────────────────


def set_back(lab: Lab) -> None:
    """The clock of source and meta-store, by three hours: what was stamped before is ahead of it now."""
    jump(lab, -3)
    lab.sql("UPDATE ugc.notes SET at = at + interval '3 hours'")
    for path in ("{value}", "{bound}", "{place,clock}", "{place,here}"):
        moved = f"to_jsonb(((checkpoint #>> '{path}')::timestamptz + interval '3 hours')::text)"
        lab.sql(f"UPDATE etl.etl_state SET checkpoint = jsonb_set(checkpoint, '{path}', {moved})")


@pytest.mark.scenario(71)
def test_a_clock_set_back_behind_the_checkpoint_loses_no_row(lab: Lab) -> None:
    make_notes(lab, "timestamptz")
    lab.sql("UPDATE ugc.notes SET at = clock_timestamp() - interval '1 minute' WHERE id = 20")
    pipeline = add(lab)
    assert run(lab, pipeline) == (20, 20, 0)
    set_back(lab)
    lab.sql("INSERT INTO ugc.notes VALUES (21, 'stamped before the checkpoint', clock_timestamp())")
    run(lab, pipeline)
    assert "clock was set back" in why(lab, pipeline)
    lab.assert_equal(pipeline)
    lab.sql("UPDATE ugc.notes SET body = 'and after it', at = clock_timestamp() WHERE id = 5")
    assert (run(lab, pipeline), why(lab, pipeline)) == ((1, 1, 0), "")
    lab.assert_equal(pipeline)


@pytest.mark.scenario(71)
def test_a_clock_set_back_that_has_caught_up_since_is_remembered(lab: Lab) -> None:
    """Runners saw it go back. By the time of the next run it is past the checkpoint again."""
    make_notes(lab, "timestamptz")
    pipeline = add(lab)
    run(lab, pipeline)
    jump(lab, -3)
    assert ClockWatch().look(lab.db)
    lab.sql("UPDATE ugc.notes SET body = 'stamped before the checkpoint' WHERE id = 5")
    assert run(lab, pipeline) == (20, 1, 0)
    assert "clock was set back" in why(lab, pipeline)
    assert (run(lab, pipeline), why(lab, pipeline)) == ((0, 0, 0), "")
    lab.assert_equal(pipeline)


@pytest.mark.scenario(71)
def test_a_transaction_that_is_open_since_before_the_clock_was_set_back_holds_the_window(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may stamp rows with any time, and seems to have begun after all that is final. What the server remembers of
    transactions is shifted here: to whoever compares it with the clock, that is a clock that was set back."""
    make_notes(lab)
    pipeline = add(lab)
    run(lab, pipeline)
    columns = "datname, pid, usename, application_name, client_addr, state, backend_xid, query, backend_type"
    shifted = f"SELECT {columns}, xact_start + interval '3 hours' AS xact_start FROM pg_stat_activity"
    with psycopg.connect(lab.conninfo) as late:
        late.execute("INSERT INTO ugc.notes VALUES (21, 'late', 21)")
        lab.sql("INSERT INTO ugc.notes VALUES (22, 'prompt', 22)")
        with monkeypatch.context() as patch:
            patch.setitem(
                HORIZON, "oldest", HORIZON["oldest"].replace("FROM pg_stat_activity a", f"FROM ({shifted}) a")
            )
            assert run(lab, pipeline) == (0, 0, 0)
        window = [e["fields"] for e in lab.events(pipeline) if e["event"] == "window"][-1]
        assert window["held_by"]["pid"] == late.info.backend_pid
    run(lab, pipeline)
    lab.assert_equal(pipeline)


# ── the real thing ───────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.scenario(61, 71)
@pytest.mark.parametrize(
    ("how", "said"), [("failover", "timeline"), pytest.param("restore", "set back", marks=pytest.mark.long)]
)
def test_a_server_that_comes_back_older_and_has_passed_the_checkpoint_since_is_noticed(
    lab: Lab, how: str, said: str
) -> None:
    """By its timeline, or by where its log ends: the cursor shows nothing."""
    with own_server(synchronous_commit="on") as server:
        home, account = server._home, server._account

        def do(*statements: str) -> None:
            with psycopg.connect(server.conninfo(), autocommit=True) as conn:
                for statement in statements:
                    conn.execute(statement.encode())

        def copy(source: str, target: str) -> None:
            server.stop()
            account.run(["rm", "-rf", home / target])
            account.run(["cp", "-a", home / source, home / target])

        do("CREATE SCHEMA content; CREATE TABLE content.notes (id int PRIMARY KEY, body text)")
        do("INSERT INTO content.notes SELECT n, 'old' FROM generate_series(1, 20) n")
        lab.connections = replace(lab.connections, sources={"other": server.conninfo()})
        query = "SELECT id, body FROM content.notes"
        pipeline = add(lab, source="other", source_query=query, incremental_key="id")
        copy("data", "backup")
        server.start()
        do("INSERT INTO content.notes SELECT n, repeat('lost', 1000) FROM generate_series(21, 30) n", "CHECKPOINT")
        assert run(lab, pipeline) == (30, 30, 0)
        copy("backup", "data")
        if how == "failover":
            account.run(["touch", home / "data" / "standby.signal"])
            server.start()
            do("SELECT pg_promote()")
        else:
            server.start()
        do("INSERT INTO content.notes SELECT n, 'new' FROM generate_series(21, 35) n")
        assert run(lab, pipeline) == (35, 15, 0)
        assert said in why(lab, pipeline)
        with psycopg.connect(server.conninfo()) as conn:
            there = conn.execute("SELECT id, body FROM content.notes ORDER BY id").fetchall()
        assert lab.sql("SELECT id, body FROM analytics.mart ORDER BY id") == there

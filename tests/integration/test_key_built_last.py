"""A mart that a run makes and fills in one statement gets its key after the rows, and is never seen without it."""

from typing import Any

import psycopg
import pytest
from psycopg.rows import tuple_row

from tests.support import Lab
from vitrina.domain.pipeline import Pipeline
from vitrina.engine import keyless

SELECT = "SELECT v AS id, count(*) AS n FROM content.thing GROUP BY v"
KEYS = """SELECT c.conname, pg_get_constraintdef(c.oid), i.indisvalid
          FROM pg_constraint c JOIN pg_index i ON i.indexrelid = c.conindid
          WHERE c.conrelid = 'analytics.mart'::regclass AND c.contype = 'p'"""


def aggregate(lab: Lab, select: str = SELECT, **config: Any) -> Pipeline:
    """One that is cheaper to read at once than in its many batches."""
    lab.sql("CREATE TABLE content.thing AS SELECT n, n % 3000 AS v FROM generate_series(1, 60000) n")
    lab.sql("ANALYZE content.thing")
    return lab.add(source_query=select, key=["id"], batch_size=2, **config)


@pytest.fixture(name="dropped")
def _dropped(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Of each statement that might do without, whether the key was gone."""
    gone: list[bool] = []
    drop = keyless._dropped

    def noting(*given: Any) -> Any:
        gone.append((name := drop(*given)) is not None)
        return name

    monkeypatch.setattr(keyless, "_dropped", noting)
    return gone


def test_a_new_mart_has_the_key_that_it_would_have_had(lab: Lab, dropped: list[bool]) -> None:
    pipeline = aggregate(lab)
    run = lab.run(pipeline)
    assert (run["status"], run["rows_written"], dropped) == ("SUCCESS", 3000, [True])
    assert lab.sql(KEYS) == [("mart_pkey", "PRIMARY KEY (id)", True)]
    lab.assert_equal(pipeline)
    assert lab.run(pipeline)["rows_written"] == 0


def test_an_empty_mart_that_was_there_keeps_its_key_and_all_that_hangs_on_it(lab: Lab, dropped: list[bool]) -> None:
    pipeline = aggregate(lab)
    lab.sql("CREATE TABLE analytics.mart (id int CONSTRAINT its_own PRIMARY KEY, n bigint)")
    lab.sql("CREATE TABLE content.child (id int REFERENCES analytics.mart DEFERRABLE INITIALLY DEFERRED)")
    lab.sql("CREATE VIEW content.over AS SELECT id, n FROM analytics.mart GROUP BY id")
    index = lab.value("SELECT 'analytics.its_own'::regclass::oid")
    assert lab.run(pipeline)["status"] == "SUCCESS"
    assert dropped == []
    assert lab.value("SELECT 'analytics.its_own'::regclass::oid") == index
    assert lab.value("SELECT count(*) FROM content.over") == 3000


def between(lab: Lab, monkeypatch: pytest.MonkeyPatch, *statements: str) -> psycopg.Connection[Any]:
    """A stranger's session, in which these run after the mart was made and before it is filled."""
    stranger = psycopg.connect(lab.conninfo, row_factory=tuple_row)
    lock = keyless.without_key

    def first(*given: Any) -> Any:
        for statement in statements:
            stranger.execute(statement.encode())
        return lock(*given)

    monkeypatch.setattr("vitrina.engine.load.without_key", first)
    return stranger


def test_what_was_put_on_the_key_since_the_mart_was_made_has_it_stay(
    lab: Lab, dropped: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = aggregate(lab)
    view = "CREATE VIEW content.over AS SELECT id, n FROM analytics.mart GROUP BY id"
    with between(lab, monkeypatch, view, "GRANT SELECT ON analytics.mart TO PUBLIC", "COMMIT"):
        assert lab.run(pipeline)["status"] == "SUCCESS"
    assert dropped == [False]
    assert lab.value("SELECT count(*) FROM content.over") == 3000


def test_a_mart_whose_index_identifies_its_rows_keeps_it(
    lab: Lab, dropped: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = aggregate(lab)
    with between(lab, monkeypatch, "ALTER TABLE analytics.mart REPLICA IDENTITY USING INDEX mart_pkey", "COMMIT"):
        assert lab.run(pipeline)["status"] == "SUCCESS"
    assert dropped == [False]
    assert lab.value("SELECT relreplident::text FROM pg_class WHERE oid = 'analytics.mart'::regclass") == "i"


def test_who_reads_the_new_mart_just_now_is_not_waited_for(
    lab: Lab, dropped: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = aggregate(lab)
    with between(lab, monkeypatch, "SELECT count(*) FROM analytics.mart"):
        assert lab.run(pipeline)["status"] == "SUCCESS"
    assert dropped == [False]
    assert lab.sql(KEYS) == [("mart_pkey", "PRIMARY KEY (id)", True)]


def test_a_key_that_comes_twice_is_named_and_the_mart_stays_empty_with_its_key(lab: Lab, dropped: list[bool]) -> None:
    run = lab.run(aggregate(lab, SELECT.replace("SELECT v AS id,", "SELECT v % 5 AS id,")))
    assert run["status"] == "FAILED"
    assert "the query gives a key twice: id = " in run["said"]
    assert dropped == [True]
    assert lab.sql(KEYS) == [("mart_pkey", "PRIMARY KEY (id)", True)]
    assert lab.value("SELECT count(*) FROM analytics.mart") == 0

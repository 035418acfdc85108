"""The owner of a mart adds code between the look at it and the statement that would run it: there is no between."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from types import ModuleType
from typing import Any

import psycopg
import pytest
from psycopg import errors

from tests.security.test_owners import QUERY, mallory
from tests.support import Lab
from vitrina.engine import holding, sealing
from vitrina.meta.db import connect
from vitrina.sinks.table import mart

__all__ = ["mallory"]
# What it writes is undone with the transaction; that it ran at all, a sequence tells.
SPY = """
    GRANT USAGE ON SCHEMA content TO PUBLIC;
    CREATE SEQUENCE content.ran;
    GRANT USAGE ON content.ran TO PUBLIC;
    CREATE FUNCTION content.note() RETURNS int LANGUAGE plpgsql AS
        $$ BEGIN PERFORM nextval('content.ran'); RETURN 1; END $$;
    CREATE FUNCTION content.spied(int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS
        $$ BEGIN RETURN content.note(); END $$;
"""
STATISTICS = "CREATE STATISTICS analytics.s ON (content.spied(1) + id), name FROM analytics.mart"


@pytest.fixture
def owner(lab: Lab, mallory: str) -> Iterator[psycopg.Connection[Any]]:
    """Mallory's own session, who does not wait for a lock."""
    lab.sql(f"SET ROLE {mallory}; {SPY}; RESET ROLE")
    with connect(lab.conninfo, "owner") as conn:
        conn.execute(f"SET ROLE {mallory}".encode())
        conn.execute("SET lock_timeout = '100ms'")
        yield conn


def after_each_look(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object], *modules: ModuleType) -> None:
    """Between a look at the mart, which finds nothing, and the statement that follows."""
    look = sealing.is_sealed

    def then(*args: Any) -> bool:
        found = look(*args)
        act()
        return found

    for module in modules:
        monkeypatch.setattr(module, "is_sealed", then)


def has_run(lab: Lab) -> bool:
    return bool(lab.value("SELECT is_called FROM content.ran"))


def test_the_owner_of_a_mart_cannot_add_statistics_before_a_statement(
    lab: Lab, owner: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = lab.add(source_query=QUERY, key=["id"])
    assert lab.run(pipeline)["error"] is None
    tried = []

    def add() -> None:
        tried.append(STATISTICS)
        with suppress(errors.LockNotAvailable):
            owner.execute(STATISTICS.encode())

    after_each_look(monkeypatch, add, holding)
    lab.sql("UPDATE content.owned SET name = 'changed'")
    assert lab.run(pipeline)["error"] is None
    assert tried
    assert not has_run(lab)
    lab.assert_equal(pipeline)


def test_nor_does_a_run_wait_for_who_vacuums_the_mart(lab: Lab, owner: psycopg.Connection[Any]) -> None:
    """Autovacuum would end itself for whoever waits for it, and never end in a mart that is written often."""
    pipeline = lab.add(source_query=QUERY, key=["id"])
    lab.configure(lock_timeout_seconds=1)
    with owner.transaction():
        owner.execute("LOCK TABLE analytics.mart IN SHARE UPDATE EXCLUSIVE MODE")  # as VACUUM does
        assert lab.run(pipeline)["error"] is None
    lab.assert_equal(pipeline)


def test_what_was_added_and_taken_away_as_a_vacuum_ended_is_undone(
    lab: Lab, owner: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = lab.add(source_query=QUERY, key=["id"])
    owner.execute("BEGIN")
    owner.execute("LOCK TABLE analytics.mart IN SHARE UPDATE EXCLUSIVE MODE")
    ended: list[bool] = []

    def end() -> None:
        if not ended:
            ended.append(True)
            owner.execute("COMMIT")
            owner.execute(STATISTICS.encode())
            owner.execute("DROP STATISTICS analytics.s")

    after_each_look(monkeypatch, end, holding)
    run = lab.run(pipeline)
    assert (run["error"], run["attempt"]) == (None, 2)
    lab.assert_equal(pipeline)


# ── what no lock keeps anybody from ──────────────────────────────────────────────────────────────────────────────

LINGER = """
    CREATE TABLE content.heard (who text);
    GRANT INSERT ON content.heard TO PUBLIC;
    CREATE FUNCTION content.late() RETURNS int LANGUAGE plpgsql AS
        $$ BEGIN INSERT INTO content.heard VALUES (current_user); RETURN 1; END $$;
    CREATE FUNCTION content.linger() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN EXECUTE 'DECLARE c CURSOR WITH HOLD FOR SELECT content.late()'; RETURN old; END $$;
    CREATE FUNCTION content.tell(text) RETURNS boolean LANGUAGE plpgsql AS
        $$ BEGIN PERFORM content.late(); RETURN true; END $$;
    CREATE DOMAIN content.short AS text;
"""
LATER = {
    "a trigger of a table that follows": (
        "CREATE TABLE content.child (id int REFERENCES analytics.mart ON DELETE CASCADE);"
        " INSERT INTO content.child VALUES (1)",
        "CREATE TRIGGER t BEFORE DELETE ON content.child FOR EACH ROW EXECUTE FUNCTION content.linger()",
    ),
    "a trigger by a right of its own": (
        "SELECT 1",
        "CREATE TRIGGER t BEFORE DELETE ON analytics.mart FOR EACH ROW EXECUTE FUNCTION content.linger()",
    ),
    "a CHECK of a domain": (
        "ALTER TABLE analytics.mart ADD COLUMN more content.short",
        "ALTER DOMAIN content.short ADD CONSTRAINT told CHECK (content.tell(VALUE)) NOT VALID",
    ),
}


@pytest.mark.parametrize("what", LATER)
def test_code_that_others_bring_to_a_mart_of_ours_does_not_run_as_the_runner(
    lab: Lab, mallory: str, owner: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """There is none when the run looks. What no lock of ours keeps away is sealed before it comes."""
    before, later = LATER[what]
    owner.execute(LINGER.encode())
    lab.sql("ALTER TABLE analytics.mart OWNER TO vitrina_runner")
    lab.sql(f"GRANT REFERENCES, TRIGGER ON analytics.mart TO {mallory}")
    pipeline = lab.add(source_query=QUERY, key=["id"])
    assert lab.run(pipeline)["error"] is None
    lab.sql(f"SET ROLE {mallory if 'FERENCES' in before else 'NONE'}; {before}; RESET ROLE")
    lab.sql("DELETE FROM content.owned WHERE id = 1; INSERT INTO content.owned VALUES (20, 'new')")
    acts = [later]
    after_each_look(monkeypatch, lambda: owner.execute(acts.pop().encode()) if acts else None, mart)
    lab.run(pipeline)
    assert not acts
    assert "vitrina_runner" not in [who for (who,) in lab.sql("TABLE content.heard")]

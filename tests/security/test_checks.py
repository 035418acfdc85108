"""A check can neither write nor read what the reader may not: by the guard, and without it."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.security.state import hashes
from tests.security.test_owners import QUERY, mallory
from tests.security.test_sealed import kit
from tests.support import Lab
from vitrina.control.services.validation import Validation

__all__ = ["kit", "mallory"]
SEIZE = """
    CREATE TABLE content.heard (who text);
    GRANT INSERT ON content.heard TO PUBLIC;
    CREATE FUNCTION content.seize() RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN
        INSERT INTO content.heard VALUES (current_user); RETURN true; END $$;
    CREATE FUNCTION content.seize_as_owner() RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN
        INSERT INTO content.heard VALUES (current_user); RETURN true; END $$;
    CREATE FUNCTION content.who(text) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN
        RETURN current_user = $1; END $$;
    CREATE VIEW content.lent AS SELECT * FROM etl.etl_tokens;
    GRANT SELECT ON content.lent TO PUBLIC;
"""
HOSTILE = [
    {"condition": "content.seize()"},
    {"condition": "content.seize_as_owner()"},
    {"condition": "pg_sleep(0) IS NULL"},
    {"condition": "pg_read_file('/etc/passwd') = ''"},
    {"condition": "query_to_xml('SELECT 1', true, true, '') IS NULL"},
    {"condition": "(SELECT true)"},
    {"condition": "EXISTS (SELECT FROM content.film_work)"},
    {"condition": "true) OR (true"},
    {"condition": "true) IS FALSE UNION SELECT 1, 1, secret FROM etl.etl_tokens WHERE (true"},
    {"condition": "title FROM etl.etl_tokens AS m WHERE true"},
    {"condition": "true; DELETE FROM analytics.mart"},
    {"condition": "true /*"},
    {"condition": "$1 = ''"},
    {"empty": "SELECT * FROM etl.etl_tokens"},
    {"empty": "SELECT * FROM content.lent"},
    {"empty": "SELECT * FROM analytics.mart"},
    {"empty": "SELECT * FROM pg_catalog.pg_authid"},
    {"empty": "DELETE FROM analytics.mart RETURNING *"},
    {"empty": "WITH gone AS (DELETE FROM content.film_work RETURNING *) SELECT * FROM gone"},
    {"empty": "SELECT 1 WHERE content.seize()"},
    {"empty": "SELECT 1) AS q, (SELECT * FROM etl.etl_tokens"},
]


@pytest.fixture
def target(lab: Lab) -> Callable[..., Any]:
    """A pipeline with one check, which is written down by hand: nobody has looked at it."""
    lab.sql(SEIZE)

    def add(check: dict[str, Any], **more: Any) -> Any:
        asked = {"name": "c", "effect": "warn"} | check
        return lab.add(
            source_query="SELECT id AS film_id, title FROM content.film_work", key=["film_id"], checks=[asked], **more
        )

    return add


@pytest.mark.parametrize("check", HOSTILE, ids=lambda check: next(iter(check.values()))[:40])
def test_a_hostile_check_is_refused_when_it_is_saved_and_when_it_is_run(
    lab: Lab, target: Callable[..., Any], check: dict[str, Any]
) -> None:
    pipeline = target(check)
    [found] = [f for f in Validation(lab.connections).of(pipeline) if f.level == "error"]
    assert (found.where, found.message[:9]) == ("checks", "check 'c'")
    run = lab.run(pipeline)
    assert run["status"] == "FAILED"
    assert run["error"].startswith("check 'c': ")
    assert lab.sql("SELECT * FROM content.heard") == []


@pytest.fixture
def unguarded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both looks of the guard at checks are switched off."""
    monkeypatch.setattr("vitrina.planning.check_checks", lambda *_: None)
    monkeypatch.setattr("vitrina.runner.assembly.vet_checks", lambda *_: [])


@pytest.mark.usefixtures("unguarded")
@pytest.mark.parametrize("check", HOSTILE, ids=lambda check: next(iter(check.values()))[:40])
def test_without_the_guard_it_runs_as_the_reader_and_changes_nothing(
    lab: Lab, target: Callable[..., Any], check: dict[str, Any]
) -> None:
    pipeline, before = target(check), hashes(lab, "content", "ugc")
    run = lab.run(pipeline)
    assert hashes(lab, "content", "ugc") == before
    assert run["status"] == "SUCCESS", run["error"]  # it warns
    lab.assert_equal(pipeline)


@pytest.mark.usefixtures("unguarded")
def test_it_runs_as_the_reader(lab: Lab, target: Callable[..., Any]) -> None:
    assert lab.run(target({"condition": "content.who('vitrina_reader')", "effect": "block"}))["error"] is None
    other = target({"condition": "content.who('vitrina_runner')"}, name="other", target_table="analytics.other")
    lab.run(other)
    assert lab.value("SELECT outcome FROM etl.etl_checks WHERE pipeline_id = %s", other.id) == "broken"


def test_a_select_of_somebodys_own_shows_nothing_but_keys(lab: Lab, target: Callable[..., Any]) -> None:
    pipeline = target(
        {"empty": "SELECT m.film_id, f.description, f.title FROM mart m JOIN content.film_work f ON true"}
    )
    assert lab.run(pipeline)["status"] == "SUCCESS"
    [keys] = lab.sql("SELECT keys FROM etl.etl_run_checks")[0]
    assert {name for key in keys for name in key} == {"film_id"}


def test_rows_of_a_mart_with_code_of_its_own_are_checked_as_that_leaves_them(lab: Lab, kit: str) -> None:
    lab.sql(
        f"""
        SET ROLE {kit};
        CREATE FUNCTION content.change() RETURNS trigger LANGUAGE plpgsql AS
            $$ BEGIN new.name := 'changed ' || new.id; RETURN new; END $$;
        CREATE TRIGGER t BEFORE INSERT OR UPDATE ON analytics.mart FOR EACH ROW EXECUTE FUNCTION content.change();
        RESET ROLE;
        """
    )
    checks = [{"name": "c", "condition": "name <> 'changed 4'"}, {"name": "w", "not_null": ["name"], "effect": "warn"}]
    pipeline = lab.add(source_query=QUERY, key=["id"], checks=checks)
    assert lab.run(pipeline)["error"].startswith("check 'c' is broken by 1 row: id = 4; nothing")
    assert lab.value("SELECT count(*) FROM analytics.mart") == 0
    lab.sql("DELETE FROM content.owned WHERE id = 4")
    assert lab.run(pipeline)["error"] is None

"""Code of a mart whose owner is trusted runs with the rights of `vitrina_writer`, which has none but on such marts.

Whatever it tries, it reaches no pipeline, no source, and no later statement of the session that wrote.
"""

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from tests.living import living
from tests.security.state import hashes
from tests.security.test_owners import QUERY, findings, mallory
from tests.support import Lab, differences, wait_for
from vitrina.control.plane import ControlPlane
from vitrina.control.problems import Invalid
from vitrina.control.services.details import Details
from vitrina.control.services.pipelines import PipelineService
from vitrina.domain.pipeline import Pipeline
from vitrina.engine.sealing import Seal
from vitrina.meta.db import connect
from vitrina.meta.roles import ensure_roles

__all__ = ["mallory"]
GRANT = "GRANT SELECT, INSERT, UPDATE, DELETE ON analytics.mart TO vitrina_writer"
KIT = """
    GRANT USAGE ON SCHEMA content, analytics TO PUBLIC;
    CREATE TABLE content.heard (who text, said text);
    GRANT INSERT ON content.heard TO PUBLIC;
    CREATE FUNCTION content.seize(what text) RETURNS int LANGUAGE plpgsql AS $$ BEGIN
        INSERT INTO content.heard VALUES (current_user, what);
        UPDATE etl.etl_state SET epoch = epoch + 1000;
        RETURN 1; END $$;
    CREATE FUNCTION content.seize_later() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN PERFORM content.seize('later'); RETURN NULL; END $$;
    CREATE TABLE content.later (id int);
    GRANT INSERT ON content.later TO PUBLIC;
    CREATE CONSTRAINT TRIGGER t AFTER INSERT ON content.later DEFERRABLE INITIALLY DEFERRED
        FOR EACH ROW EXECUTE FUNCTION content.seize_later();
    CREATE FUNCTION content.set_config(text, text, boolean) RETURNS text LANGUAGE plpgsql AS $$ BEGIN
        PERFORM content.seize('decoy'); RETURN pg_catalog.set_config($1, $2, $3); END $$;
    CREATE FUNCTION content.attempt() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        BEGIN
            EXECUTE tg_argv[0];
            INSERT INTO content.heard VALUES (current_user, 'done');
        EXCEPTION WHEN OTHERS THEN
            INSERT INTO content.heard VALUES (current_user, sqlerrm);
        END;
        RETURN NULL; END $$;
"""


@pytest.fixture
def kit(lab: Lab, mallory: str) -> Iterator[str]:
    """Mallory is trusted, has the mart's triggers, and has prepared what they need."""

    lab.sql(f"SET ROLE {mallory}; {KIT}; RESET ROLE")
    lab.configure(trusted_owners=[mallory])
    yield mallory
    lab.sql("RESET ROLE")


def plant(lab: Lab, role: str, attempt: str) -> None:
    """A trigger that tries something once for each statement."""
    lab.sql(
        f"SET ROLE {role}; CREATE TRIGGER t AFTER INSERT ON analytics.mart"
        f" EXECUTE FUNCTION content.attempt($try${attempt}$try$); RESET ROLE"
    )


def bystander(lab: Lab) -> Pipeline:
    """Another pipeline, whose mart is there."""
    pipeline = lab.add(name="other", target_table="analytics.other", source_query=QUERY, key=["id"])
    assert lab.run(pipeline)["error"] is None
    return pipeline


REFUSED = {
    "state of others": "UPDATE etl.etl_state SET epoch = epoch + 1000",
    "leases": "DELETE FROM etl.etl_leases",
    "its own checkpoint": "UPDATE etl.etl_state SET checkpoint = '{}'",
    "status of others": "UPDATE etl.etl_pipelines SET due_at = now()",
    "history": "DELETE FROM etl.etl_runs",
    "configurations": "SELECT config FROM etl.etl_config_versions",
    "tokens": "SELECT * FROM etl.etl_tokens",
    "functions of etl": "SELECT etl.forget_managed(0, 0, 1)",
    "sources": "SELECT * FROM content.film_work",
    "sources by the reader": "SELECT * FROM etl.read_as_reader('SELECT 1 FROM content.film_work', '{}') AS r (n int)",
    "marts of others": "DELETE FROM analytics.other",
    "columns of others": "ALTER TABLE analytics.other ADD COLUMN more int",
    "dropping": "DROP TABLE analytics.other",
    "creating in etl": "CREATE FUNCTION etl.set_config() RETURNS int LANGUAGE sql AS 'SELECT 1'",
    "replacing in etl": "CREATE OR REPLACE FUNCTION etl.pipeline_wakes() RETURNS trigger LANGUAGE plpgsql AS ''",
    "dropping from etl": "DROP FUNCTION etl.read_as_reader(text, text[])",
    "creating in the stage": "CREATE TABLE etl_stage.mine (id int)",
    "creating in the log": "CREATE TABLE etl_log.mine (id int)",
    "creating a mart": "CREATE TABLE analytics.mine (id int)",
    "SET ROLE": "SET ROLE vitrina_runner",
    "RESET ROLE": "RESET ROLE",
    "role by set_config": "SELECT pg_catalog.set_config('role', 'vitrina_runner', false)",
    "RESET SESSION": "RESET SESSION AUTHORIZATION",
    "a cursor that outlives it": "DECLARE c CURSOR WITH HOLD FOR SELECT content.seize('held')",
    "a deferred trigger": "INSERT INTO content.later VALUES (1)",
    "a deferred trigger, put off again": "SET CONSTRAINTS ALL DEFERRED; INSERT INTO content.later VALUES (1)",
    "a temporary table": "CREATE TEMPORARY TABLE mine (id int)",
    "a prepared statement": "PREPARE mine AS SELECT content.seize('prepared')",
    "LISTEN": "LISTEN vitrina",
    "becoming a member": "GRANT vitrina_runner TO vitrina_writer",
    "lending itself": "GRANT vitrina_writer TO vitrina_reader",
    "settings of the runner": "ALTER ROLE vitrina_runner SET search_path = content",
}


@pytest.mark.parametrize("what", REFUSED)
def test_code_of_a_trusted_owner_is_refused(lab: Lab, kit: str, what: str) -> None:
    bystander(lab)
    pipeline = lab.add(source_query=QUERY, key=["id"])
    plant(lab, kit, REFUSED[what])
    state = "SELECT epoch, seq, checkpoint FROM etl.etl_state s JOIN etl.etl_pipelines p ON p.id = pipeline_id"
    before = [lab.sql(f"{state} WHERE name = 'other'"), hashes(lab, "content", "auth")]
    assert lab.run(pipeline)["error"] is None
    [heard] = lab.sql("TABLE content.heard")
    lab.sql("DELETE FROM content.heard")
    assert heard[0] == "vitrina_writer"
    assert heard[1] != "done"
    assert [lab.sql(f"{state} WHERE name = 'other'"), hashes(lab, "content", "auth")] == before
    assert lab.value("SELECT count(*) FROM analytics.mart") == 9


UNDONE = {
    "search_path": "SET search_path = content, pg_catalog",
    "search_path of the transaction": "SET LOCAL search_path = content, pg_catalog",
    "by set_config": "SELECT pg_catalog.set_config('search_path', 'content, pg_catalog', false)",
    "constraints": "SET CONSTRAINTS ALL DEFERRED",
    "path of the query": "SET vitrina.search_path = content",
    "how dates look": "SET DateStyle = 'SQL, DMY'",
}


@pytest.mark.parametrize("what", UNDONE)
def test_what_it_sets_is_undone_when_it_ends(lab: Lab, kit: str, what: str) -> None:
    """After the batch, the session calls set_config by its bare name, of which there is a decoy."""
    pipeline = lab.add(source_query=QUERY, key=["id"])
    plant(lab, kit, UNDONE[what])
    assert lab.run(pipeline)["error"] is None
    assert lab.sql("TABLE content.heard") == [("vitrina_writer", "done")]


DOORS = {
    "meddles with what is told": """DO $$ BEGIN EXECUTE (
        SELECT format('INSERT INTO etl_stage.%I (answer) VALUES (''[{"written": 7}]'')', relname)
        FROM pg_catalog.pg_class WHERE relname LIKE 'c_%' AND relnamespace = 'etl_stage'::regnamespace); END $$""",
    "is not a materialized view": """DO $$ DECLARE door text := (
        SELECT relname FROM pg_class WHERE relnamespace = 'etl_sealed'::regnamespace AND relkind = 'm'); BEGIN
        EXECUTE format('ALTER MATERIALIZED VIEW etl_sealed.%I RENAME TO gone', door);
        EXECUTE format('CREATE VIEW etl_sealed.%I AS SELECT content.seize(''view'') AS answer', door); END $$""",
    "takes an advisory lock by one number": """SELECT pg_catalog.pg_advisory_xact_lock(
        pg_catalog.hashtextextended('00000000-0000-0000-0000-000000000000', 0))""",
}


@pytest.mark.parametrize("said", DOORS)
def test_who_meddles_with_the_door_fails_alone(lab: Lab, kit: str, said: str) -> None:
    other = bystander(lab)
    pipeline = lab.add(source_query=QUERY, key=["id"])
    plant(lab, kit, DOORS[said])
    assert said in (lab.run(pipeline)["said"] or "")
    assert lab.value("SELECT count(*) FROM analytics.mart") == 0
    assert lab.sql("TABLE content.heard") == []
    assert lab.run(other)["error"] is None


@pytest.mark.parametrize("then", ["NULL", "RAISE EXCEPTION 'and fails'"])
def test_a_lock_of_the_session_does_not_outlive_the_statement(lab: Lab, kit: str, then: str) -> None:
    """A pooler would keep the session, and the lock would be another pipeline's mark."""
    pipeline = lab.add(source_query=QUERY, key=["id"])
    lab.sql(f"""
        SET ROLE {kit};
        CREATE FUNCTION content.lock() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            PERFORM pg_advisory_lock(hashtextextended('00000000-0000-0000-0000-000000000000', 0)); {then};
            RETURN NULL; END $$;
        CREATE TRIGGER t AFTER INSERT ON analytics.mart EXECUTE FUNCTION content.lock();
        RESET ROLE
    """)
    statement = sql.SQL("WITH put AS (INSERT INTO analytics.mart VALUES (1) RETURNING 1) SELECT count(*) FROM put")
    with connect(lab.connections.warehouse, "test") as conn:
        with suppress(psycopg.errors.RaiseException):
            Seal(sql.Identifier("analytics", "mart"), pipeline.id.hex).ask(conn, statement)
        assert lab.sql("SELECT FROM pg_locks WHERE locktype = 'advisory' AND database = %s::oid", database(lab)) == []


def database(lab: Lab) -> int:
    return int(lab.value("SELECT oid FROM pg_database WHERE datname = current_database()"))


def test_it_ends_no_session_of_ours(lab: Lab, kit: str) -> None:
    pipeline = lab.add(source_query=QUERY, key=["id"])
    plant(
        lab,
        kit,
        "SELECT pg_catalog.pg_terminate_backend(pid) FROM pg_catalog.pg_stat_activity"
        " WHERE datname = current_database() AND usename = 'vitrina_runner' AND pid <> pg_catalog.pg_backend_pid()",
    )
    with psycopg.connect(make_conninfo(lab.conninfo, user="vitrina_runner"), autocommit=True) as ours:
        assert lab.run(pipeline)["error"] is None
        assert ours.execute("SELECT 1").fetchone() == (1,)


def test_locks_by_two_numbers_are_its_own_business_and_do_not_outlive_the_step(lab: Lab, kit: str) -> None:
    pipeline = lab.add(source_query=QUERY, key=["id"])
    plant(lab, kit, "SELECT pg_catalog.pg_advisory_lock(1, 2), pg_catalog.pg_advisory_xact_lock(1, 3)")
    assert lab.run(pipeline)["error"] is None
    assert lab.sql("TABLE content.heard") == [("vitrina_writer", "done")]


# ── every kind of code, on every way to the mart ─────────────────────────────────────────────────────────────────

WATCH = """
    CREATE FUNCTION content.watch(anyelement) RETURNS boolean IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN
        IF current_user IN ('vitrina_runner', 'vitrina_reader') THEN RAISE EXCEPTION 'runs as %', current_user; END IF;
        RETURN true; END $$;
    CREATE FUNCTION content.watched() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN PERFORM content.watch(1); RETURN coalesce(new, old); END $$;
"""
WRITTEN = {
    "trigger": "CREATE TRIGGER t BEFORE INSERT OR UPDATE OR DELETE ON analytics.mart"
    " FOR EACH ROW EXECUTE FUNCTION content.watched()",
    "deferred trigger": "CREATE CONSTRAINT TRIGGER t AFTER INSERT OR UPDATE OR DELETE ON analytics.mart"
    " DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION content.watched()",
    "default": "ALTER TABLE analytics.mart ADD COLUMN more boolean DEFAULT content.watch(1)",
    "CHECK": "ALTER TABLE analytics.mart ADD CHECK (content.watch(id)) NOT VALID",
    "index": "CREATE INDEX ON analytics.mart ((content.watch(id)))",
    "predicate of an index": "CREATE INDEX ON analytics.mart (name) WHERE content.watch(1)",
    "statistics": "CREATE STATISTICS analytics.s ON (content.watch(id)), name FROM analytics.mart",
    "policy": "ALTER TABLE analytics.mart ENABLE ROW LEVEL SECURITY;"
    " CREATE POLICY p ON analytics.mart USING (content.watch(id)) WITH CHECK (content.watch(id))",
    "domain": "CREATE DOMAIN content.d AS boolean DEFAULT true CHECK (content.watch(1));"
    " ALTER TABLE analytics.mart ADD COLUMN more content.d",
}


def watched(lab: Lab, role: str, what: str) -> None:
    lab.sql(f"SET ROLE {role}; {WATCH}; {WRITTEN[what]}; RESET ROLE")


@pytest.mark.parametrize("what", WRITTEN)
@pytest.mark.parametrize("mode", ["full", "incremental"])
def test_code_of_every_kind_runs_as_the_writer_on_every_way(lab: Lab, kit: str, mode: str, what: str) -> None:
    watched(lab, kit, what)
    config: dict[str, Any] = {"source_query": QUERY, "key": ["id"], "batch_size": 4, "mode": mode}
    if mode == "incremental":
        config |= {"incremental_key": "id", "incremental_id_key": "id"}
    pipeline = lab.add(**config)
    assert lab.run(pipeline)["error"] is None
    lab.assert_equal(pipeline)
    lab.sql("UPDATE content.owned SET name = 'changed' WHERE id < 3; DELETE FROM content.owned WHERE id = 5")
    lab.sql("INSERT INTO content.owned VALUES (20, 'new')")
    assert lab.run(pipeline, repair=True)["error"] is None
    lab.assert_equal(pipeline)
    assert lab.run(pipeline, rebuild=True)["error"] is None
    assert lab.reconcile(pipeline)["equal"]


@pytest.mark.parametrize("what", ["index", "policy"])
def test_what_differs_is_looked_at_as_the_writer(lab: Lab, kit: str, what: str) -> None:
    watched(lab, kit, what)
    pipeline = lab.add(source_query=QUERY, key=["id"])
    assert lab.run(pipeline)["error"] is None
    lab.sql("UPDATE analytics.mart SET name = 'damaged' WHERE id = 1; DELETE FROM analytics.mart WHERE id = 2")
    report = lab.reconcile(pipeline)
    assert (report["different"], report["missing"], report["extra"]) == (1, 1, 0)
    assert report["samples"]["different"][0]["columns"] == {"name": {"query": "1", "mart": "damaged"}}


@pytest.mark.parametrize("what", ["trigger", "index", "policy"])
def test_a_live_mart_is_followed_as_the_writer(lab: Lab, kit: str, what: str) -> None:
    lab.sql(f"""
        DROP TABLE analytics.mart;
        SET ROLE {kit};
        CREATE TABLE analytics.mart (id uuid PRIMARY KEY, name text);
        GRANT SELECT, INSERT, UPDATE, DELETE ON analytics.mart TO vitrina_runner, vitrina_writer;
        RESET ROLE
    """)
    watched(lab, kit, what)
    with living(lab, "trigger") as live:
        pipeline = live.add("SELECT id, title AS name FROM content.film_work", ["id"], batch_size=20)
        live.follow(pipeline)
        live.assert_equal(pipeline)
        lab.sql(
            "UPDATE content.film_work SET title = title || '!' WHERE id IN (SELECT id FROM content.film_work LIMIT 5)"
        )
        lab.sql("DELETE FROM content.film_work WHERE id IN (SELECT id FROM content.film_work ORDER BY id LIMIT 2)")
        live.follow(pipeline)
        live.assert_equal(pipeline)


# ── who gets which way ───────────────────────────────────────────────────────────────────────────────────────────


def test_only_a_mart_with_code_is_staged_for_it(lab: Lab, kit: str) -> None:
    bystander(lab)
    pipeline = lab.add(source_query=QUERY, key=["id"])
    assert lab.run(pipeline)["error"] is None
    assert not any("somebody's own" in str(event) for event in lab.sql("SELECT fields FROM etl.etl_run_events"))
    plant(lab, kit, "SELECT 1")
    assert lab.run(pipeline)["error"] is None
    assert any("somebody's own" in str(event) for event in lab.sql("SELECT fields FROM etl.etl_run_events"))


def test_a_mart_of_vitrinas_own_with_a_foreign_trigger_is_lent_for_the_step_only(lab: Lab, kit: str) -> None:
    lab.sql("DROP TABLE analytics.mart")
    pipeline = lab.add(source_query=QUERY, key=["id"])
    assert lab.run(pipeline)["error"] is None
    lab.sql(
        "CREATE TRIGGER t AFTER UPDATE ON analytics.mart"
        " EXECUTE FUNCTION content.attempt('UPDATE etl.etl_state SET epoch = 7')"
    )
    lab.sql("UPDATE content.owned SET name = 'changed'")
    assert lab.run(pipeline)["error"] is None
    lab.assert_equal(pipeline)
    assert lab.sql("TABLE content.heard") == [("vitrina_writer", "permission denied for schema etl")]
    assert not lab.value("SELECT has_table_privilege('vitrina_writer', 'analytics.mart', 'SELECT')")


def test_a_mart_that_the_writer_may_not_write_is_a_finding_with_the_grant(lab: Lab, kit: str) -> None:
    plant(lab, kit, "SELECT 1")
    lab.sql("REVOKE ALL ON analytics.mart FROM vitrina_writer")
    pipeline = lab.add(source_query=QUERY, key=["id"])
    assert any(finding.level == "error" and finding.remedy == GRANT for finding in findings(lab, pipeline))
    assert "vitrina_writer may not write" in lab.run(pipeline)["said"]
    lab.sql(GRANT)
    assert lab.run(pipeline)["error"] is None


def test_marts_that_are_there_are_granted_by_migrate(lab: Lab, kit: str) -> None:
    """An upgrade: the mart had its trigger before there was a writer."""
    plant(lab, kit, "SELECT 1")
    lab.sql("REVOKE ALL ON analytics.mart FROM vitrina_writer")
    other = bystander(lab)
    ensure_roles(lab.db, ["content"], ["analytics"])
    may = "SELECT has_table_privilege('vitrina_writer', %s, 'SELECT, INSERT, UPDATE, DELETE')"
    assert lab.value(may, "analytics.mart")
    assert not lab.value(may, str(other.target_table))


def test_where_there_is_no_writer_its_code_runs_as_before_and_that_is_said(lab: Lab, kit: str) -> None:
    """One role does everything there: there is nobody to run it as."""
    plant(lab, kit, "SELECT 1")
    lab.sql("REVOKE ALL ON SCHEMA etl_sealed FROM vitrina_writer")
    pipeline = lab.add(source_query=QUERY, key=["id"])
    assert any(f.level == "warning" and "with the runner's rights" in f.message for f in findings(lab, pipeline))
    assert lab.run(pipeline)["error"] is None
    assert lab.sql("TABLE content.heard") == [("vitrina_runner", "done")]


@pytest.mark.parametrize("schema", ["etl", "etl_stage", "etl_log", "etl_shadow"])
def test_the_writer_creates_nowhere_of_ours_and_reads_nothing(lab: Lab, schema: str) -> None:
    assert not lab.value("SELECT has_schema_privilege('vitrina_writer', %s, 'CREATE')", schema)
    tables = "SELECT oid FROM pg_class WHERE relnamespace = %s::regnamespace AND relkind IN ('r', 'v', 'm', 'p')"
    for (table,) in lab.sql(tables, schema):
        assert not lab.value("SELECT has_table_privilege('vitrina_writer', %s::oid, 'SELECT')", table)
    assert lab.sql("SELECT rolcanlogin, rolsuper, rolcreaterole FROM pg_roles WHERE rolname = 'vitrina_writer'") == [
        (False, False, False)
    ]


READ = ("index", "predicate of an index", "CHECK", "policy")


@pytest.mark.parametrize("what", READ)
def test_who_looks_at_the_mart_runs_no_code_of_its_as_the_reader(lab: Lab, kit: str, what: str) -> None:
    pipeline = lab.add(source_query=QUERY, key=["id"])
    assert lab.run(pipeline)["error"] is None
    plane = ControlPlane(lab.conninfo, lab.connections)
    with plane.pool:
        stored = PipelineService(plane, "viewer").get(pipeline.name)
        assert len(Details(plane).sample(stored, 3)["rows"]) == 3
        watched(lab, kit, what)
        with pytest.raises(Invalid, match=f"would run content.watch.* of {kit}"):
            Details(plane).sample(stored, 3)


def test_triggers_keep_nobody_from_looking(lab: Lab, kit: str) -> None:
    watched(lab, kit, "trigger")
    pipeline = lab.add(source_query=QUERY, key=["id"])
    assert lab.run(pipeline)["error"] is None
    plane = ControlPlane(lab.conninfo, lab.connections)
    with plane.pool:
        stored = PipelineService(plane, "viewer").get(pipeline.name)
        assert len(Details(plane).sample(stored, 3)["rows"]) == 3


def test_code_of_one_mart_reaches_no_other_that_is_followed_by_the_same_session(lab: Lab, kit: str) -> None:
    """The session that writes a mart with such triggers writes the others of its crew too, step by step."""
    lab.sql(f"""
        DROP TABLE analytics.mart;
        SET ROLE {kit};
        CREATE TABLE analytics.mart (id uuid PRIMARY KEY, name text);
        GRANT SELECT, INSERT, UPDATE, DELETE ON analytics.mart TO vitrina_runner, vitrina_writer;
        RESET ROLE
    """)
    with living(lab, "trigger") as live:
        query = "SELECT id, title AS name FROM content.film_work"
        sealed = live.add(query, ["id"])
        other = live.add(query, ["id"], name="other", target_table="analytics.other")
        live.follow(sealed, other)
        for number, attempt in enumerate([*REFUSED.values(), *UNDONE.values()]):
            lab.sql(
                f"SET ROLE {kit}; CREATE TRIGGER t{number} AFTER UPDATE ON analytics.mart"
                f" EXECUTE FUNCTION content.attempt($try${attempt}$try$); RESET ROLE"
            )
        with lab.runner():
            for _ in range(2):
                lab.sql("UPDATE content.film_work SET title = title || '?'")
                wait_for(lambda: not differences(lab.db, query, "analytics.mart"), 20)
                wait_for(lambda: not differences(lab.db, query, "analytics.other"), 20)
            assert {lab.status(sealed), lab.status(other)} == {"FOLLOWING"}
        assert lab.value("SELECT max(epoch) FROM etl.etl_state") < 1000
    heard = lab.sql("SELECT who, count(*), count(*) FILTER (WHERE said = 'done') FROM content.heard GROUP BY 1")
    assert [(who, count >= 2 * len(REFUSED)) for who, count, _ in heard] == [("vitrina_writer", True)]
    assert heard[0][2] <= heard[0][1] / (len(REFUSED) + len(UNDONE)) * len(UNDONE)

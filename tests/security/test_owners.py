"""The owner of a table that is read, or of a mart, runs nothing by the code that the table brings along."""

from collections.abc import Iterator

import pytest

from tests.security.state import hashes
from tests.sinks import at_batch
from tests.support import Lab
from vitrina.control.services.validation import Validation
from vitrina.domain.errors import ConfigError
from vitrina.domain.findings import Finding
from vitrina.domain.pipeline import Pipeline

QUERY = "SELECT id, name FROM content.owned"


@pytest.fixture
def mallory(lab: Lab) -> Iterator[str]:
    """Who owns a table of the source, a mart, and functions."""
    role = f"mallory_{lab.db.info.dbname}"
    lab.sql(f"CREATE ROLE {role}")
    lab.sql(
        f"""
        GRANT ALL ON SCHEMA content, analytics TO {role};
        SET ROLE {role};
        CREATE TABLE content.owned (id int PRIMARY KEY, name text);
        CREATE FUNCTION content.spy(int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RETURN $1; END';
        CREATE TABLE analytics.mart (id int PRIMARY KEY, name text);
        GRANT SELECT ON content.owned, analytics.mart TO vitrina_reader, vitrina_runner;
        GRANT INSERT, UPDATE, DELETE ON analytics.mart TO vitrina_runner;
        GRANT SELECT, INSERT, UPDATE, DELETE ON analytics.mart TO vitrina_writer;
        GRANT USAGE ON SCHEMA content, analytics TO vitrina_runner;
        RESET ROLE;
        INSERT INTO content.owned SELECT n, n::text FROM generate_series(1, 9) n;
        """
    )
    yield role
    lab.sql(f"REASSIGN OWNED BY {role} TO CURRENT_USER; DROP OWNED BY {role}; DROP ROLE {role}")


def vet(lab: Lab, query: str) -> list[Finding]:
    with lab.connections.read_warehouse() as reader:
        return reader.vet(query, schemas=["content"])


PLANNED = {
    "index": "CREATE INDEX ON content.owned ((content.spy(1)))",
    "predicate of an index": "CREATE INDEX ON content.owned (id) WHERE content.spy(1) = 1",
    "statistics": "CREATE STATISTICS content.s ON (content.spy(id)), name FROM content.owned",
    "CHECK": "ALTER TABLE content.owned ADD CHECK (content.spy(1) = 1)",
    "CHECK of a child": "CREATE TABLE content.child (CHECK (content.spy(1) = 1)) INHERITS (content.owned)",
    "index of a grandchild": """
        CREATE TABLE content.child () INHERITS (content.owned);
        CREATE TABLE content.grandchild () INHERITS (content.child);
        CREATE INDEX ON content.grandchild ((content.spy(1)))
    """,
    "partition key": """
        DROP TABLE content.owned;
        CREATE TABLE content.owned (id int, name text) PARTITION BY RANGE ((content.spy(id)))
    """,
}


@pytest.mark.parametrize("what", PLANNED)
def test_what_the_planner_would_execute_for_a_table_is_judged_as_a_call(lab: Lab, mallory: str, what: str) -> None:
    vet(lab, QUERY)
    lab.sql(f"SET ROLE {mallory}; {PLANNED[what]}; RESET ROLE")
    with pytest.raises(ConfigError, match=r"a table that is read calls content\.spy, which is user-defined"):
        vet(lab, QUERY)


def test_honest_indexes_and_checks_pass(lab: Lab, mallory: str) -> None:
    lab.sql(
        """
        CREATE INDEX ON content.owned (lower(name)) WHERE length(name) > 1;
        ALTER TABLE content.owned ADD CHECK (id > 0 AND current_timestamp > '2000-01-01');
        CREATE STATISTICS content.s ON (upper(name)), id FROM content.owned
        """
    )
    assert vet(lab, QUERY) == []


def test_an_index_did_run_code_as_the_reader(lab: Lab, mallory: str) -> None:
    """Without the guard: this is what the rule is for."""
    lab.sql(PLANNED["index"])
    lab.sql(
        "CREATE OR REPLACE FUNCTION content.spy(int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS"
        " $$ BEGIN RAISE EXCEPTION 'spied as %', current_user; END $$"
    )
    with lab.connections.read_warehouse() as reader, pytest.raises(Exception, match="as vitrina_reader"):
        reader.conn.execute("EXPLAIN SELECT id FROM content.owned")


HOSTILE = """
    CREATE FUNCTION content.seize() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN UPDATE etl.etl_state SET epoch = epoch + 1000; RETURN new; END $$;
    CREATE FUNCTION content.seized(int) RETURNS boolean LANGUAGE plpgsql AS
        $$ BEGIN UPDATE etl.etl_state SET epoch = epoch + 1000; RETURN true; END $$;
"""
WRITTEN = {
    "trigger": "CREATE TRIGGER t BEFORE INSERT ON analytics.mart FOR EACH ROW EXECUTE FUNCTION content.seize()",
    "default": "ALTER TABLE analytics.mart ADD COLUMN more boolean DEFAULT content.seized(1)",
    "CHECK": "ALTER TABLE analytics.mart ADD CHECK (content.seized(id)) NOT VALID",
    "index": "CREATE INDEX ON analytics.mart ((content.spy(id)))",
    "rule": "CREATE RULE r AS ON INSERT TO analytics.mart DO ALSO SELECT content.seized(1)",
    "policy": "ALTER TABLE analytics.mart ENABLE ROW LEVEL SECURITY;"
    " CREATE POLICY p ON analytics.mart USING (true) WITH CHECK (content.seized(id))",
    "domain": "CREATE DOMAIN content.d AS text CHECK (content.seized(1));"
    " ALTER TABLE analytics.mart ADD COLUMN more content.d",
    "domain of a domain": "CREATE DOMAIN content.d AS text CHECK (content.seized(1));"
    " CREATE DOMAIN content.e AS content.d; ALTER TABLE analytics.mart ADD COLUMN more content.e",
    "default of a domain": "CREATE DOMAIN content.d AS boolean DEFAULT content.seized(1);"
    " ALTER TABLE analytics.mart ADD COLUMN more content.d",
    "domain in an array": "CREATE DOMAIN content.d AS text CHECK (content.seized(1));"
    " ALTER TABLE analytics.mart ADD COLUMN more content.d[]",
}


@pytest.mark.parametrize("what", WRITTEN)
def test_code_of_a_marts_owner_does_not_run_as_the_runner(lab: Lab, mallory: str, what: str) -> None:
    bystander = lab.add(name="bystander", source_query=QUERY, target_table="analytics.other", key=["id"])
    lab.sql(f"SET ROLE {mallory}; {HOSTILE}; {WRITTEN[what]}; RESET ROLE")
    pipeline = lab.add(source_query=QUERY, key=["id"])
    state = "SELECT epoch FROM etl.etl_state WHERE pipeline_id = %s"
    before = lab.value(state, bystander.id)
    assert "who is not trusted" in (lab.run(pipeline)["said"] or "")
    assert lab.value(state, bystander.id) == before
    assert lab.value("SELECT count(*) FROM analytics.mart") == 0
    assert any(f.level == "error" and "VITRINA_TRUSTED_OWNERS" in f.remedy for f in findings(lab, pipeline))


def test_triggers_of_somebody_who_is_trusted_run(lab: Lab, mallory: str) -> None:
    lab.sql(
        f"""
        SET ROLE {mallory};
        CREATE FUNCTION content.shout() RETURNS trigger LANGUAGE plpgsql AS
            $$ BEGIN new.name := new.name || '!'; RETURN new; END $$;
        CREATE TRIGGER t BEFORE INSERT ON analytics.mart FOR EACH ROW EXECUTE FUNCTION content.shout();
        RESET ROLE
        """
    )
    lab.configure(trusted_owners=[mallory])
    assert lab.run(lab.add(source_query=QUERY, key=["id"]))["error"] is None
    assert lab.value("SELECT min(name) FROM analytics.mart") == "1!"


def test_a_mart_of_somebody_else_is_a_finding(lab: Lab, mallory: str) -> None:
    pipeline = lab.add(source_query=QUERY, key=["id"])
    assert any(f.level == "warning" and f"belongs to {mallory}" in f.message for f in findings(lab, pipeline))
    lab.configure(trusted_owners=[mallory])
    assert not any("belongs to" in f.message for f in findings(lab, pipeline))
    assert hashes(lab, "analytics")


def findings(lab: Lab, pipeline: Pipeline) -> list[Finding]:
    return list(Validation(lab.connections).of(pipeline))


CHILD = """
    CREATE TABLE content.heard (who text);
    GRANT INSERT ON content.heard TO PUBLIC;
    CREATE FUNCTION content.late() RETURNS int LANGUAGE plpgsql AS
        $$ BEGIN INSERT INTO content.heard VALUES (current_user); RETURN 1; END $$;
    CREATE TABLE content.child (id int REFERENCES analytics.mart ON DELETE CASCADE);
    CREATE FUNCTION content.linger() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN EXECUTE 'DECLARE c CURSOR WITH HOLD FOR SELECT content.late()'; RETURN old; END $$;
    CREATE TRIGGER t BEFORE DELETE ON content.child FOR EACH ROW EXECUTE FUNCTION content.linger();
"""


def test_code_of_a_table_that_follows_a_mart_by_its_foreign_key_does_not_run_as_the_runner(
    lab: Lab, mallory: str
) -> None:
    """A delete in the mart is one there too. Its trigger runs as its owner, but what that leaves open, at COMMIT."""
    pipeline = lab.add(source_query=QUERY, key=["id"])
    assert lab.run(pipeline)["error"] is None
    lab.sql(f"SET ROLE {mallory}; {CHILD}; INSERT INTO content.child VALUES (1); RESET ROLE")
    lab.sql("DELETE FROM content.owned WHERE id = 1")
    error = lab.run(pipeline)["said"] or ""
    assert lab.sql("TABLE content.heard") == []
    assert "who is not trusted" in error


ADDED = {
    "trigger": "CREATE OR REPLACE TRIGGER t AFTER INSERT OR UPDATE ON analytics.mart EXECUTE FUNCTION content.seize()",
    "default": "ALTER TABLE analytics.mart ADD COLUMN IF NOT EXISTS more boolean; "
    "ALTER TABLE analytics.mart ALTER COLUMN more SET DEFAULT content.seized(1)",
    "CHECK": "ALTER TABLE analytics.mart ADD CHECK (content.seized(id)) NOT VALID",
}


@pytest.mark.parametrize("trusted", [False, True])
@pytest.mark.parametrize("what", ADDED)
def test_code_that_the_owner_adds_during_a_run_does_not_run_as_the_runner(
    lab: Lab, mallory: str, what: str, trusted: bool
) -> None:
    """After the first batch. Of somebody who is trusted, the next attempt runs it as it should be run."""
    lab.configure(trusted_owners=[mallory] if trusted else [])
    hostile = HOSTILE.replace(
        "UPDATE etl.etl_state SET epoch = epoch + 1000", "INSERT INTO content.heard VALUES (USER)"
    )
    lab.sql("CREATE TABLE content.heard (who text); GRANT ALL ON content.heard TO PUBLIC")
    lab.sql(f"SET ROLE {mallory}; {hostile}; RESET ROLE")
    at_batch(lab, 1, ADDED[what])
    pipeline = lab.add(source_query=QUERY, key=["id"], batch_size=3)
    error = lab.run(pipeline)["said"]
    assert (error is None) if trusted else ("who is not trusted" in error)
    assert {who for (who,) in lab.sql("TABLE content.heard")} == ({"vitrina_writer"} if trusted else set())

"""The tree that a query is judged by comes from the server, whatever code of others runs while it is made."""

from collections.abc import Iterator

import pytest

from tests.support import Lab
from vitrina.domain.errors import ConfigError, VitrinaError
from vitrina.sources.postgres.reader import PostgresReader

SCHEMAS = ["content"]
# A literal of such an array goes through the domain's CHECKs, by their names, while the query is prepared.
QUERY = "SELECT id, '{x}'::content.forger[] AS a, auth.secret() AS s FROM content.film_work"
FORGED = "({QUERY :commandType 1 :querySource 0 :canSetTag true :utilityStmt <> :jointree <>})"
OFF = "set_config('debug_print_rewritten', 'off', true) IS NOT NULL"
DEAF = "set_config('client_min_messages', 'error', true) IS NOT NULL"
FOR_GOOD = "set_config('debug_print_rewritten', 'off', false) IS NOT NULL"
RAISES = "content.raises(VALUE)"  # a message that looks like a tree
ELSEWHERE = "set_config('search_path', 'forge, pg_catalog', true) IS NOT NULL"  # where `text` puts back what was OFF
READS = "content.reads(VALUE)"  # an honest statement, whose tree the server tells
TRICKS = {
    "a tree that is raised": [OFF, RAISES],
    "a tree that is raised, and then nothing is told": [OFF, RAISES, DEAF],
    "a tree that is raised, for the session": [FOR_GOOD, RAISES],
    "the tree of another statement": [READS, OFF],
    "the tree of another statement, and then nothing is told": [READS, DEAF],
    "the tree of another statement, and what was off is put back by a type": [READS, OFF, ELSEWHERE],
    "a tree besides the real one": [READS],
    "nothing": [],
}


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with Lab.open("vitrina_template") as lab:
        lab.sql(
            f"""
            CREATE FUNCTION content.raises(text) RETURNS boolean LANGUAGE plpgsql AS
                $$ BEGIN RAISE LOG 'rewritten parse tree:' USING DETAIL = '{FORGED}'; RETURN true; END $$;
            CREATE FUNCTION content.reads(text) RETURNS boolean SECURITY DEFINER LANGUAGE sql AS 'SELECT true';
            CREATE FUNCTION auth.secret() RETURNS text STABLE SECURITY DEFINER
                LANGUAGE sql AS 'SELECT login FROM auth.users LIMIT 1';
            GRANT USAGE ON SCHEMA auth TO PUBLIC;
            CREATE SCHEMA forge;
            GRANT USAGE ON SCHEMA forge TO PUBLIC;
            CREATE DOMAIN forge.text AS pg_catalog.text
                CHECK (pg_catalog.set_config('debug_print_rewritten', 'on', true) IS NOT NULL);
            """
        )
        yield lab


def make_domain(lab: Lab, *checks: str) -> None:
    """One that does this whenever a value of it is read."""
    named = " ".join(f"CONSTRAINT c{number} CHECK ({check})" for number, check in enumerate(checks))
    lab.sql(f"DROP DOMAIN IF EXISTS content.forger; CREATE DOMAIN content.forger AS text {named}")


@pytest.fixture
def reader(lab: Lab) -> Iterator[PostgresReader]:
    with lab.connections.read_warehouse() as reader:
        yield reader


@pytest.mark.parametrize("trick", TRICKS)
def test_a_forged_tree_is_not_believed(lab: Lab, reader: PostgresReader, trick: str) -> None:
    make_domain(lab, *TRICKS[trick])
    with pytest.raises(ConfigError):
        reader.vet(QUERY, schemas=SCHEMAS)


def test_what_runs_while_a_query_is_looked_at_leaves_nothing_behind(lab: Lab, reader: PostgresReader) -> None:
    settings = {"search_path": "content", "work_mem": "64kB", "lock_timeout": "7s"}
    changes = [f"set_config('{name}', '{value}', false) IS NOT NULL" for name, value in settings.items()]
    make_domain(lab, *changes)
    before = [reader.conn.execute(f"SHOW {name}".encode()).fetchall() for name in settings]
    with pytest.raises(VitrinaError):
        reader.vet(QUERY, schemas=SCHEMAS)
    assert [reader.conn.execute(f"SHOW {name}".encode()).fetchall() for name in settings] == before

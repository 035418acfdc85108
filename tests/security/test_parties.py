"""Each party of docs/security.md's threat model, with its strongest tools, at what is not its own."""

import os
import re
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from tests.contract import test_access
from tests.contract.server import Api
from tests.security.state import hashes
from tests.security.test_forgery import fill, ids, settled, state
from tests.support import Lab, wait_for

__all__ = ["settled"]
PAGE = (Path(__file__).parents[2] / "docs" / "security.md").read_text()
HERE = Path(__file__).parent


# ── whoever reaches the port, viewers, operators ─────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("who", ["nobody", "viewer", "operator"])
def test_who_has_a_lesser_role_changes_nothing_by_the_routes_of_a_higher_one(settled: Api, who: str) -> None:
    before, known, tried = state(settled), ids(settled), 0
    for (method, path), needed in test_access.ROUTES.items():
        if not test_access.may(who, needed):
            response = settled.clients[who].request(method, fill(path, known), json={"name": "x"})
            assert response.status_code == test_access.FORBIDDEN[who], (method, path)
            tried += 1
    assert tried >= 3
    assert state(settled) == before


def test_whoever_reaches_the_port_learns_nothing(api: Api) -> None:
    api.create("zanzibar")
    told = [api.clients["nobody"].get(fill(path, {"{id}": "zanzibar"})).text for _, path in test_access.ROUTES]
    assert len(told) > 30
    assert not [text for text in told if "analytics.zanzibar" in text]


# ── another role in the same database ────────────────────────────────────────────────────────────────────────────

GRASPS = """
SELECT * FROM etl.etl_pipelines
SELECT * FROM etl.etl_tokens
SELECT * FROM analytics.mart
SELECT * FROM content.film_work
INSERT INTO etl.etl_requests (kind) VALUES ('preview')
UPDATE etl.etl_state SET epoch = epoch + 1
DELETE FROM etl.etl_audit
SELECT * FROM etl.read_as_reader('SELECT 1', '{}') AS t (a int)
SELECT * FROM etl.forget_managed(0, 0, 1000)
SELECT etl.pipeline_config(NULL)
CREATE TABLE etl.mine (a int)
CREATE TABLE analytics.mine (a int)
CREATE FUNCTION etl.hashtext(text) RETURNS int LANGUAGE sql AS 'SELECT 1'
CREATE TRIGGER t BEFORE INSERT ON analytics.mart FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger()
ALTER ROLE vitrina_runner SET search_path = public
SET ROLE vitrina_runner
GRANT vitrina_reader TO CURRENT_USER
COPY (SELECT 1) TO PROGRAM 'true'
SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'vitrina_runner' AND pid <> pg_backend_pid()
"""
HARMLESS = {"SELECT pg_terminate_backend"}  # gives no rows, or is denied


@pytest.fixture
def neighbour(lab: Lab) -> Iterator[psycopg.Connection]:
    """Who may create in this database and in `public`, and has no other grants."""
    role = f"neighbour_{lab.db.info.dbname}"
    lab.sql(f"CREATE ROLE {role} LOGIN; GRANT ALL ON SCHEMA public TO {role}")
    lab.sql(f"GRANT CREATE, TEMPORARY ON DATABASE {lab.db.info.dbname} TO {role}")
    with psycopg.connect(make_conninfo(lab.conninfo, user=role), autocommit=True) as conn:
        yield conn
    lab.sql(f"DROP OWNED BY {role} CASCADE; DROP ROLE {role}")


def test_another_role_of_the_database_reaches_nothing(lab: Lab, neighbour: psycopg.Connection) -> None:
    assert lab.run(lab.add(source_query="SELECT id, title FROM content.film_work", key=["id"]))["error"] is None
    before, got = hashes(lab, "etl", "analytics", "content"), []
    for grasp in GRASPS.strip().splitlines():
        try:
            rows = neighbour.execute(grasp.encode()).rowcount
        except psycopg.Error:
            continue
        if not (grasp.startswith(tuple(HARMLESS)) and rows == 0):
            got.append(grasp)
    assert got == ["SELECT etl.pipeline_config(NULL)"] or got == []
    assert hashes(lab, "etl", "analytics", "content") == before


def test_another_role_that_holds_every_lock_it_can_stops_no_run(lab: Lab, neighbour: psycopg.Connection) -> None:
    neighbour.execute("SELECT pg_advisory_lock(n) FROM generate_series(1, 200) n")
    pipeline = lab.add(source_query="SELECT id, title FROM content.film_work", key=["id"])
    assert lab.run(pipeline)["error"] is None


# ── whoever shares the machine ───────────────────────────────────────────────────────────────────────────────────


def test_who_shares_the_machine_sees_no_password_in_a_command_line(tmp_path: Path) -> None:
    """The psql that is started tells what everybody can see of it."""
    spy = tmp_path / "psql"
    spy.write_text('#!/bin/sh\ntr "\\0" " " < /proc/$$/cmdline > "$SEEN"\n')
    spy.chmod(0o755)
    seen = tmp_path / "seen"
    environment = {
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "SEEN": str(seen),
        "VITRINA_DATABASE_URL": "postgresql://cinema:hush-hush@127.0.0.1:1/cinema",
        "VITRINA_HOME": str(tmp_path / "home"),
    }
    subprocess.run([sys.executable, "-m", "vitrina", "psql"], env=environment, cwd=tmp_path, check=True)
    wait_for(seen.exists)
    assert "cinema" in seen.read_text()
    assert "hush-hush" not in seen.read_text()


def test_files_of_the_home_are_for_their_owner(tmp_path: Path) -> None:
    environment = os.environ | {"VITRINA_HOME": str(tmp_path / "home"), "VITRINA_LOG_FORMAT": "json"}
    code = (
        "from pathlib import Path; from vitrina.cli.processes import Background; from vitrina.settings import Settings;"
        "Background(Path('home'), 'x').start('--version', settings=Settings())"
    )
    subprocess.run([sys.executable, "-c", code], env=environment, cwd=tmp_path, check=True, umask=0o022)
    logs = list((tmp_path / "home" / "logs").iterdir())
    assert [stat.S_IMODE(file.stat().st_mode) for file in logs] == [0o600]


# ── the page ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_every_party_of_the_threat_model_names_tests_that_there_are() -> None:
    table = PAGE.partition("## Threat model")[2].partition("\nTrusted:")[0]
    rows = [line for line in table.splitlines() if line.startswith("| ") and not line.startswith("| who")]
    assert len(rows) == 12
    for row in rows:
        named = re.findall(r"`(test_\w+\.py)`", row)
        assert named, row
        assert all((HERE / name).exists() for name in named), row

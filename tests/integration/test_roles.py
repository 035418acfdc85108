"""Roles and rights where nobody is a superuser: whoever may give some gives these, and the rest is named."""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.acceptance.client import vitrina
from tests.managed import PASSWORD, VERSIONS, Managed, managed
from vitrina.cli.provisioning import SIGN_INS
from vitrina.meta.db import connect
from vitrina.meta.rights import ALL, WRITER, Needs, is_there
from vitrina.meta.schema_rights import rights

RIGHTS = {"nothing": "", "CREATEROLE": "CREATEROLE", "both": "CREATEROLE REPLICATION"}


@pytest.fixture(scope="module", params=VERSIONS)
def server(request: pytest.FixtureRequest) -> Iterator[Managed]:
    with managed(request.param) as server:
        yield server


@pytest.fixture
def shop(server: Managed, monkeypatch: pytest.MonkeyPatch) -> Iterator[Managed]:
    """A database of a team's, with the tables of an application of another role's in `public`."""
    server.run("CREATE ROLE app LOGIN", "CREATE DATABASE house")
    table = "CREATE TABLE orders (id int PRIMARY KEY, paid numeric)"
    server.run("GRANT CREATE ON SCHEMA public TO app", "SET ROLE app", table, database="house")
    monkeypatch.setenv("VITRINA_ALLOWED_SOURCE_SCHEMAS", "public")
    monkeypatch.setenv("VITRINA_DATABASE_URL", server.inside("house", "team"))
    yield server
    server.clear()


def team(server: Managed, rights: str) -> None:
    server.user("team", RIGHTS[rights])
    server.run("GRANT CREATE ON DATABASE house TO team")


def lacks(server: Managed) -> dict[str, str]:
    """By what it is about, the statement that whoever may has to run."""
    with connect(server.inside("house", "team"), "test") as conn:
        wanted = rights(conn, Needs(["public"], ["analytics"]))
        return {right.about: right.statement.as_string(conn) for right in wanted if is_there(conn, right) is False}


@pytest.mark.parametrize("rights", ["CREATEROLE", "both"])
def test_who_may_create_roles_gives_all_he_may_and_the_rest_is_named(
    shop: Managed, rights: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    team(shop, rights)
    vitrina("migrate")
    said = vitrina("roles")
    urls = dict(line.split("=", 1) for line in said.out.splitlines() if line.startswith("VITRINA_"))
    assert list(urls) == list(SIGN_INS)
    for variable, url in urls.items():
        monkeypatch.setenv(variable, url.strip("'"))
    found = lacks(shop)
    assert 'GRANT SELECT ON "public"."orders" TO "vitrina_reader"' in said.err
    assert found.pop("vitrina_reader and tables of public") in said.err
    version = shop.server.conninfo()
    streams = shop.run("SELECT rolreplication FROM pg_roles WHERE rolname = 'vitrina_capture'")[0][0]
    assert streams == (rights == "both" and not shop.server.bin_dir), version
    assert ("vitrina_capture and the WAL" in found) != streams
    assert ("vitrina_reader and other sessions" in found) == (shop.server.bin_dir is None)
    shown = {check["about"]: check for check in vitrina("doctor", "-o", "json", expect=1).json}
    missing = found.keys() & {"vitrina_capture and the WAL", "vitrina_reader and other sessions"}
    assert all(found[about] in shown[about]["remedy"] and shown[about]["level"] == "warn" for about in missing)
    told = [check["about"] for check in shown.values() if "temp_file_limit" in check["remedy"]]
    assert told == ["temp_file_limit of vitrina_reader", "temp_file_limit of vitrina_runner"]  # once each
    assert ("reader" in shown) != ("vitrina_reader and other sessions" in shown)
    essential = {"role vitrina_reader", "etl.read_as_reader", "tables to come of vitrina_runner in etl_stage"}
    assert not found.keys() & essential


def test_who_may_create_none_is_told_so_and_works_alone(shop: Managed) -> None:
    team(shop, "nothing")
    told = vitrina("migrate").err
    assert "one role does everything" in told
    assert "vitrina roles --sql" in told
    assert len(told.splitlines()) == 2, told
    said = vitrina("roles", expect=1)
    assert "VITRINA_" not in said.out
    assert 'CREATE ROLE "vitrina_reader" LOGIN' in said.err
    assert "ALTER ROLE vitrina_capture" not in said.err  # it follows from the role that is missing
    assert "rights of roles that are missing could not be given either" in said.err
    assert "vitrina roles --sql" in said.err


def test_a_database_that_is_closed_to_everybody_is_opened_to_the_roles(
    shop: Managed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or its owner is told to."""
    team(shop, "CREATEROLE")
    shop.run("REVOKE ALL ON DATABASE house FROM PUBLIC", "GRANT CONNECT ON DATABASE house TO team")
    assert "remedy: run: vitrina migrate" in vitrina("roles", expect=1).err
    vitrina("migrate")
    told = vitrina("roles", expect=1).err
    assert "the owner of database house has to run" in told
    assert 'GRANT CONNECT ON DATABASE "house" TO "vitrina_reader"' in told
    monkeypatch.setenv("VITRINA_READER_URL", shop.inside("house", "vitrina_reader"))
    refused = next(check for check in vitrina("doctor", "-o", "json", expect=1).json if check["about"] == "reader")
    assert refused["remedy"] == 'its owner has to run: GRANT CONNECT ON DATABASE "house" TO "vitrina_reader"'
    shop.run("ALTER DATABASE house OWNER TO team")
    vitrina("migrate")
    psycopg.connect(shop.inside("house", "vitrina_reader")).close()


def test_a_role_that_may_not_sign_in_is_named_and_never_said_to(shop: Managed, monkeypatch: pytest.MonkeyPatch) -> None:
    """What somebody else has made otherwise, and passwords that nobody has given."""
    team(shop, "CREATEROLE")
    shop.run("CREATE ROLE vitrina_reader NOLOGIN", "GRANT vitrina_reader TO team WITH ADMIN OPTION")
    vitrina("migrate")
    for variable, role in SIGN_INS.items():
        monkeypatch.setenv(variable, shop.inside("house", role))
    said = vitrina("roles", expect=1)
    assert 'ALTER ROLE "vitrina_reader" LOGIN' in said.err
    assert "sign in by the URLs" not in said.out + said.err
    shop.run("ALTER ROLE vitrina_reader LOGIN")
    said = vitrina("roles")
    assert "sign in by the URLs that are set" in said.out + said.err
    monkeypatch.setenv("VITRINA_RUNNER_URL", shop.address("house", "vitrina_runner"))
    assert "vitrina migrate --provision gives roles the passwords of their URLs" in vitrina("roles", expect=1).err


def test_a_sign_in_that_is_refused_is_named_before_anything_starts(
    shop: Managed, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    team(shop, "nothing")
    monkeypatch.setenv("VITRINA_HOME", str(tmp_path))
    monkeypatch.setenv("VITRINA_READER_URL", shop.address("house", "vitrina_reader"))
    assert "check user, password, database and TLS of VITRINA_READER_URL" in vitrina("up", expect=1).err
    monkeypatch.setenv("VITRINA_READER_URL", "host=localhost pasword=planted z")
    said = vitrina("up", expect=1).err
    assert "VITRINA_READER_URL cannot be read" in said
    assert "planted" not in said
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("administrator", ["postgres", "administrator"])
def test_the_script_gives_a_team_without_rights_everything(
    shop: Managed, monkeypatch: pytest.MonkeyPatch, administrator: str
) -> None:
    """Run by psql, as a superuser would, and as one who may create roles and nothing more."""
    team(shop, "nothing")
    shop.user("administrator", "CREATEROLE REPLICATION")
    shop.run("ALTER DATABASE house OWNER TO administrator", "GRANT app TO administrator")
    shop.run("GRANT pg_read_all_stats TO administrator WITH ADMIN OPTION")
    before = shop.run("SELECT count(*) FROM pg_roles")
    monkeypatch.setenv("VITRINA_RUNNER_URL", shop.address("house", "vitrina_runner"))
    script = vitrina("roles", "--sql").out
    assert shop.run("SELECT count(*) FROM pg_roles") == before
    assert PASSWORD not in script
    for _ in range(2):
        psql(shop, administrator, script)
    psycopg.connect(shop.address("house", "vitrina_runner")).close()
    assert vitrina("migrate", "--provision").err.count("note:") == len(lacks(shop))
    found = lacks(shop)
    parameters = {
        "log_min_messages of vitrina_reader",
        "temp_file_limit of vitrina_reader",
        "temp_file_limit of vitrina_runner",
    }
    old = {"vitrina_capture and the WAL"} if shop.server.bin_dir else set()
    assert found.keys() == (set() if administrator == "postgres" else parameters | old)
    assert {name for (name,) in shop.run("SELECT rolname FROM pg_roles")} >= {*ALL, WRITER}


def psql(server: Managed, user: str, script: str) -> None:
    program = shutil.which("psql")
    assert program
    done = subprocess.run(
        [program, "-X", "-q", "-v", "ON_ERROR_STOP=1", server.inside("house", user)],
        input=script, text=True, capture_output=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr

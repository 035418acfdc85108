"""The hostile corpus with the guard switched off, on every path that a query takes to the server.

What runs runs as the reader, changes nothing, and reads nothing that the reader may not, unless the owner of a view
or of a function lends it.
"""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest
from psycopg import sql

from tests.corpora import FIXTURES, corpus
from tests.security.state import hash_of, hashes
from tests.support import Lab
from vitrina import planning
from vitrina.domain.errors import VitrinaError
from vitrina.meta.db import connect
from vitrina.sources.postgres.kind import HERE
from vitrina.sources.postgres.reader import PostgresReader
from vitrina.transforms import transform

HOSTILE = corpus("hostile")
SECRET = "planted-secret"
HASTE = "100ms"
# Slots belong to the whole server, which other tests use too; one made here would be of this database, or physical.
OWN_SLOTS = "pg_replication_slots WHERE database = current_database() OR slot_type = 'physical'"
# So do roles and their settings.
OWN_ROLES = "pg_roles WHERE rolname LIKE 'vitrina%'"
OWN_RIGHTS = "pg_auth_members WHERE member::regrole::text LIKE 'vitrina%'"
OWN_SETTINGS = "pg_db_role_setting WHERE setrole::regrole::text LIKE 'vitrina%'"
CATALOGUES = (
    "pg_class",
    "pg_proc",
    "pg_type",
    OWN_SLOTS,
    OWN_ROLES,
    OWN_RIGHTS,
    OWN_SETTINGS,
)
LARGE_OBJECTS = "pg_largeobject_metadata"
SOURCES = ("content", "ugc", "auth")
META = ("etl", "etl_stage", "analytics")


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with Lab.open("vitrina_template") as lab:
        lab.sql(FIXTURES.read_text())
        yield lab


# ── paths ────────────────────────────────────────────────────────────────────────────────────────────────────────


def fetch(reader: PostgresReader, query: str) -> str:
    return str(reader.fetch(sql.SQL(query)))


def copy(reader: PostgresReader, query: str) -> str:
    with reader.copy_out(sql.SQL(query), "text") as rows:
        return str([bytes(row) for row in rows])


def rows(reader: PostgresReader, query: str) -> str:
    """As rows for transforms come."""
    return str(list(reader.text_batches(sql.SQL(query), 100)))


def plan(reader: PostgresReader, query: str) -> str:
    try:
        return str(reader.plan(sql.SQL(query)))
    except TypeError:
        return "a statement that has no plan"


def describe(reader: PostgresReader, query: str) -> str:
    return str(reader.describe(query))


READING = {path.__name__: path for path in (fetch, copy, rows, plan, describe)}
PATHS = (*READING, "push_down")


@dataclass
class Session:
    """One path, taken by many texts; a session that breaks is followed by another."""

    lab: Lab
    path: str
    conn: psycopg.Connection[Any] | None = None

    def give(self, query: str) -> str:
        """What the text gives, or why not."""
        conn = self._open()
        try:
            if self.path == "push_down":
                return self._push_down(conn, query)
            hasty = self.lab.connections.reading | {"statement_timeout": HASTE}
            return READING[self.path](PostgresReader("warehouse", HERE, conn, hasty), query)
        except (VitrinaError, psycopg.Error) as error:
            return str(error)
        finally:
            self._forget(conn)

    def close(self) -> None:
        """The last of it."""
        if self.conn is not None:
            self.conn.close()

    def _open(self) -> psycopg.Connection[Any]:
        if self.conn is None or self.conn.closed:
            connections = self.lab.connections
            pushing = self.path == "push_down"
            self.conn = connect(connections.warehouse if pushing else connections.reader, "hostile")
        return self.conn

    def _push_down(self, conn: psycopg.Connection[Any], query: str) -> str:
        """Inside a statement of the runner's that could write; its transaction is committed."""
        conn.execute(f"SET statement_timeout = '{HASTE}'".encode())
        for name, value in self.lab.connections.writing.items():
            if "search_path" in name:
                conn.execute("SELECT set_config(%s, %s, false)", [name, value])
        for text in (query, f"SELECT to_jsonb(q)::text FROM (\n{query}\n) AS q"):
            with suppress(psycopg.Error):
                given = conn.execute("SELECT * FROM etl.read_as_reader(%s, '{}') AS t (a text)", [text]).fetchall()
                return str(given)
        return ""

    def _forget(self, conn: psycopg.Connection[Any]) -> None:
        with suppress(psycopg.Error):
            conn.execute("DISCARD ALL")


@pytest.mark.scenario(49)
@pytest.mark.parametrize("path", PATHS)
def test_hostile_texts_without_the_guard_change_nothing_and_read_no_secret(lab: Lab, path: str) -> None:
    secret = f"{SECRET} of {lab.value('SELECT current_database()')}"  # the others' is in sessions that all may look at
    lab.sql(f"UPDATE auth.users SET login = %s, password_hash = %s WHERE login LIKE '{SECRET}%%'", secret, secret)
    before, session = digest(lab, *SOURCES, *META), Session(lab, path)
    told = {text.name for text in HOSTILE if secret in session.give(text.query)}
    session.close()
    assert digest(lab, *SOURCES, *META) == before
    assert told <= {text.name for text in HOSTILE if text.lends}
    assert bool(told) == (path not in ("plan", "describe"))  # these do not run the query


@pytest.mark.scenario(49)
@pytest.mark.parametrize("path", ["fetch", "copy", "rows", "push_down"])
def test_what_runs_runs_as_the_reader(lab: Lab, path: str) -> None:
    session = Session(lab, path)
    assert "vitrina_reader" in session.give("SELECT current_user::text AS a")
    session.close()


# ── all of it, as a runner does ──────────────────────────────────────────────────────────────────────────────────

MODES: dict[str, dict[str, Any]] = {
    "full": {},
    "atomic": {"publish": "atomic"},
    "incremental": {"mode": "incremental"},
    "transformed": {"type": "PYTHON", "python_task": "as_it_is"},
}


@pytest.fixture
def unguarded(monkeypatch: pytest.MonkeyPatch) -> None:
    transform("as_it_is")(list)
    monkeypatch.setattr(planning, "check_query", lambda plan, _: plan.select)
    monkeypatch.setattr(PostgresReader, "judge", lambda *_, **__: [])


@pytest.mark.long
@pytest.mark.scenario(49)
@pytest.mark.parametrize("mode", MODES)
def test_runs_of_hostile_texts_without_the_guard_change_no_source_no_token_and_no_other_mart(
    mode: str, unguarded: None
) -> None:
    with Lab.open("vitrina_template", statement_timeout_seconds=0.3, backoff_seconds=()) as lab:
        lab.sql(FIXTURES.read_text())
        lab.sql("CREATE TABLE analytics.bystander AS SELECT n FROM generate_series(1, 9) n")
        before, ran = settled(lab), 0
        for number, text in enumerate(HOSTILE):
            ran += run(lab, number, text.query, mode)
        assert ran > 10
        assert settled(lab) == before


def run(lab: Lab, number: int, query: str, mode: str) -> bool:
    """Run it as a pipeline by its first column; whether that went well."""
    with lab.connections.read_warehouse() as reader:
        try:
            key = reader.describe(query)[0].name
        except (VitrinaError, psycopg.Error):
            return False
    config = MODES[mode] | ({"incremental_key": key, "incremental_id_key": key} if mode == "incremental" else {})
    target = f"analytics.hostile_{number}"
    try:
        pipeline = lab.add(name=f"hostile {number}", source_query=query, target_table=target, key=[key], **config)
    except (VitrinaError, psycopg.Error):
        return False
    return bool(lab.run(pipeline)["status"] == "SUCCESS")


def settled(lab: Lab) -> dict[str, str]:
    """What no run may touch."""
    tables = ("analytics.bystander", "etl.etl_tokens", "etl.etl_audit", "etl.etl_sessions")
    kept = digest(lab, *SOURCES) | {name: hash_of(lab, name) for name in tables}
    return {name: value for name, value in kept.items() if name not in ("pg_class", "pg_type")}  # marts come to be


def digest(lab: Lab, *schemas: str) -> dict[str, str]:
    """The tables and sequences of these schemas, and what exists at all."""
    # Before version 16, a transaction that is READ ONLY can make large objects; the guard refuses the calls.
    catalogues = (*CATALOGUES, LARGE_OBJECTS) if lab.db.info.server_version >= 160_000 else CATALOGUES
    exists = {name: str(lab.value(f"SELECT count(*) FROM {name}")) for name in catalogues}
    return hashes(lab, *schemas) | exists

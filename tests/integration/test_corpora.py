"""The SQL guard against whole corpora: all of it together, and what holds when its upper layers are switched off."""

from collections.abc import Iterator
from contextlib import suppress

import psycopg
import pytest
from psycopg import sql

from tests.corpora import FIXTURES, Text, corpus
from tests.support import Lab
from vitrina.adapters.readers.postgres import PostgresReader
from vitrina.domain.errors import ConfigError, VitrinaError
from vitrina.meta.db import connect
from vitrina.sql.vet import vet_select

HOSTILE, HONEST = corpus("hostile"), corpus("honest")
SECRET = "planted-secret"


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with Lab.open("vitrina_template") as lab:
        lab.sql(FIXTURES.read_text())
        yield lab


@pytest.fixture(scope="module")
def reader(lab: Lab) -> Iterator[PostgresReader]:
    with lab.connections.resolve_reader("warehouse") as reader:
        yield reader


def by_name(text: Text) -> str:
    return text.name


def vet(reader: PostgresReader, text: Text) -> str:
    return vet_select(reader.conn, reader.settings, text.query, schemas=["content", "ugc"]).select


def test_the_corpora_are_large_and_name_each_text_once() -> None:
    assert (len(HOSTILE) >= 200, len(HONEST) >= 100) == (True, True)
    assert len({t.name for t in HOSTILE}) == len(HOSTILE)
    assert len({t.name for t in HONEST}) == len(HONEST)


@pytest.mark.parametrize("text", HOSTILE, ids=by_name)
def test_hostile_texts_are_refused(reader: PostgresReader, text: Text) -> None:
    with pytest.raises(ConfigError):
        vet(reader, text)


@pytest.mark.scenario(50)
@pytest.mark.parametrize("text", HONEST, ids=by_name)
def test_honest_texts_are_accepted_and_run(reader: PostgresReader, text: Text) -> None:
    reader.fetch(sql.SQL(vet(reader, text)))


def test_hostile_texts_on_the_readers_connection_change_nothing_and_read_no_secret(lab: Lab) -> None:
    before = digest(lab)
    told = {text.name for text in HOSTILE if SECRET in read(lab, text)}
    assert digest(lab) == before
    assert told == {text.name for text in HOSTILE if text.lends}


def test_hostile_texts_pushed_down_change_nothing_and_read_no_secret(lab: Lab) -> None:
    before = digest(lab)
    told = {text.name for text in HOSTILE if SECRET in push_down(lab, text)}
    assert digest(lab) == before
    assert told <= {text.name for text in HOSTILE if text.lends}


def read(lab: Lab, text: Text) -> str:
    """What the text gives on the reader's connection, or why not."""
    hasty = lab.connections.reading | {"statement_timeout": "200ms"}
    with connect(lab.connections.reader, "hostile") as conn:
        try:
            return str(PostgresReader(conn, hasty, is_local=True).fetch(sql.SQL(text.query)))
        except (VitrinaError, psycopg.Error) as error:
            return str(error)


def push_down(lab: Lab, text: Text) -> str:
    """What the text gives inside a statement of the runner's that could write; its transaction is committed."""
    with connect(lab.connections.warehouse, "hostile") as conn:
        conn.execute("SET statement_timeout = '200ms'")
        conn.execute(b"SET search_path = " + lab.connections.writing["search_path"].encode())
        whole = f"SELECT to_jsonb(q)::text FROM (\n{text.query}\n) AS q"
        for query in (text.query, whole):
            with suppress(psycopg.Error):
                given = conn.execute("SELECT * FROM etl.read_as_reader(%s, '{}') AS t (a text)", [query]).fetchall()
                return str(given)
    return ""


# Slots belong to the whole server, which other tests use too; one made here would be of this database, or physical.
OWN_SLOTS = "pg_replication_slots WHERE database = current_database() OR slot_type = 'physical'"


def digest(lab: Lab) -> dict[str, str]:
    """Every table and sequence of sources, meta-store and marts with the hash of its rows, and what exists at all."""
    names = lab.sql(
        "SELECT format('%I.%I', relnamespace::regnamespace, relname) FROM pg_class WHERE relkind IN ('r', 'S')"
        " AND relnamespace::regnamespace::text IN ('content', 'ugc', 'auth', 'etl', 'etl_stage', 'analytics')"
    )
    hashes = {
        name: lab.value(
            f"SELECT md5(coalesce(string_agg(ROW(t.*)::text, ',' ORDER BY ROW(t.*)::text), '')) FROM {name} t"
        )
        for (name,) in names
    }
    for catalogue in ("pg_class", "pg_proc", "pg_type", "pg_roles", "pg_db_role_setting", OWN_SLOTS):
        hashes[catalogue] = str(lab.value(f"SELECT count(*) FROM {catalogue}"))
    return hashes

"""The SQL guard against whole corpora: what must be refused is, by each kind; what is honest is not."""

from collections.abc import Iterator

import pytest
from psycopg import sql

from tests.corpora import FIXTURES, KINDS, Text, corpus, kind_of
from tests.security.layers import SCHEMAS
from tests.support import Lab
from vitrina.domain.errors import ConfigError
from vitrina.sources.postgres.reader import PostgresReader
from vitrina.sql.guard import check_select

HOSTILE, HONEST = corpus("hostile"), corpus("honest")
STATEMENTS, TABLES, VIEWS, OWN, REACHING, HUGE = KINDS


@pytest.fixture(scope="module")
def reader() -> Iterator[PostgresReader]:
    with Lab.open("vitrina_template") as lab:
        lab.sql(FIXTURES.read_text())
        with lab.connections.read_warehouse() as reader:
            yield reader


def hostile(*kinds: str) -> pytest.MarkDecorator:
    """The texts of these kinds."""
    return pytest.mark.parametrize("text", [t for t in HOSTILE if kind_of(t) in kinds], ids=lambda text: text.name)


def vet(reader: PostgresReader, text: Text) -> str:
    """The whole guard, as for a pipeline that is saved."""
    reader.vet(text.query, schemas=SCHEMAS)
    return check_select(text.query, SCHEMAS)


def refuse(reader: PostgresReader, text: Text) -> None:
    """It must be a refusal, and nothing worse, by the reader alone: whoever saves a pipeline asks nobody else."""
    with pytest.raises(ConfigError):
        reader.vet(text.query, schemas=SCHEMAS)


def test_the_corpora_are_large_and_name_each_text_once() -> None:
    assert (len(HOSTILE) >= 200, len(HONEST) >= 100) == (True, True)
    assert len({t.name for t in HOSTILE}) == len(HOSTILE)
    assert len({t.name for t in HONEST}) == len(HONEST)
    assert {kind_of(text) for text in HOSTILE} == KINDS.keys()


@pytest.mark.scenario(45)
@hostile(STATEMENTS)
def test_whatever_is_more_than_one_plain_select_is_refused(reader: PostgresReader, text: Text) -> None:
    refuse(reader, text)


@pytest.mark.scenario(46)
@hostile(REACHING)
def test_a_function_that_reaches_out_of_the_query_is_refused(reader: PostgresReader, text: Text) -> None:
    refuse(reader, text)


@pytest.mark.scenario(47)
@hostile(VIEWS, OWN)
def test_views_definers_rights_and_shadows_that_reach_further_are_refused(reader: PostgresReader, text: Text) -> None:
    refuse(reader, text)


@hostile(TABLES)
def test_a_table_of_another_schema_is_refused(reader: PostgresReader, text: Text) -> None:
    refuse(reader, text)


@pytest.mark.scenario(48)
@hostile(HUGE)
def test_a_text_as_deep_or_as_long_as_it_gets_is_refused(reader: PostgresReader, text: Text) -> None:
    refuse(reader, text)


@pytest.mark.scenario(50)
@pytest.mark.parametrize("text", HONEST, ids=lambda text: text.name)
def test_honest_texts_are_accepted_and_run(reader: PostgresReader, text: Text) -> None:
    reader.fetch(sql.SQL(vet(reader, text)))

"""The oracle beside the derivation: no key that really changes is missed, and each rule is needed for that.

VITRINA_QUERIES makes it longer; `make oracle` is the long form.
"""

import os
import random
import re
from collections.abc import Iterator
from dataclasses import replace

import psycopg
import pytest

from tests.corpora import HERE
from tests.liveoracle.checks import Miss, Oracle
from tests.liveoracle.mutations import MUTATIONS
from tests.liveoracle.parts import Query
from tests.liveoracle.running import draw, prepare, run, told
from tests.liveoracle.shrink import shrink, smaller
from tests.liveoracle.ways import differing, fill
from tests.support import clone, drop
from vitrina.domain.errors import ConfigError
from vitrina.meta.db import connect

QUERIES = int(os.environ.get("VITRINA_QUERIES", "60"))
MOST = 6_000  # queries until a rule that is gone must have been missed
ABOUT = {  # where to look for it: of the others, queries of every theme find a miss sooner
    "R2 strict on both sides": "outer",
    "R4 the key without a nullable source": "outer",
    "R6 no column that a grouping set leaves empty": "sets",
    "R8 no circles": "outer",
    "R10 of one type, equal is the same": "number",
    "R12 whatever is computed is read": "lateral",
}
BLOCK = re.compile(
    r"^-- name: ([^\n]+)\n-- key: ([^\n]+)\n(-- tied: yes\n)?(-- rule: [^\n]+\n)?(.*?)(?=^-- name: |\Z)", re.M | re.S
)
TEXT = (HERE.parent / "liveoracle/found.sql").read_text()
FOUND = {m[1]: Query(m[5].strip(), tuple(m[2].split(", ")), bool(m[3])) for m in BLOCK.finditer(TEXT)}
SHOWS = {m[4].removeprefix("-- rule: ").strip(): FOUND[m[1]] for m in BLOCK.finditer(TEXT) if m[4]}


@pytest.fixture(scope="module")
def oracle() -> Iterator[Oracle]:
    conninfo = clone("template1")
    with connect(conninfo, "oracle") as conn:
        yield prepare(conn, states=12, chains=20)
    drop(conninfo)


def first_miss(oracle: Oracle, query: Query) -> Miss | None:
    states = range(len(oracle.universe.states))
    return next((miss for state in states if (miss := oracle.check(query, state))), None)


def test_no_generated_query_misses_a_key(oracle: Oracle) -> None:
    misses = [told(oracle.universe, miss) for miss in run(oracle, QUERIES, seed=0)]
    assert not misses, misses[0]
    assert oracle.tally.changes > 20 * QUERIES
    assert oracle.tally.failed < 0.1 * QUERIES


@pytest.mark.parametrize("name", FOUND)
def test_what_once_went_wrong_does_so_no_more(oracle: Oracle, name: str) -> None:
    failed = oracle.tally.failed
    miss = first_miss(oracle, FOUND[name])
    assert miss is None, told(oracle.universe, miss)
    assert oracle.tally.failed == failed


def test_a_query_is_named_for_every_rule() -> None:
    assert SHOWS.keys() == MUTATIONS.keys()


@pytest.mark.parametrize("rule", SHOWS)
def test_without_the_rule_the_oracle_finds_a_miss(oracle: Oracle, rule: str) -> None:
    with pytest.MonkeyPatch.context() as monkeypatch:
        MUTATIONS[rule](monkeypatch)
        assert first_miss(replace(oracle), SHOWS[rule]) is not None


@pytest.mark.long
@pytest.mark.parametrize("rule", MUTATIONS)
def test_without_the_rule_some_generated_query_misses_a_key(oracle: Oracle, rule: str) -> None:
    with pytest.MonkeyPatch.context() as monkeypatch:
        MUTATIONS[rule](monkeypatch)
        assert next(run(replace(oracle), MOST, seed=0, about=ABOUT.get(rule, "")), None) is not None


def test_every_way_to_read_some_keys_gives_what_the_whole_query_gives(oracle: Oracle) -> None:
    rng, read = random.Random(1), 0
    for number in range(QUERIES):
        query, _ = draw(number)
        if number % 10 == 0:
            fill(oracle.conn, oracle.universe.states[number // 10 % len(oracle.universe.states)])
        try:
            way = "" if query.tied else differing(oracle.conn, query, rng)
        except (psycopg.Error, ConfigError):
            continue
        read += 1
        assert not way, f"seed {number}: {way}: {query.select}"
    assert read > QUERIES / 2


def test_a_miss_is_made_smaller() -> None:
    text = "SELECT a.id AS k1, a.x FROM o.a AS a LEFT JOIN o.b AS b ON b.x = a.x WHERE a.y = 1 AND b.y = 2"
    found = set(smaller(text))
    assert "SELECT a.id AS k1 , a.x FROM o.a AS a WHERE a.y = 1 AND b.y = 2" in found
    assert shrink(Query(text, ("k1",)), lambda query: "o.b" in query.select).select == "JOIN o.b AS b"

"""Text keys under other collations than the mart's: nothing is deleted that should stay, and a second run is quiet."""

import pytest

from tests.support import Lab
from vitrina.domain.pipeline import Pipeline

# Keys whose order depends on the collation: by case, by accent, by punctuation.
KEYS = ["a", "A", "b", "B", "aa", "Aa", "AA", "a-b", "ab", "a b", "é", "e", "Z", "z", "ö", "_", "1", ""]


def need(lab: Lab, collation: str) -> str:
    """A collation that this server has, or a skip that says which it lacks."""
    if not lab.sql("SELECT 1 FROM pg_collation WHERE collname = %s", collation):
        pytest.skip(f"this server has no collation {collation}")
    return f'"{collation}"'


def loose(lab: Lab) -> str:
    """A collation that takes a and A for equal."""
    need(lab, "en-x-icu")
    lab.sql("CREATE COLLATION public.loose (provider = icu, locale = 'und-u-ks-level2', deterministic = false)")
    return "public.loose"


def source(lab: Lab, keys: list[str], collation: str | None = None) -> Pipeline:
    lab.sql("CREATE TABLE content.words (k text PRIMARY KEY, v int)")
    for key in keys:
        lab.sql("INSERT INTO content.words VALUES (%s, 0)", key)
    collate = f"COLLATE {collation}" if collation else ""
    return lab.add(source_query=f"SELECT k {collate} AS k, v FROM content.words", key=["k"], batch_size=2)


def mart(lab: Lab, collation: str) -> None:
    lab.sql(f"CREATE TABLE analytics.mart (k text COLLATE {collation} PRIMARY KEY, v int)")


def change(lab: Lab) -> None:
    lab.sql("UPDATE content.words SET v = v + 1 WHERE k IN ('a', 'é', 'Z')")
    lab.sql("DELETE FROM content.words WHERE k IN ('b', 'z')")
    lab.sql("INSERT INTO content.words VALUES ('bb', 1), ('zz', 1)")


def check(lab: Lab, pipeline: Pipeline, changed: tuple[int, int] = (5, 2)) -> None:
    """Load, change, converge: equal each time, and each time quiet afterwards."""
    for expected in ((len(KEYS), 0), (0, 0)):
        assert went(lab, pipeline) == expected
    change(lab)
    for expected in (changed, (0, 0)):
        assert went(lab, pipeline) == expected


def went(lab: Lab, pipeline: Pipeline) -> tuple[int, int]:
    run = lab.run(pipeline)
    assert run["error"] is None
    lab.assert_equal(pipeline)
    return run["rows_written"], run["rows_deleted"]


@pytest.mark.scenario(55)
@pytest.mark.parametrize("of_query", ["C", "en_US.utf8", "en-x-icu"])
@pytest.mark.parametrize("of_mart", ["C", "en_US.utf8", "en-x-icu"])
def test_query_and_mart_may_have_different_collations(lab: Lab, of_query: str, of_mart: str) -> None:
    mart(lab, need(lab, of_mart))
    check(lab, source(lab, KEYS, need(lab, of_query)))


@pytest.mark.parametrize("of_query", ["C", "en_US.utf8", "en-x-icu"])
def test_a_query_may_have_another_collation_than_the_mart_it_creates(lab: Lab, of_query: str) -> None:
    check(lab, source(lab, KEYS, need(lab, of_query)))


@pytest.mark.scenario(55)
def test_a_nondeterministic_query_into_a_plain_mart(lab: Lab) -> None:
    check(lab, source(lab, KEYS, loose(lab)))


def test_a_nondeterministic_query_grouped_by_its_key(lab: Lab) -> None:
    pipeline = source(lab, KEYS)
    collated = f"SELECT min(k) AS k, sum(v) AS v FROM content.words GROUP BY k COLLATE {loose(lab)}"
    lab.sql("UPDATE etl.etl_pipelines SET source_query = %s", collated)
    assert lab.run(pipeline)["error"] is None
    change(lab)
    assert lab.run(pipeline)["error"] is None
    assert lab.run(pipeline)["rows_written"] == 0


@pytest.mark.scenario(55)
def test_a_nondeterministic_mart_takes_keys_of_any_case(lab: Lab) -> None:
    mart(lab, loose(lab))
    pipeline = source(lab, ["a", "B", "c", "D", "é"])
    assert went(lab, pipeline) == (5, 0)
    assert went(lab, pipeline) == (0, 0)
    lab.sql("UPDATE content.words SET k = 'A' WHERE k = 'a'; UPDATE content.words SET v = 1 WHERE k = 'D'")
    lab.sql("DELETE FROM content.words WHERE k = 'c'; INSERT INTO content.words VALUES ('E', 0)")
    assert went(lab, pipeline) == (3, 1)
    assert went(lab, pipeline) == (0, 0)


def test_two_keys_that_a_nondeterministic_mart_takes_for_one_are_named(lab: Lab) -> None:
    mart(lab, loose(lab))
    pipeline = source(lab, ["a", "b", "c"])
    lab.run(pipeline)
    lab.sql("INSERT INTO content.words VALUES ('B', 0)")
    error = lab.run(pipeline)["said"]
    assert "a key twice: k = " in error
    assert error.split("k = ")[1][0] in "bB"
    assert lab.value("SELECT count(*) FROM analytics.mart") == 3


def test_two_keys_that_a_nondeterministic_mart_takes_for_one_are_not_loaded(lab: Lab) -> None:
    mart(lab, loose(lab))
    pipeline = source(lab, ["a", "A"])
    assert "a key twice: " in lab.run(pipeline)["said"]
    assert lab.value("SELECT count(*) FROM analytics.mart") == 0


def test_incremental_follows_a_text_cursor_under_any_collation(lab: Lab) -> None:
    pipeline = source(lab, KEYS, need(lab, "en_US.utf8"))
    lab.sql("UPDATE etl.etl_pipelines SET mode = 'incremental', incremental_key = 'k'")
    assert went(lab, pipeline) == (len(KEYS), 0)
    lab.sql("INSERT INTO content.words VALUES ('zzz', 0), ('ZZZZ', 0)")
    assert went(lab, pipeline) == (2, 0)


def test_incremental_into_a_nondeterministic_mart(lab: Lab) -> None:
    mart(lab, loose(lab))
    pipeline = source(lab, ["a", "b", "c"])
    lab.sql("UPDATE etl.etl_pipelines SET mode = 'incremental', incremental_key = 'v', incremental_id_key = 'k'")
    assert went(lab, pipeline) == (3, 0)
    lab.sql("UPDATE content.words SET k = 'A', v = 1 WHERE k = 'a'")
    assert went(lab, pipeline) == (1, 0)

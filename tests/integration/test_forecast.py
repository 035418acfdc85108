"""What is foretold is what happens: a corpus of pipelines is validated, then run, and both have to say the same."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from psycopg.conninfo import make_conninfo

from tests.support import Lab
from vitrina import Row, transform
from vitrina.control.services.validation import Validation
from vitrina.domain.pipeline import Pipeline
from vitrina.engine.reading import How, Reading
from vitrina.meta.repos.pipelines import PipelineRepo
from vitrina.meta.repos.state import StateRepo
from vitrina.runner.main import Runner

PLAIN = "SELECT k, v, t FROM content.big"
NUMBERED = "SELECT row_number() OVER (ORDER BY k) AS k, v, t FROM content.big"
GROUPED = """
    SELECT b.k, b.v, b.t, g.total FROM content.big b
    JOIN (SELECT k % 100 AS bucket, sum(v) AS total FROM content.big GROUP BY 1) g ON g.bucket = b.k % 100"""
CHANGES = "UPDATE content.big SET v = v + 1 WHERE k <= 1500; DELETE FROM content.big WHERE k > 2990"
AS_IT_WAS = "CREATE TABLE analytics.mart (k bigint PRIMARY KEY, v int, t text)"


@transform("rows_as_foretold")
def rows_as_foretold(rows: Sequence[Row]) -> Iterator[Row]:
    yield from rows


@dataclass(frozen=True)
class Case:
    """A pipeline, and what is there before its first run."""

    select: str = PLAIN
    config: dict[str, Any] = field(default_factory=dict)
    before: str = ""
    key: str = "k"


CORPUS = {
    "plain": Case(),
    "one batch": Case(config={"batch_size": 5_000}),
    "a window": Case(NUMBERED),
    "a window in one batch": Case(NUMBERED, {"batch_size": 5_000}),
    "an aggregate joined": Case(GROUPED),
    "an aggregate joined, atomic": Case(GROUPED, {"publish": "atomic"}),
    "atomic": Case(config={"publish": "atomic"}),
    "atomic, one batch": Case(config={"publish": "atomic", "batch_size": 5_000}),
    "atomic with a mart of other types": Case(config={"publish": "atomic"}, before=AS_IT_WAS),
    "another server": Case(config={"source": "elsewhere"}),
    "another server and a mart of other types": Case(config={"source": "elsewhere"}, before=AS_IT_WAS),
    "Python": Case(config={"type": "PYTHON", "python_task": "rows_as_foretold"}),
    "a key of another type": Case(before=AS_IT_WAS),
    "a key with a collation of its own": Case(
        key="t", before='CREATE TABLE analytics.mart (k int, v int, t text COLLATE "C" PRIMARY KEY)'
    ),
    "a mart that has rows already": Case(
        before="CREATE TABLE analytics.mart (k int PRIMARY KEY, v int, t text); INSERT INTO analytics.mart VALUES (1)"
    ),
    "columns to add": Case(config={"on_drift": "add"}, before="CREATE TABLE analytics.mart (k int PRIMARY KEY, v int)"),
    "a stamp": Case(before="CREATE TABLE analytics.mart (k int PRIMARY KEY, v int, t text, updated_at timestamptz)"),
    "checks": Case(config={"checks": [{"name": "c", "condition": "v >= 0"}, {"name": "n", "not_null": ["t"]}]}),
    "checks of all of it": Case(config={"publish": "atomic", "checks": [{"name": "c", "unique": ["k"]}]}),
    "nothing at all": Case(f"{PLAIN} WHERE false"),
    "nothing at all, atomic": Case(f"{PLAIN} WHERE false", {"publish": "atomic"}),
}


@pytest.mark.parametrize("name", CORPUS)
def test_a_run_reads_its_query_as_was_foretold(lab: Lab, name: str) -> None:
    pipeline = stored(lab, CORPUS[name])
    for _ in range(3):  # the first load, then changes, then nothing
        foretold, happened = foretell(lab, pipeline), read(lab, pipeline)
        assert agree(foretold, happened), (foretold, happened)
        lab.sql(CHANGES)


@pytest.mark.parametrize("name", ["plain", "columns to add", "a stamp"])
def test_a_run_changes_the_mart_by_the_statements_that_were_foretold(lab: Lab, name: str) -> None:
    pipeline = stored(lab, CORPUS[name])
    said = [f.data["statement"] for f in check(lab, pipeline).findings if "statement" in f.data]
    read(lab, pipeline)
    [ready] = [e["fields"] for e in lab.events(pipeline) if e["event"] == "mart_ready"]
    assert ready["ddl"] == said


@pytest.mark.parametrize(
    ("before", "said"),
    [
        ("CREATE TABLE analytics.mart (k int, v int, t text)", "no unique index on its key"),
        ("CREATE TABLE analytics.mart (k int PRIMARY KEY, v int, t text, n int NOT NULL)", "needs a value for n"),
        ("CREATE TABLE analytics.mart (k int PRIMARY KEY, v date, t text)", "drift: column v"),
        ("CREATE TABLE analytics.mart (k int PRIMARY KEY, v int)", "has no column t"),
    ],
)
@pytest.mark.parametrize("on_drift", ["fail", "add"])
def test_what_a_run_would_refuse_is_refused_before_in_the_same_words(
    lab: Lab, before: str, said: str, on_drift: str
) -> None:
    pipeline = stored(lab, Case(config={"on_drift": on_drift}, before=before))
    errors = [finding.message for finding in check(lab, pipeline).findings if finding.level == "error"]
    failed = str(lab.run(pipeline)["error"] or "")
    assert [message in failed for message in errors] == [True] * bool(failed)
    assert (said in failed) or (on_drift == "add" and "no column" in said)


@pytest.mark.parametrize(
    ("check_", "said"),
    [
        ({"not_null": ["gone"]}, "gone"),
        ({"unique": ["v"]}, "cannot block what is published batch by batch"),
        ({"condition": "v > 'many'"}, "invalid input syntax"),
        ({"condition": "v >"}, "syntax error"),
        ({"condition": "random() < 2"}, "random"),
        ({"empty": "SELECT k FROM content.missing", "effect": "warn"}, "content.missing"),
        ({"accepted_values": {"v": ["many"]}}, "invalid input syntax"),
    ],
)
def test_a_check_that_a_run_would_refuse_is_refused_before_in_the_same_words(
    lab: Lab, check_: dict[str, Any], said: str
) -> None:
    pipeline = stored(lab, Case(config={"checks": [{"name": "c"} | check_]}))
    [foretold] = [finding.message for finding in check(lab, pipeline).findings if finding.level == "error"]
    failed = str(lab.run(pipeline)["error"])
    assert said in foretold
    assert foretold.partition(": ")[2] in failed


def stored(lab: Lab, case: Case) -> Pipeline:
    elsewhere = make_conninfo(lab.conninfo, user="vitrina_reader")
    lab.connections = replace(lab.connections, sources={**lab.connections.sources, "elsewhere": elsewhere})
    lab.sql("CREATE TABLE content.big (k int PRIMARY KEY, v int, t text)")
    lab.sql("INSERT INTO content.big SELECT n, n % 7, n::text FROM generate_series(1, 3000) n")
    lab.sql("ANALYZE content.big")
    if case.before:
        lab.sql(case.before)
        lab.sql("ALTER TABLE analytics.mart OWNER TO vitrina_runner")
    return lab.add(source_query=case.select, key=[case.key], **({"batch_size": 50} | case.config))


def check(lab: Lab, pipeline: Pipeline) -> Validation:
    validation = Validation(lab.connections, written=StateRepo(lab.db).written)
    validation.of(pipeline)
    return validation


def foretell(lab: Lab, pipeline: Pipeline) -> Reading:
    validation = check(lab, pipeline)
    assert [f for f in validation.findings if f.level == "error"] == []
    assert validation.reading is not None
    return validation.reading


def read(lab: Lab, pipeline: Pipeline) -> tuple[How, str]:
    """How a run read its query, by what it said."""
    run = lab.run(pipeline)
    assert run["error"] is None
    said = {e["event"]: e["fields"] for e in lab.events(pipeline) if e["run_id"] == run["id"]}
    if "staged" in said:
        return How.STAGED, said["staged"]["why"]
    if "load_found" in said:
        return How(said["load_found"]["read"]), said.get("loaded", {}).get("why") or ""
    return (How.AT_ONCE, said["loaded"]["why"]) if "loaded" in said else (How.BY_KEY, "")


def agree(foretold: Reading, happened: tuple[How, str]) -> bool:
    """Word for word; how many keys differ is not known before, and many of them may be staged."""
    if foretold.how is How.BY_KEY and foretold.why:
        return happened[0] is How.BY_KEY or happened[1].startswith("the key cannot be pushed into the query")
    return (foretold.how, foretold.why or "") == happened


def test_targets_that_are_due_together_are_read_as_was_foretold(lab: Lab) -> None:
    whole = lab.add(
        name="films", source_query="SELECT id AS film_id, title FROM content.film_work", key=["film_id"],
        target_table=None, targets=["analytics.one", "analytics.two"],
    )  # fmt: skip
    for _ in range(2):  # a first load, and one that changes nothing
        said = [(f.code, str(f.data.get("reason"))) for f in Validation(lab.connections).of(whole)]
        assert ("read_staged", "it is read once for all targets that are due together") in said
        with lab.db.transaction():
            marts = [Pipeline.parse(PipelineRepo(lab.db).get(f"films@{target}").config) for target in whole.targets]
            for mart in marts:
                assert lab.request(mart)
        Runner(lab.connections).run_once()
        for mart in marts:
            told = [e["fields"]["why"] for e in lab.events(mart) if e["event"] == "staged"][-1]
            assert told == "it is read once for all targets that are due together"

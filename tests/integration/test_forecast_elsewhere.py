"""What is foretold is what happens, of marts that are elsewhere and of sources that are no Postgres."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.elastic import Search
from tests.files import FilesSink
from tests.integration.test_forecast import Case, stored
from tests.lake import LakeSink
from tests.lakes import know, write_lake
from tests.sinks import IndexSink
from tests.support import Lab
from vitrina.control.services.indexing import Served
from vitrina.control.services.validation import Validation
from vitrina.domain.findings import Code, Finding
from vitrina.domain.pipeline import Pipeline
from vitrina.domain.wording import Worded
from vitrina.meta.repos.editing import EditingRepo
from vitrina.meta.repos.state import StateRepo
from vitrina.testing.marts import AnyMart

BIG = "CREATE TABLE content.big AS "
WOULD = {Code.WOULD_BE_MADE, Code.WOULD_CREATE_TABLE, Code.WOULD_CREATE_INDEX}
EDITIONS = "SELECT max(generation) FROM etl.etl_indexes WHERE pipeline_id = %s"
UNIQUE = [{"name": "c", "unique": ["k"]}]
ROWS = ("lake", "files")
TYPED = "SELECT k, {} AS v FROM content.big"
# Of every mart that is elsewhere, and by kind: what is asked for, and what both say.
WRONG: list[tuple[tuple[str, ...], Case, str]] = [
    (("lake", "files", "index", "sqlite"), Case(config={"publish": "atomic"}), "publish: atomic is for tables"),
    (("lake", "files", "index", "sqlite"), Case(config={"keep_changes": 3}), "keep_changes is for tables"),
    (("lake", "files", "index", "sqlite"), Case(config={"checks": UNIQUE}), "statements do not reach"),
    (("lake", "files", "index", "sqlite"), Case(key="gone"), "key column gone is not in the query"),
    (("lake", "index", "sqlite"), Case(config={"format": "parquet"}), "format is for a mart in files"),
    (("lake", "files", "sqlite"), Case(config={"mapping": {"t": {"type": "keyword"}}}), "mapping is for an index"),
    (ROWS, Case(config={"adopt": True}), "adopt is for an index"),
    (ROWS, Case(TYPED.format("v::numeric")), "Parquet keeps decimals of a fixed scale"),
    (ROWS, Case(TYPED.format("int4range(v, v + 1)")), "for which Parquet has no exact type"),
    (ROWS, Case(TYPED.format("ARRAY[v::numeric]")), "for which Parquet has no exact type"),
    (("files",), Case(config={"mode": "live"}), "a mart in files is kept by mode full or incremental"),
    (("index",), Case(config={"mapping": {"gone": {"type": "keyword"}}}), "mapping names gone"),
    (("index",), Case('SELECT k, v AS "a.b" FROM content.big'), "cannot be a field of an index"),
    (("index",), Case(config={"settings": {"mapping.total_fields.limit": 2}}), "the index allows 2"),
]
SOURCES: list[tuple[dict[str, Any], str]] = [
    ({"source_query": "SELECT k, {'a': k}::STRUCT(a INTEGER) AS v, ? AS p FROM content.big"}, "a parameter"),
    ({"source_query": "SELECT k, v FROM content.big WHERE random() < 2"}, "random"),
    ({"source_query": "DELETE FROM content.big"}, "the query must be a SELECT"),
    ({"source_query": "SELECT k, v FROM"}, "the query does not parse"),
    ({"source_query": "SELECT k, v FROM content.gone"}, "gone"),
    ({"source_query": "SELECT k, INTERVAL 1 DAY AS v FROM content.big"}, "no type for that fits"),
    ({"mode": "live"}, "source 'ducks' cannot take statements in the SQL of Postgres"),
    ({"key": ["gone"]}, "key column gone is not in the query"),
    ({"mode": "incremental", "incremental_key": "gone", "incremental_id_key": "k"}, "gone is not in the query"),
]


@pytest.fixture
def lake(lab: Lab, tmp_path: Path) -> LakeSink:
    return LakeSink(lab, tmp_path / "lake")


@pytest.fixture
def files(lab: Lab, tmp_path: Path) -> FilesSink:
    return FilesSink(lab, tmp_path / "mart")


@pytest.fixture
def index(search: Search) -> IndexSink:
    return IndexSink(search)


@pytest.fixture
def ducks(lab: Lab, tmp_path: Path) -> Lab:
    rows = "SELECT range::INTEGER AS k, (range % 7)::INTEGER AS v, range::VARCHAR AS t FROM range(1, 3001)"
    know(lab, "ducks", f"duckdb://{write_lake(tmp_path / 'lake.duckdb', 'CREATE SCHEMA content', BIG + rows)}")
    return lab


@pytest.mark.parametrize(
    ("kind", "case", "said"),
    [pytest.param(kind, case, said, id=f"{kind}: {said}") for kinds, case, said in WRONG for kind in kinds],
)
def test_what_a_mart_elsewhere_would_refuse_is_refused_before_in_the_same_words(
    lab: Lab, request: pytest.FixtureRequest, kind: str, case: Case, said: str
) -> None:
    sink: AnyMart = request.getfixturevalue(kind)
    pipeline = stored(lab, replace(case, config={"target_table": sink.target} | case.config))
    foretold = errors(lab, pipeline)
    failed = str(lab.run(pipeline)["error"])
    assert said in failed
    assert foretold == [failed]


@pytest.mark.parametrize("kind", ["lake", "files", "index", "sqlite"])
def test_a_mart_elsewhere_is_made_kept_and_made_anew_as_was_foretold(
    lab: Lab, request: pytest.FixtureRequest, kind: str
) -> None:
    sink: AnyMart = request.getfixturevalue(kind)
    pipeline = stored(lab, Case(config={"target_table": sink.target}))
    assert codes(lab, pipeline) & WOULD
    assert made(lab, pipeline)
    assert codes(lab, pipeline) & {Code.MART_HAS, Code.INDEX_HAS}
    assert not made(lab, pipeline)
    wider = edited(lab, pipeline, source_query="SELECT k, v, t, v + 1 AS w FROM content.big")
    drift = [finding.message for finding in findings(lab, wider) if finding.code in (Code.DRIFT, Code.DRIFT_ADDS)]
    failed = str(lab.run(wider)["error"])
    assert [message in failed for message in drift] == [True]
    agreed = edited(lab, wider, on_drift="add")
    assert not codes(lab, agreed) & {Code.DRIFT, Code.DRIFT_ADDS, Code.MART_HAS, Code.INDEX_HAS}
    assert made(lab, agreed)


@pytest.mark.parametrize(("config", "said"), SOURCES)
def test_what_a_source_in_duckdb_would_refuse_is_refused_before_in_the_same_words(
    ducks: Lab, config: dict[str, Any], said: str
) -> None:
    pipeline = edited(ducks, stored(ducks, Case(config={"source": "ducks"})), **config)
    foretold, failed = errors(ducks, pipeline), str(ducks.run(pipeline)["error"])
    assert said in failed
    assert [message in failed for message in foretold] == [True]


def test_a_source_in_duckdb_is_read_whole_as_was_foretold(ducks: Lab) -> None:
    pipeline = stored(ducks, Case(config={"source": "ducks"}))
    for _ in range(2):
        assert Code.READ_WHOLE in codes(ducks, pipeline) or Code.READ_UNCOUNTED in codes(ducks, pipeline)
        run = ducks.run(pipeline)
        assert (run["error"], run["rows_read"]) == (None, 3000)


def codes(lab: Lab, pipeline: Pipeline) -> set[Worded]:
    return {finding.code for finding in findings(lab, pipeline)}


def made(lab: Lab, pipeline: Pipeline) -> bool:
    """Whether a run began another set of rows than the one that is served."""
    before = lab.value(EDITIONS, pipeline.id)
    run = lab.run(pipeline)
    assert run["error"] is None, run["error"]
    return bool(lab.value(EDITIONS, pipeline.id) != before)


def edited(lab: Lab, pipeline: Pipeline, **changes: Any) -> Pipeline:
    changed = Pipeline.parse(pipeline.model_dump(mode="json") | changes)
    with lab.db.transaction():
        EditingRepo(lab.db).replace(changed)
    return changed


def errors(lab: Lab, pipeline: Pipeline) -> list[str]:
    return [finding.message for finding in findings(lab, pipeline) if finding.level == "error"]


def findings(lab: Lab, pipeline: Pipeline) -> list[Finding]:
    written = StateRepo(lab.db).written
    return Validation(lab.connections, served=lambda id_: Served.find(lab.db, id_), written=written).of(pipeline)

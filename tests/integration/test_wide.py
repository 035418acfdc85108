"""As many columns as there can be: compared, staged and reconciled, or refused at save with the limit and a remedy."""

from dataclasses import replace
from typing import Any

import pytest
from psycopg.conninfo import make_conninfo

from tests.living import living
from tests.support import Lab
from vitrina.control.services.validation import Validation
from vitrina.domain.errors import ConfigError
from vitrina.domain.pipeline import Pipeline, resolve
from vitrina.engine.mart import Wanted
from vitrina.engine.stage import MOST_COLUMNS
from vitrina.inquiries.report import WIDE
from vitrina.sinks.search.shape import MOST_FIELDS, IndexShape, count_fields
from vitrina.sinks.table.mart import foresee_mart, prepare_mart
from vitrina.sql.describe import Column


def wide(columns: int, table: str = "ugc.w") -> str:
    """A query with a key and so many columns in all."""
    return f"SELECT n, {', '.join(f'n + {i} AS c{i}' for i in range(columns - 1))} FROM {table}"


@pytest.fixture
def numbers(lab: Lab) -> Lab:
    lab.sql("CREATE TABLE ugc.w (n int PRIMARY KEY); INSERT INTO ugc.w SELECT generate_series(1, 3)")
    return lab


def spoil(lab: Lab) -> None:
    """One row differs, one is missing, one is beyond."""
    lab.sql("UPDATE analytics.mart SET c5 = 0 WHERE n = 2; DELETE FROM ugc.w WHERE n = 1; INSERT INTO ugc.w VALUES (7)")


@pytest.mark.parametrize("columns", [WIDE, WIDE + 1, pytest.param(MOST_COLUMNS, marks=pytest.mark.long)])
@pytest.mark.parametrize("source", ["warehouse", "here"])
def test_a_wide_mart_is_reconciled_in_place_and_staged(numbers: Lab, columns: int, source: str) -> None:
    reader = make_conninfo(numbers.conninfo, user="vitrina_reader")
    numbers.connections = replace(numbers.connections, sources={"here": reader})
    pipeline = numbers.add(source_query=wide(columns), key=["n"], source=source)
    assert numbers.run(pipeline)["rows_written"] == 3
    spoil(numbers)
    report = numbers.reconcile(pipeline)
    assert [report[kind] for kind in ("missing", "extra", "different")] == [1, 1, 1]
    assert report["samples"]["different"] == [{"key": {"n": "2"}, "columns": {"c5": {"query": "7", "mart": "0"}}}]
    assert report["samples"]["missing"] == [{"key": {"n": "7"}}]
    numbers.run(pipeline)
    numbers.assert_equal(pipeline)
    assert numbers.reconcile(pipeline)["equal"]


@pytest.mark.long
def test_the_widest_mart_is_followed_and_audited(numbers: Lab) -> None:
    with living(numbers, "trigger", ["ugc.w"]) as live:
        live.follow(pipeline := live.add(wide(MOST_COLUMNS), ["n"]))
        spoil(numbers)
        live.follow(pipeline)
        numbers.sql("UPDATE etl.etl_mart_audits SET next_at = now()")
        live.follow(pipeline)
        live.assert_equal(pipeline)


# ── refused ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_one_column_more_is_refused_at_save_with_the_limit_and_a_remedy(numbers: Lab) -> None:
    config = {"name": "mart", "target_table": "analytics.mart", "key": ["n"], "source_query": wide(MOST_COLUMNS + 1)}
    [finding] = [f for f in Validation(numbers.connections).of(Pipeline.parse(config)) if f.level == "error"]
    assert "gives 1,600 columns, and 1,599 are the most" in finding.message
    assert "make two marts with the same key" in str(finding.remedy)


def test_a_run_refuses_it_too_whoever_has_stored_it(numbers: Lab) -> None:
    columns = [Column(f"c{i}", "integer") for i in range(MOST_COLUMNS + 1)]
    for prepare in (prepare_mart, foresee_mart):
        with pytest.raises(ConfigError, match="1,599 are the most"):
            prepare(numbers.db, Wanted("analytics.mart", columns, ["c0"], "fail"))


def index_plan(columns: int, **config: Any) -> tuple[Any, list[Column]]:
    config |= {"name": "mart", "target_table": "es:wide", "key": ["n"], "source_query": wide(columns)}
    return resolve(Pipeline.parse(config)), [
        Column("n", "integer"),
        *(Column(f"c{i}", "integer") for i in range(columns - 1)),
    ]


def test_an_index_with_more_fields_than_it_allows_is_refused_with_the_setting() -> None:
    IndexShape.of(*index_plan(MOST_FIELDS))
    with pytest.raises(ConfigError, match=r"1,001 fields.*allows 1,000") as caught:
        IndexShape.of(*index_plan(MOST_FIELDS + 1))
    assert "mapping.total_fields.limit: 1001" in str(caught.value.remedy)


@pytest.mark.parametrize(
    "settings",
    [
        {"mapping.total_fields.limit": 1500},
        {"index": {"mapping.total_fields.limit": "1500"}},
        {"mapping": {"total_fields": {"limit": 1500}}},
    ],
)
def test_the_limit_is_the_pipelines_own_however_it_is_written(settings: dict[str, Any]) -> None:
    IndexShape.of(*index_plan(1500, settings=settings))
    with pytest.raises(ConfigError, match="allows 1,500"):
        IndexShape.of(*index_plan(1501, settings=settings))


def test_fields_within_fields_count() -> None:
    mapping = {"a": {"type": "text", "fields": {"raw": {"type": "keyword"}}}, "b": {"properties": {"c": {}, "d": {}}}}
    assert count_fields(mapping) == 5

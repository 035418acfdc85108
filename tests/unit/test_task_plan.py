"""The task plan, v1: every rule is checked before anything runs."""

from typing import Any

import pytest

from vitrina.domain.errors import ConfigError
from vitrina.domain.pipeline import Pipeline, Plan, resolve

SELECT = {"order_index": 1, "task_type": "SQL", "body": "SELECT 1 AS id"}


def python(order: int, body: str = "tidy", **more: Any) -> dict[str, Any]:
    return {"order_index": order, "task_type": "PYTHON", "body": body} | more


def plan(**config: Any) -> Plan:
    return resolve(Pipeline.parse({"name": "mart", "target_table": "analytics.mart", "key": ["id"]} | config))


def refused(**config: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        plan(**config)
    return str(caught.value)


def test_a_plan_is_a_select_its_transforms_and_a_target() -> None:
    made = plan(tasks=[SELECT, python(2, "tidy"), python(3, "enrich")])
    assert (made.select, made.transforms, made.target) == ("SELECT 1 AS id", ("tidy", "enrich"), "analytics.mart")


def test_a_plan_may_be_one_select() -> None:
    assert plan(tasks=[SELECT]).transforms == ()


def test_order_indexes_need_not_be_neighbours() -> None:
    assert plan(tasks=[SELECT | {"order_index": -3}, python(0), python(40)]).transforms == ("tidy", "tidy")


def test_tasks_win_over_the_source_query() -> None:
    assert plan(source_query="SELECT 2 AS id", tasks=[SELECT]).select == "SELECT 1 AS id"
    assert plan(source_table="content.film_work", tasks=[SELECT]).select == "SELECT 1 AS id"


def test_the_last_task_may_override_the_target() -> None:
    assert plan(tasks=[SELECT, python(2, target_table="analytics.other")]).target == "analytics.other"
    assert plan(tasks=[SELECT | {"target_table": "analytics.other"}]).target == "analytics.other"
    assert (
        plan(target_table=None, tasks=[SELECT, python(2, target_table="analytics.other")]).target == "analytics.other"
    )


def test_no_other_task_may() -> None:
    wrong = [SELECT | {"target_table": "analytics.x"}, python(2, target_table="analytics.y"), python(3)]
    error = refused(tasks=wrong)
    assert "task 1 may not set target_table: only the last may" in error
    assert "task 2 may not set target_table: only the last may" in error


def test_order_indexes_are_unique() -> None:
    assert "order_index is not unique" in refused(tasks=[SELECT, python(1)])


def test_tasks_come_in_their_order() -> None:
    assert "tasks are not in the order of order_index" in refused(tasks=[SELECT | {"order_index": 2}, python(1)])


@pytest.mark.parametrize("body", ["", "  ", "\n\t"])
def test_a_body_is_not_empty(body: str) -> None:
    assert "task 1 has an empty body" in refused(tasks=[SELECT | {"body": body}])
    assert "task 2 has an empty body" in refused(tasks=[SELECT, python(2, body)])


@pytest.mark.parametrize("kind", ["", "sql", "SPARK", None])
def test_a_task_is_sql_or_python(kind: Any) -> None:
    assert "task_type of item 1 of tasks" in refused(tasks=[SELECT | {"task_type": kind}])


def test_the_first_task_is_sql() -> None:
    assert "the first task must be SQL" in refused(tasks=[python(1)])


def test_the_others_are_python() -> None:
    assert "task 2 must be PYTHON: only the first is SQL" in refused(tasks=[SELECT, SELECT | {"order_index": 2}])


def test_every_broken_rule_is_named_at_once() -> None:
    error = refused(tasks=[python(1, ""), SELECT])
    for rule in ("not unique", "empty body", "first task must be SQL", "must be PYTHON"):
        assert rule in error


def test_a_task_has_no_other_fields() -> None:
    assert "code of item 1 of tasks" in refused(tasks=[SELECT | {"code": "import os"}])


@pytest.mark.parametrize("field", ["order_index", "task_type", "body"])
def test_no_field_of_a_task_may_be_missing(field: str) -> None:
    assert f"{field} of item 1 of tasks is missing" in refused(tasks=[{k: v for k, v in SELECT.items() if k != field}])


def test_there_is_a_target() -> None:
    assert "names no target_table" in refused(target_table=None, tasks=[SELECT])
    assert "names no target_table" in refused(target_table="", source_query="SELECT 1 AS id")


# ── the legacy form ──────────────────────────────────────────────────────────────────────────────────────────────


def test_a_source_query_alone_is_a_plan() -> None:
    assert plan(source_query="SELECT 1 AS id").select == "SELECT 1 AS id"


def test_a_source_table_is_all_of_it() -> None:
    assert plan(source_table="content.film_work").select == 'TABLE "content"."film_work"'


@pytest.mark.parametrize("table", ["film_work", "a.b.c", ".b", "a.", ""])
def test_a_source_table_has_a_schema(table: str) -> None:
    assert "source_table" in refused(source_table=table)


def test_a_source_is_named_once() -> None:
    assert "either source_query or source_table" in refused()
    assert "and not both" in refused(source_query="SELECT 1", source_table="a.b")


@pytest.mark.parametrize("name", ["python_task", "task_name"])
def test_type_python_is_a_query_and_one_transform(name: str) -> None:
    assert plan(type="PYTHON", source_query="SELECT 1 AS id", **{name: "tidy"}).transforms == ("tidy",)


def test_type_python_and_its_transform_go_together() -> None:
    assert "type PYTHON and python_task go together" in refused(type="PYTHON", source_query="SELECT 1")
    assert "type PYTHON and python_task go together" in refused(python_task="tidy", source_query="SELECT 1")


def test_incremental_names_its_cursor() -> None:
    legal = {"mode": "incremental", "source_query": "SELECT 1", "incremental_key": "at"}
    assert plan(**legal).cursor == ("at", "id")
    assert plan(**legal, incremental_id_key="n").cursor == ("at", "n")
    assert "incremental needs" in refused(**legal | {"incremental_key": None})
    assert "incremental needs" in refused(**legal, key=["a", "b"])
    assert plan(source_query="SELECT 1", incremental_key="at").cursor is None


def test_only_what_a_checkpoint_depends_on_changes_the_fingerprint() -> None:
    base = plan(source_query="SELECT 1")
    assert (
        plan(source_query="SELECT 1", batch_size=3, schedule_interval="5m", on_drift="add").fingerprint
        == base.fingerprint
    )
    others: list[dict[str, Any]] = [
        {"source_query": "SELECT 2"},
        {"key": ["x"]},
        {"target_table": "analytics.x"},
        {"source": "elsewhere"},
    ]
    for other in others:
        assert plan(**({"source_query": "SELECT 1"} | other)).fingerprint != base.fingerprint

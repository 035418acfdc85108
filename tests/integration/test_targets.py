"""Many marts of one query: a pipeline of several targets in the meta-store, and each of its targets at work."""

from typing import Any

import psycopg
import pytest

from tests.support import Lab
from vitrina.domain.errors import ConfigError
from vitrina.domain.pipeline import Pipeline
from vitrina.meta.repos.editing import EditingRepo
from vitrina.meta.repos.pipelines import PipelineRepo
from vitrina.runner.main import Runner

FILMS: dict[str, Any] = {"source_query": "SELECT id AS film_id, title FROM content.film_work", "key": ["film_id"]}
BOTH = ["analytics.one", "analytics.two"]


def shared(lab: Lab, **config: Any) -> Pipeline:
    return lab.add(**{"name": "films", "target_table": None, "targets": BOTH} | FILMS | config)


def member(lab: Lab, target: str, name: str = "films") -> Pipeline:
    return Pipeline.parse(PipelineRepo(lab.db).get(f"{name}@{target}").config)


def edit(lab: Lab, pipeline: Pipeline, **changes: Any) -> Pipeline:
    changed = pipeline.model_copy(update=changes)
    with lab.db.transaction():
        EditingRepo(lab.db).replace(changed)
    return changed


def run_all(lab: Lab, *targets: str) -> None:
    with lab.db.transaction():
        for target in targets or BOTH:
            assert lab.request(member(lab, target))
    Runner(lab.connections).run_once()


def test_each_target_is_a_pipeline_of_its_own_and_the_whole_is_never_run(lab: Lab) -> None:
    whole = shared(lab, schedule_interval="1h")
    assert lab.sql(
        "SELECT name, target_table, part_of FROM etl.etl_pipelines WHERE part_of IS NOT NULL ORDER BY 1"
    ) == [(f"films@{target}", target, whole.id) for target in BOTH]
    Runner(lab.connections).run_once()
    for target in BOTH:
        lab.assert_equal(whole, target)
        assert lab.last_run(member(lab, target))["status"] == "SUCCESS"
    assert lab.value("SELECT count(*) FROM etl.etl_runs") == 2
    assert lab.sql("SELECT due_at, status FROM etl.etl_pipelines WHERE name = 'films'") == [(None, "IDLE")]


def test_a_row_written_by_hand_is_as_good(lab: Lab) -> None:
    lab.sql(
        "INSERT INTO etl.etl_pipelines (name, source_query, key, targets)"
        " VALUES ('films', 'SELECT id AS film_id, title FROM content.film_work', '{film_id}', %s)",
        BOTH,
    )
    run_all(lab)
    lab.assert_equal(member(lab, BOTH[1]))


def test_an_edit_reaches_every_target_and_every_field(lab: Lab) -> None:
    whole = shared(lab)
    other: dict[str, Any] = {
        "batch_size": 7,
        "labels": ("a:b",),
        "description": "x",
        "enabled": False,
        "schedule_interval": "1h",
    }
    other |= {"source_query": f"{FILMS['source_query']} WHERE rating > 5", "on_drift": "add", "checks": ()}
    edit(lab, whole, **other)
    for target in BOTH:
        kept = member(lab, target)
        assert {name: getattr(kept, name) for name in other} == other
        assert lab.value("SELECT version FROM etl.etl_pipelines WHERE id = %s", kept.id) == 2


def test_a_task_plan_reaches_every_target(lab: Lab) -> None:
    tasks = [{"order_index": 1, "task_type": "SQL", "body": FILMS["source_query"]}]
    whole = shared(lab, source_query=None, tasks=tasks)
    assert member(lab, BOTH[0]).tasks == whole.tasks
    run_all(lab)
    lab.assert_equal(whole.model_copy(update={"source_query": FILMS["source_query"]}), BOTH[1])


def test_a_target_that_is_added_is_loaded_and_one_that_is_removed_keeps_its_mart(lab: Lab) -> None:
    whole = shared(lab)
    run_all(lab)
    before = member(lab, BOTH[1]).id
    edit(lab, whole, targets=("analytics.two", "analytics.three"))
    assert lab.value("SELECT count(*) FROM etl.etl_pipelines") == 3
    assert member(lab, "analytics.two").id == before
    run_all(lab, "analytics.three")
    lab.assert_equal(whole, "analytics.three")
    lab.assert_equal(whole, "analytics.one")


def test_who_edits_one_target_by_itself_finds_it_as_it_was(lab: Lab) -> None:
    shared(lab)
    lab.sql("UPDATE etl.etl_pipelines SET source_query = 'SELECT 1 AS film_id' WHERE part_of IS NOT NULL")
    lab.sql("UPDATE etl.etl_pipelines SET name = 'mine' WHERE name = 'films@analytics.one'")
    assert member(lab, BOTH[0]).source_query == FILMS["source_query"]


def test_two_pipelines_never_keep_one_target(lab: Lab) -> None:
    lab.add(**FILMS | {"name": "other", "target_table": BOTH[1]})
    with pytest.raises(ConfigError, match=r"another pipeline has this already: .*analytics.two"):
        shared(lab)


@pytest.mark.parametrize("change", ["status = 'RUN_REQUESTED'", "targets = '{}', target_table = 'analytics.one'"])
def test_the_whole_has_no_status_of_its_own_and_stays_one(lab: Lab, change: str) -> None:
    shared(lab)
    with pytest.raises(psycopg.errors.CheckViolation):
        lab.sql(f"UPDATE etl.etl_pipelines SET {change} WHERE name = 'films'")


def test_the_whole_is_as_its_worst_target(lab: Lab) -> None:
    whole = shared(lab)
    lab.sql("UPDATE etl.etl_pipelines SET status = 'PAUSED' WHERE name = 'films@analytics.two'")
    assert lab.status(whole) == "PAUSED"
    assert [(m.target, str(m.status)) for m in PipelineRepo(lab.db).get("films").members] == [
        ("analytics.one", "IDLE"),
        ("analytics.two", "PAUSED"),
    ]


@pytest.mark.parametrize("targets", [["analytics.a", "analytics.a"], [""], [f"analytics.t{n}" for n in range(17)]])
def test_targets_are_named_once_and_are_few(targets: list[str]) -> None:
    with pytest.raises(ConfigError, match="targets"):
        Pipeline.parse({"name": "films", "targets": targets})


def test_deleting_the_whole_forgets_its_targets_and_leaves_their_marts(lab: Lab) -> None:
    whole = shared(lab)
    run_all(lab)
    assert EditingRepo(lab.db).delete(whole.id)
    assert lab.value("SELECT count(*) FROM etl.etl_pipelines") == 0
    lab.assert_equal(whole, BOTH[0])


def test_one_that_fails_holds_back_nobody_else(lab: Lab) -> None:
    whole = shared(lab)
    lab.sql("CREATE TABLE analytics.two (film_id text PRIMARY KEY, title integer)")
    run_all(lab)
    assert lab.status(member(lab, BOTH[0])) == "IDLE"
    lab.assert_equal(whole, BOTH[0])
    assert lab.status(member(lab, BOTH[1])) == "FAILED"
    assert lab.status(whole) == "FAILED"

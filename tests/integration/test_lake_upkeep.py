"""Tables of a lake that no run writes: tidied by a runner, under the fence that runs have."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.lake import LakeSink
from tests.support import Lab, wait_for
from vitrina.domain.pipeline import Pipeline
from vitrina.meta.db import connect
from vitrina.sinks import registry
from vitrina.sinks.lake import catalogue, iceberg, upkeep
from vitrina.testing.marts import add_items, assert_equal, items, went


@pytest.fixture
def lake(lab: Lab, tmp_path: Path) -> LakeSink:
    return LakeSink(lab, tmp_path / "lake")


@pytest.fixture
def piled(lake: LakeSink, monkeypatch: pytest.MonkeyPatch) -> Pipeline:
    """A mart of ten small files and some that say what is deleted."""
    monkeypatch.setattr(iceberg, "MOST_MARKED", 2.0)
    pipeline = items(lake, 30, batch_size=3)
    went(lake, pipeline)
    monkeypatch.setattr(iceberg, "SMALL_BYTES", 0)
    lake.lab.sql("UPDATE content.item SET title = 'other' WHERE id % 4 = 0")
    went(lake, pipeline)
    monkeypatch.undo()
    return pipeline


def keep_up(lake: LakeSink) -> None:
    with connect(lake.lab.connections.warehouse, "upkeep") as conn:
        registry.keep_up(conn, lake.lab.connections.settings)


def files(lake: LakeSink) -> tuple[int, int]:
    tasks = [*lake.table.scan().plan_files()]
    return len(tasks), sum(len(task.delete_files) for task in tasks)


def test_a_table_at_rest_has_few_files_and_who_reads_an_old_snapshot_reads_on(lake: LakeSink, piled: Pipeline) -> None:
    old, before = lake.table, files(lake)
    assert before[0] > 10
    assert before[1] > 3
    keep_up(lake)
    assert files(lake) == (1, 0)
    assert_equal(lake, piled)
    assert old.scan().count() == 30
    assert lake.table.scan(snapshot_id=old.metadata.current_snapshot_id).count() == 30
    assert went(lake, piled) == (0, 0)
    assert lake.lab.reconcile(piled)["equal"]
    at = lake.table.metadata_location
    keep_up(lake)
    assert lake.table.metadata_location == at
    lake.lab.sql("UPDATE content.item SET title = 'third' WHERE id = 7")
    assert went(lake, piled) == (1, 0)
    assert_equal(lake, piled)


def test_snapshots_and_files_that_are_old_enough_go_without_a_run(lake: LakeSink, piled: Pipeline) -> None:
    stray = Path(lake.table.metadata.location.removeprefix("file://")) / "data" / "of-a-lost-run.parquet"
    stray.touch()
    assert len(lake.table.metadata.snapshots) > 3
    lake.lab.configure(lake_snapshot_days=0)
    keep_up(lake)
    assert files(lake) == (1, 0)
    assert stray.exists(), "what is committed may still be undone"
    keep_up(lake)
    assert not stray.exists()
    assert len(lake.table.metadata.snapshots) <= 2
    assert not lake.unreferenced()
    assert_equal(lake, piled)


def meanwhile(monkeypatch: pytest.MonkeyPatch, happens: Callable[[], object]) -> None:
    """Once the files are written, before the pointer moves."""
    monkeypatch.setattr(upkeep, "reach", lambda _: happens())


@pytest.mark.parametrize("is_fenced", [True, False])
def test_who_stood_still_while_others_ran_undoes_nothing_and_would_without_the_fence(
    lake: LakeSink, piled: Pipeline, monkeypatch: pytest.MonkeyPatch, is_fenced: bool
) -> None:
    """The epoch, or the pointer: each of them alone would do."""

    def happens() -> None:
        add_items(lake.lab, 31, 40)
        went(lake, piled)

    meanwhile(monkeypatch, happens)
    if not is_fenced:
        lake.lab.configure(lake_unused_seconds=3600)
        monkeypatch.setitem(
            catalogue.SQL, "still_at_rest", catalogue.SQL["still_at_rest"].replace("= %(epoch)s", "> 0")
        )
        unfenced = catalogue.SQL["move"].replace("AND metadata_location = %(old)s", "")
        monkeypatch.setitem(catalogue.SQL, "move", unfenced)
    keep_up(lake)
    monkeypatch.undo()
    assert lake.table.scan().count() == (40 if is_fenced else 30)


@pytest.mark.parametrize("guard", ["epoch", "pointer"])
def test_either_fence_is_enough(lake: LakeSink, piled: Pipeline, monkeypatch: pytest.MonkeyPatch, guard: str) -> None:
    def happens() -> None:
        add_items(lake.lab, 31, 40)
        went(lake, piled)

    meanwhile(monkeypatch, happens)
    if guard == "pointer":
        monkeypatch.setitem(
            catalogue.SQL, "still_at_rest", catalogue.SQL["still_at_rest"].replace("= %(epoch)s", "> 0")
        )
    else:
        unfenced = catalogue.SQL["move"].replace("AND metadata_location = %(old)s", "")
        monkeypatch.setitem(catalogue.SQL, "move", unfenced)
    keep_up(lake)
    monkeypatch.undo()
    assert lake.table.scan().count() == 40
    assert_equal(lake, piled)


def test_two_at_once_are_one(lake: LakeSink, piled: Pipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither removes what the other has just written."""
    turns = []

    def happens() -> None:
        turns.append(files(lake))
        if len(turns) == 1:
            keep_up(lake)

    meanwhile(monkeypatch, happens)
    keep_up(lake)
    assert len(turns) == 1
    assert files(lake) == (1, 0)
    assert_equal(lake, piled)


def test_a_runner_does_it_by_itself_and_leaves_strangers_commits_alone(lake: LakeSink, piled: Pipeline) -> None:
    with lake.lab.runner():
        wait_for(lambda: files(lake) == (1, 0), 60)
    assert_equal(lake, piled)
    lake.damage("2", "3", {"id": 99, "title": "stranger"})
    at = lake.table.metadata_location
    keep_up(lake)
    assert lake.table.metadata_location == at

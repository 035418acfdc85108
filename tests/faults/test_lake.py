"""A lake whose runners are killed, stand still, and come too late: one state, with the checkpoint."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.lake import LakeSink
from tests.support import Lab
from vitrina.meta.repos import state
from vitrina.sinks.lake import delivery
from vitrina.testing import SinkUnderFaults
from vitrina.testing.faults import Nursery, change, killed
from vitrina.testing.marts import assert_equal, at_batch, items, went

pytestmark = pytest.mark.faults
WRITING = ("before send:2", "after send:2", "before checkpoint:5", "after checkpoint:5")


@pytest.fixture
def lake(lab: Lab, tmp_path: Path) -> LakeSink:
    return LakeSink(lab, tmp_path / "lake")


class TestLake(SinkUnderFaults):
    building = ("index created:1", *WRITING, "before swap:1", "after swap:1")
    sending = WRITING
    standing = ("after send:2", "before swap:1")

    @pytest.fixture
    def mart(self, lake: LakeSink) -> LakeSink:
        return lake


def test_what_a_killed_runner_leaves_is_removed(lake: LakeSink) -> None:
    pipeline, nursery = items(lake, 60, batch_size=10), Nursery(lake.lab)
    went(lake, pipeline)
    change(lake.lab)
    nursery.kill_at(pipeline, killed("after send:2"))
    assert lake.unreferenced()
    nursery.take_over(pipeline)
    assert_equal(lake, pipeline)
    assert not lake.unreferenced()


def taken_over(lake: LakeSink, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once its files are written, and before it moves the pointer, a runner loses its pipeline to another."""

    def lose(place: str) -> None:
        if place == "after send":
            lake.lab.sql("UPDATE etl.etl_state SET epoch = epoch + 1")

    monkeypatch.setattr(delivery, "reach", lose)


def run_to_the_end_of_it(lake: LakeSink, begin: Callable[[], object]) -> bool:
    """Whether the pointer has moved."""
    before = lake.table.metadata_location
    begin()
    return lake.table.metadata_location != before


@pytest.mark.parametrize("is_fenced", [True, False])
def test_a_zombie_moves_no_pointer_and_would_without_the_fence(
    lake: LakeSink, monkeypatch: pytest.MonkeyPatch, is_fenced: bool
) -> None:
    pipeline = items(lake)
    went(lake, pipeline)
    lake.lab.sql("UPDATE content.item SET title = 'of a zombie' WHERE id = 1")
    taken_over(lake, monkeypatch)
    if not is_fenced:
        text = state.SQL["fence"].replace("epoch = %(epoch)s", "true")
        monkeypatch.setitem(state.SQL, "fence", text)
    moved = run_to_the_end_of_it(lake, lambda: lake.lab.run(pipeline))
    assert moved is not is_fenced
    assert (lake.rows(["id"])["1"]["title"] == "of a zombie") is not is_fenced


def test_a_commit_of_somebody_else_amid_a_run_is_no_loss(lake: LakeSink) -> None:
    """The pointer is not where the run has left it: nothing is committed, and the next attempt looks at the lake."""
    pipeline = items(lake, 12)
    went(lake, pipeline)
    lake.lab.sql("UPDATE content.item SET title = 'other'")
    moved = "UPDATE etl_lake.iceberg_tables SET metadata_location = previous_metadata_location WHERE table_name = 'mart'"
    at_batch(lake.lab, 2, f"{moved} AND (SELECT batches FROM etl.etl_runs ORDER BY id DESC LIMIT 1) = 2")
    run = lake.lab.run(pipeline)
    assert (run["status"], run["attempt"] > 1) == ("SUCCESS", True)
    at_batch(lake.lab, 2, "NULL")
    went(lake, pipeline, repair=True)
    assert_equal(lake, pipeline)

"""A lake whose runners are killed, stand still, and come too late: one state, with the checkpoint."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from tests.lake import LakeSink
from tests.lake_divided import divide
from tests.living import Living, living
from tests.support import Lab, wait_for
from vitrina.domain.pipeline import BATCH_SIZE, Pipeline
from vitrina.meta.repos import state
from vitrina.sinks.lake import delivery
from vitrina.testing import SinkUnderFaults
from vitrina.testing.faults import Nursery, change, killed
from vitrina.testing.marts import assert_equal, items, went

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


class TestDividedLake(TestLake):
    @pytest.fixture
    def mart(self, lake: LakeSink, monkeypatch: pytest.MonkeyPatch) -> LakeSink:
        divide(monkeypatch)
        return lake


def test_what_a_killed_runner_leaves_is_removed(lake: LakeSink) -> None:
    pipeline, nursery = items(lake, 60, batch_size=10), Nursery(lake.lab)
    went(lake, pipeline)
    assert not lake.unreferenced()
    change(lake.lab)
    nursery.kill_at(pipeline, killed("after send:2"))
    assert lake.unreferenced()
    nursery.take_over(pipeline)
    assert_equal(lake, pipeline)
    assert not lake.unreferenced()


@pytest.mark.parametrize(
    "point", ["before send:1", "after send:1", "before checkpoint:5", "after checkpoint:5", "before swap:1"]
)
def test_a_load_in_one_go_that_is_killed_begins_again(lake: LakeSink, point: str) -> None:
    pipeline, nursery = items(lake, 60, batch_size=BATCH_SIZE), Nursery(lake.lab)
    nursery.kill_at(pipeline, killed(point))
    nursery.take_over(pipeline)
    assert_equal(lake, pipeline)
    assert len(lake.table.metadata.snapshots) == 1
    assert not lake.unreferenced()


def once_files_are_written(
    monkeypatch: pytest.MonkeyPatch, happens: Callable[[], object], where: ModuleType = delivery
) -> None:
    """And before the runner moves the pointer; the first time."""
    left = [happens]

    def reach(place: str) -> None:
        if place == "after send" and left:
            left.pop()()

    monkeypatch.setattr(where, "reach", reach)


@pytest.mark.parametrize("is_fenced", [True, False])
def test_a_zombie_moves_no_pointer_and_would_without_the_fence(
    lake: LakeSink, monkeypatch: pytest.MonkeyPatch, is_fenced: bool
) -> None:
    pipeline = items(lake)
    went(lake, pipeline)
    before = lake.table.metadata_location
    lake.lab.sql("UPDATE content.item SET title = 'of a zombie' WHERE id = 1")
    once_files_are_written(monkeypatch, lambda: lake.lab.sql("UPDATE etl.etl_state SET epoch = epoch + 1"))
    if not is_fenced:
        monkeypatch.setitem(state.SQL, "fence", state.SQL["fence"].replace("epoch = %(epoch)s", "true"))
    lake.lab.run(pipeline)
    assert (lake.table.metadata_location == before) is is_fenced
    assert (lake.rows(["id"])["1"]["title"] == "item 1") is is_fenced


def test_a_commit_of_somebody_else_amid_a_run_is_seen(lake: LakeSink, monkeypatch: pytest.MonkeyPatch) -> None:
    """The pointer is not where the run left it: nothing is committed, and the next attempt looks at the lake itself."""
    pipeline = items(lake)
    went(lake, pipeline)
    lake.lab.sql("UPDATE content.item SET title = 'other' WHERE id = 1")
    once_files_are_written(monkeypatch, lambda: lake.damage("2", "3", {"id": 99, "title": "stranger"}))
    assert went(lake, pipeline) == (3, 1)
    assert lake.lab.last_run(pipeline)["attempt"] == 2
    assert_equal(lake, pipeline)


# ── live ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def followed(lake: LakeSink) -> Iterator[tuple[Living, Pipeline]]:
    """A live mart of some items."""
    pipeline = items(lake, 60, batch_size=BATCH_SIZE, mode="live")
    with living(lake.lab, "wal", ["content.item"]) as live:
        live.follow(pipeline)
        yield live, pipeline


def assert_right(lake: LakeSink, pipeline: Pipeline) -> None:
    """The very rows, each once."""
    assert_equal(lake, pipeline)
    ids = lake.table.scan().to_arrow()["id"].to_pylist()
    assert sorted(ids) == [row[0] for row in lake.lab.sql("SELECT id FROM content.item ORDER BY id")]


@pytest.mark.parametrize("point", ["before send:1", "after send:1", "live slice:1", "before checkpoint:3"])
def test_following_into_a_lake_killed_anywhere_is_gone_on_with(
    lake: LakeSink, followed: tuple[Living, Pipeline], point: str
) -> None:
    live, pipeline = followed
    nursery = Nursery(lake.lab)
    change(lake.lab)
    live.catch_up()
    nursery.kill_at(pipeline, killed(point))
    change(lake.lab)
    nursery.take_over(pipeline)
    live.follow(pipeline)
    assert_right(lake, pipeline)


def test_changes_of_a_while_are_one_commit(lake: LakeSink, followed: tuple[Living, Pipeline]) -> None:
    """However many they are: a snapshot a change would help nobody. What came last is there a while later too."""
    lab, (_, pipeline), seconds = lake.lab, followed, 1.0
    lab.configure(lake_commit_seconds=seconds)
    changes, before = 60, len(lake.table.metadata.snapshots)
    with lab.runner():
        began = time.monotonic()
        for number in range(changes):
            lab.sql("UPDATE content.item SET title = %s WHERE id = 7", str(number))
            time.sleep(0.05)  # an application that writes, not a wait
        wait_for(lambda: lake.rows(["id"])["7"]["title"] == str(changes - 1), 30)
        took = time.monotonic() - began
    assert len(lake.table.metadata.snapshots) - before <= took / seconds + 1
    assert took / seconds + 1 < changes, "else this shows nothing"
    assert_right(lake, pipeline)


def test_a_commit_of_somebody_else_under_a_follower_is_put_right(
    lake: LakeSink, followed: tuple[Living, Pipeline]
) -> None:
    lab, (_, pipeline) = lake.lab, followed
    lab.configure(lake_commit_seconds=0)
    with lab.runner():
        wait_for(lambda: lab.value("SELECT owner IS NOT NULL FROM etl.etl_leases"), 30)
        lake.damage("2", "3", {"id": 99, "title": "stranger"})
        lab.sql("UPDATE content.item SET title = 'other' WHERE id = 1")
        wait_for(lambda: lake.rows(["id"]).get("1", {}).get("title") == "other" and "99" not in lake.rows(["id"]), 60)
    assert_right(lake, pipeline)

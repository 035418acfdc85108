"""Files whose runners are killed, stand still, and come too late: a manifest names whole versions alone."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.files import FilesSink
from tests.support import Lab
from vitrina.sinks.documents import editions
from vitrina.sinks.files import delivery
from vitrina.sinks.files.folder import Folder
from vitrina.testing import SinkUnderFaults
from vitrina.testing.faults import Nursery, change, killed
from vitrina.testing.marts import assert_equal, items, went

pytestmark = pytest.mark.faults
WRITING = ("before shadow:3", "before send:2", "after send:2", "before checkpoint:5", "after checkpoint:5")
SWITCHING = ("before swap:1", "after swap:1", "before confirm:1")


@pytest.fixture
def files(lab: Lab, tmp_path: Path) -> FilesSink:
    return FilesSink(lab, tmp_path / "mart")


class TestFiles(SinkUnderFaults):
    building = ("index created:1", *WRITING, *SWITCHING)
    sending = (*WRITING, *SWITCHING)
    standing = ("after send:2", "before swap:1", "after swap:1")

    @pytest.fixture
    def mart(self, files: FilesSink) -> FilesSink:
        return files


@pytest.mark.parametrize("point", [*WRITING[:3], *SWITCHING])
def test_what_a_killed_runner_leaves_is_no_version_and_is_removed(files: FilesSink, point: str) -> None:
    pipeline, nursery = items(files, 60, batch_size=10), Nursery(files.lab)
    went(files, pipeline)
    before = files.manifest
    change(files.lab)
    nursery.kill_at(pipeline, killed(point))
    assert files.manifest == before or point in SWITCHING[1:]
    assert files.table.num_rows in (60, 60 + 5 - 5)
    nursery.take_over(pipeline)
    assert_equal(files, pipeline)
    assert not files.unnamed
    unchanged = files.manifest
    assert unchanged
    assert {path.split("/")[0] for path in files.paths()} == {"_manifest.json", "_lock", unchanged["version"]}
    assert went(files, pipeline) == (0, 0)
    assert files.manifest == unchanged


def before_the_switch(monkeypatch: pytest.MonkeyPatch, happens: Callable[[], object]) -> None:
    """The first time that a runner gets there."""
    left = [happens]

    def reach(place: str) -> None:
        if place == "before swap" and left:
            left.pop()()

    monkeypatch.setattr(delivery, "reach", reach)
    monkeypatch.setattr(editions, "reach", reach)


def unfenced(folder: Folder, path: str, data: bytes, tag: str | None) -> str:
    """As if nobody compared."""
    del tag
    folder.put(path, data)
    found = folder.get(path)
    assert found
    return found[1]


@pytest.mark.parametrize("is_fenced", [True, False])
@pytest.mark.parametrize("is_new", [True, False])
def test_a_zombie_switches_no_manifest_and_would_without_the_fence(
    files: FilesSink, monkeypatch: pytest.MonkeyPatch, is_new: bool, is_fenced: bool
) -> None:
    """It stands still before the switch; its successor finds what is on its way, and sees the mart through."""
    pipeline = items(files)
    if not is_new:
        went(files, pipeline)
        files.lab.sql("UPDATE content.item SET title = 'of a zombie' WHERE id = 1")
    if not is_fenced:
        monkeypatch.setattr(Folder, "switch", unfenced)
    served = []

    def succeed() -> None:
        files.lab.sql("UPDATE content.item SET title = 'newest' WHERE id = 1")
        Nursery(files.lab).take_over(pipeline)
        assert_equal(files, pipeline)
        served.append(files.manifest)

    before_the_switch(monkeypatch, succeed)
    files.lab.run(pipeline)
    assert (files.manifest == served[0]) is is_fenced


def test_a_successor_that_finds_nothing_to_do_keeps_a_zombie_out_all_the_same(
    files: FilesSink, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the zombie is about to serve is no longer what the query gives."""
    pipeline = items(files)
    went(files, pipeline)
    files.lab.sql("UPDATE content.item SET title = 'of a zombie' WHERE id = 1")

    def succeed() -> None:
        files.lab.sql("UPDATE content.item SET title = 'item 1' WHERE id = 1")
        Nursery(files.lab).take_over(pipeline)

    before_the_switch(monkeypatch, succeed)
    files.lab.run(pipeline)
    assert_equal(files, pipeline)
    assert went(files, pipeline) == (0, 0)

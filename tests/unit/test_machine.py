"""How much the tests take of a machine that is not theirs alone."""

from pathlib import Path

import pytest

from tests import room
from tools import machine

GIB = 1 << 30


@pytest.fixture
def groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Control groups that allow nothing in particular, until a test writes them."""
    monkeypatch.delenv(machine.NAME, raising=False)
    monkeypatch.setattr(machine, "GROUPS", tmp_path / "groups")
    monkeypatch.setattr(machine, "OWN", tmp_path / "own")
    monkeypatch.setattr(machine, "_of_process", lambda: 16)
    (tmp_path / "own").write_text("0::/jobs/this\n5:memory:/jobs/this\n2:cpu,cpuacct:/jobs/this\n")
    return tmp_path / "groups"


def write(folder: Path, **files: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text + "\n")


def test_without_a_limit_there_are_as_many_cores_as_the_process_may_use(groups: Path) -> None:
    assert machine.cores() == 16
    write(groups / "jobs" / "this", cpu__max="max 100000")
    write(groups / "cpu" / "jobs" / "this", cpu__cfs_quota_us="-1", cpu__cfs_period_us="100000")
    assert machine.cores() == 16


def test_a_limit_is_kept_to_whoever_sets_it(groups: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(groups / "jobs", cpu__max="400000 100000")
    assert machine.cores() == 4
    write(groups / "cpu" / "jobs" / "this", cpu__cfs_quota_us="150000", cpu__cfs_period_us="100000")
    assert machine.cores() == 2
    write(groups / "jobs" / "this", cpu__max="10000 100000")
    assert machine.cores() == 1
    monkeypatch.setenv(machine.NAME, "7")
    assert machine.cores() == 7


def test_one_gets_a_core_at_least_and_no_more_than_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(machine.NAME, "2")
    assert machine.tried_cores() in (1, 2)


def test_cores_that_are_not_given_are_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody says so, but eight processes get no more than two have."""
    monkeypatch.setenv(machine.NAME, "8")
    monkeypatch.setattr(machine, "_try", lambda asked: 1.9 if asked == 8 else 0)
    assert machine.tried_cores() == 2


@pytest.mark.parametrize(("version", "folder"), [("v2", "jobs"), ("v1", "memory/jobs/this")])
def test_memory_is_what_the_groups_leave_without_what_can_be_freed(groups: Path, version: str, folder: str) -> None:
    free = machine.memory()
    names = {"v2": ("memory__max", "memory__current"), "v1": ("memory__limit_in_bytes", "memory__usage_in_bytes")}
    most, used = names[version]
    write(groups / folder, memory__stat="anon 5\ninactive_file 4096", **{most: "1048576", used: "10240"})
    assert machine.memory() == min(free, 1048576 - 10240 + 4096)
    write(groups / folder, **{most: "max"})
    assert machine.memory() > 1048576


@pytest.mark.parametrize(("gigabytes", "lanes"), [(0, 1), (8, 1), (13, 2), (64, 2)])
def test_suites_beside_one_another_go_by_memory_and_are_two_at_most(gigabytes: int, lanes: int) -> None:
    assert machine.lanes(gigabytes * GIB) == lanes


def test_tests_keep_their_files_in_memory_only_where_the_groups_leave_enough_of_it(
    groups: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "WANTED", 1 << 20)
    assert room.is_roomy(tmp_path)
    write(groups / "jobs", memory__stat="", memory__max="1048576", memory__current="1")
    assert not room.is_roomy(tmp_path)

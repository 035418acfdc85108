"""What packages bring is looked for once, and again when one comes or goes."""

import os
import shutil
from itertools import count
from pathlib import Path

import pytest

from vitrina.plug_ins import brought

GROUP = "vitrina.tried"
CLOCK = count(1_800_000_000)


def test_a_package_that_comes_or_goes_is_noticed_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    assert not names()
    info = install(tmp_path, "one")
    assert names() == {"one"}
    install(tmp_path, "two")
    assert names() == {"one", "two"}
    remove(info)
    assert names() == {"two"}


def test_a_folder_that_comes_first_on_the_path_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, "one")
    assert not names()
    monkeypatch.syspath_prepend(tmp_path)
    assert names() == {"one"}


def test_where_nothing_has_changed_nothing_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    install(tmp_path, "one")
    assert brought(GROUP) is brought(GROUP)


def names() -> set[str]:
    return {point.name for point in brought(GROUP)}


def install(folder: Path, name: str) -> Path:
    """Moved there whole, as installers do."""
    made = folder.with_name(f"{folder.name}-{name}")
    made.mkdir()
    (made / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (made / "entry_points.txt").write_text(f"[{GROUP}]\n{name} = pathlib:Path\n")
    return later(made.rename(folder / f"{name}-1.0.dist-info"))


def remove(info: Path) -> None:
    shutil.rmtree(info)
    later(info)


def later(info: Path) -> Path:
    """As if a second after what was done to its folder before: the clock of files may stand still for 10 ms."""
    seconds = next(CLOCK)
    os.utime(info.parent, (seconds, seconds))
    return info

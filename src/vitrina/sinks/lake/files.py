"""The folder of a lake: what is in it, and what is on the disk for good. Nothing in its name is escaped."""

import os
from collections.abc import Iterable
from pathlib import Path
from shutil import rmtree
from typing import NoReturn

SCHEME = "file://"
ABOVE = 4  # a file in a table, in its namespace, in the lake: folders that may be as new as the file


def path_of(url: str) -> Path:
    """On this machine."""
    return Path(url.removeprefix(SCHEME))


def ask(folder: str) -> None:
    """Whether it can be read; one that is not there yet can be made."""
    path = path_of(folder)
    if path.exists():
        os.listdir(path)


def files_in(folder: str) -> list[tuple[str, float]]:
    """Every file below it, and when it was written."""
    root = path_of(folder)
    if not root.exists():
        return []
    found = [Path(at, name) for at, _, names in os.walk(root, onerror=_fail) for name in names]
    return [(f"{SCHEME}{path}", path.stat().st_mtime) for path in found]


def _fail(error: OSError) -> NoReturn:
    """What cannot be seen is not taken to be gone."""
    raise error


def remove(folder: str) -> None:
    """All of it."""
    path = path_of(folder)
    if path.is_dir():
        rmtree(path)


def sync(locations: Iterable[str]) -> None:
    """Whatever happens to the power, these files are there, and so are their folders."""
    paths = [path_of(location) for location in locations]
    folders = [folder for path in paths for folder in path.parents[:ABOVE]]
    for path in dict.fromkeys([*paths, *folders]):
        number = os.open(path, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)

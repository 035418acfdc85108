"""The folder of a lake: what is in it, and what is on the disk for good. Nothing in its name is escaped."""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from shutil import rmtree
from typing import NoReturn

from pyiceberg.io.pyarrow import PyArrowFile, PyArrowFileIO

SCHEME = "file://"
ABOVE = 4  # a file in a table, in its namespace, in the lake: folders that may be as new as the file


class Disk(PyArrowFileIO):
    """Files, and which of them may be lost with the power: whoever points to them survives it."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[str] = []

    def new_output(self, location: str) -> PyArrowFile:
        """Noted."""
        self.written.append(location)
        return super().new_output(location)


class Folder:
    """On this machine, or mounted there."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.io = Disk()

    def look(self) -> None:
        """Whether it can be read; one that is not there yet can be made."""
        path = _path(self.url)
        if path.exists():
            os.listdir(path)

    def doubt(self, folder: str) -> str:
        """An empty folder may be the place where it belongs."""
        above = _path(folder).parent
        return "" if above.is_dir() else f"mount it, or mkdir {above}, and its tables are made anew"

    def list(self, folder: str) -> Iterator[tuple[str, float]]:
        """Every file below it, and when it was written."""
        root = _path(folder)
        if root.exists():
            for at, _, names in os.walk(root, onerror=_fail):
                for path in (Path(at, name) for name in names):
                    yield f"{SCHEME}{path}", path.stat().st_mtime

    def remove(self, folder: str) -> None:
        """All of it."""
        path = _path(folder)
        if path.is_dir():
            rmtree(path)

    def flush(self) -> None:
        """To the disk."""
        _sync(self.io.written)
        self.io.written.clear()


def _path(url: str) -> Path:
    """On this machine."""
    return Path(url.removeprefix(SCHEME))


def _fail(error: OSError) -> NoReturn:
    """What cannot be seen is not taken to be gone."""
    raise error


def _sync(locations: Iterable[str]) -> None:
    """Whatever happens to the power, these files are there, and so are their folders."""
    paths = [_path(location) for location in locations]
    folders = [folder for path in paths for folder in path.parents[:ABOVE]]
    for path in dict.fromkeys([*paths, *folders]):
        number = os.open(path, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)

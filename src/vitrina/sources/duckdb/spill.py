"""Folders for what does not fit into memory: each is its process's own for as long as that holds the lock on it."""

import fcntl
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

PREFIX = "vitrina-duckdb-"


@dataclass(frozen=True)
class Spill:
    """A folder, and what keeps it from being swept."""

    path: Path
    lock: int

    @classmethod
    def make(cls) -> "Spill":
        """Somebody may sweep it before it is locked: then it is another."""
        while True:
            path = Path(tempfile.mkdtemp(prefix=PREFIX))
            lock = _locked(path)
            if lock is not None and path.exists():
                return cls(path, lock)
            if lock is not None:
                os.close(lock)

    def remove(self) -> None:
        """With what is in it."""
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self.lock)


def sweep() -> None:
    """What killed processes have left. A number of a process says nothing: it may be of another container's."""
    for left in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        if (lock := _locked(left)) is not None:
            Spill(left, lock).remove()


def _locked(folder: Path) -> int | None:
    try:
        lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        return None
    return lock

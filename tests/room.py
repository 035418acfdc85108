"""Where the tests keep their files: in memory if there is plenty, else on the disk, if there is enough.

A test clones a database of 300 files and drops it. File systems on disks spend more on that than the tests themselves.
"""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tools import machine
from vitrina.domain.errors import VitrinaError
from vitrina.embedded.elasticsearch import EmbeddedElasticsearch
from vitrina.embedded.postgres import EmbeddedPostgres

GIB = 1 << 30
MEMORY = Path("/dev/shm")
WANTED = 6 * GIB  # of memory, and of a file system in it: the tests use up to 2
LEAST = 2 * GIB  # on a disk


class NoRoom(Exception):
    """One line that says what to do."""


def choose() -> Path:
    """The folder that temporary files go to from here on, in this process and its children."""
    if not os.environ.get("TMPDIR") and is_roomy(MEMORY):
        os.environ["TMPDIR"] = str(MEMORY)
        tempfile.tempdir = None  # look again
    folder = Path(tempfile.gettempdir())
    if free(folder) < LEAST:
        left = f"{free(folder) / GIB:.1f} GB are free in {folder}, and the tests need {LEAST / GIB:.0f}"
        raise NoRoom(f"{left}: free some, or name another folder with TMPDIR")
    return folder


def is_roomy(folder: Path) -> bool:
    """Whether it takes programs as well as files, and nobody else will miss the memory."""
    if not folder.is_dir() or os.statvfs(folder).f_flag & os.ST_NOEXEC:
        return False
    return os.access(folder, os.W_OK) and min(free(folder), machine.memory()) > WANTED


def free(folder: Path) -> int:
    """Bytes that this user may write there."""
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize


@contextmanager
def home(prefix: str) -> Iterator[Path]:
    """A folder that the servers' user can reach, ours while we live; what others left who were killed is cleared."""
    clear(Path(tempfile.gettempdir()), prefix)
    made = Path(tempfile.mkdtemp(prefix=prefix))
    made.chmod(0o755)
    with open(made / "new", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        (made / "new").rename(made / "in use")  # nobody sees it before it is held
        yield made
    shutil.rmtree(made, ignore_errors=True)


def clear(folder: Path, prefix: str) -> None:
    """Homes that nobody holds any more, with the servers that may still run in them."""
    for left in folder.glob(f"{prefix}*"):
        with suppress(OSError, VitrinaError), open(left / "in use") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            EmbeddedElasticsearch(left / "elasticsearch").purge()
            EmbeddedPostgres(left / "postgres").purge()
            shutil.rmtree(left, ignore_errors=True)

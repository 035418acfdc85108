"""A mart in a folder of this machine, or one that is mounted there: what is written is on the disk before it counts."""

import fcntl
import hashlib
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO
from uuid import uuid4

from vitrina.sinks.files.shelf import Changed, Seen

LOCK = "_lock"
PASSING = "_passing"  # begins the names of files that are not whole yet


class Folder:
    """Files are written beside and renamed, so that each is whole; who switches the manifest holds a lock."""

    def __init__(self, path: str) -> None:
        self.root = Path(path)

    def look(self) -> None:
        """One that is not there yet can be made."""
        if self.root.exists():
            os.listdir(self.root)

    def get(self, path: str) -> tuple[bytes, str] | None:
        """By what is in it."""
        try:
            data = (self.root / path).read_bytes()
        except FileNotFoundError:
            return None
        return data, _tag(data)

    def put(self, path: str, data: bytes) -> None:
        """Whole, or not at all, whatever happens to the power."""
        at = self.root / path
        at.parent.mkdir(parents=True, exist_ok=True)
        passing = at.parent / f"{PASSING}-{uuid4().hex}"
        try:
            with passing.open("xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            passing.rename(at)
        finally:
            passing.unlink(missing_ok=True)
        self._sync(at.parent)

    def switch(self, path: str, data: bytes, tag: str | None) -> str:
        """Compared and renamed while nobody else does."""
        self.root.mkdir(parents=True, exist_ok=True)
        with self._locked():
            found = self.get(path)
            if (found[1] if found else None) != tag:
                raise Changed(path)
            self.put(path, data)
        return _tag(data)

    def open(self, path: str) -> BinaryIO:
        """As it is on the disk."""
        return (self.root / path).open("rb")

    def copy(self, path: str, to: str) -> None:
        """A link, where the file system has them: nobody writes into a file that is there."""
        at = self.root / to
        at.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.link(self.root / path, at)
        except FileNotFoundError:
            raise
        except OSError:
            self.put(to, (self.root / path).read_bytes())
        self._sync(at.parent)

    def list(self, folder: str = "") -> Iterator[Seen]:
        """What is whole, and what never became so."""
        for at, _, names in os.walk(self.root / folder, onerror=_fail):
            for path in (Path(at, name) for name in names):
                with suppress(FileNotFoundError):  # renamed meanwhile
                    stat = path.stat()
                    yield Seen(path.relative_to(self.root).as_posix(), stat.st_size, stat.st_mtime)

    def remove(self, paths: Sequence[str]) -> None:
        """And the folders that are empty then."""
        for path in paths:
            (self.root / path).unlink(missing_ok=True)
        for folder in {Path(path).parent for path in paths} - {Path()}:
            with suppress(OSError):
                (self.root / folder).rmdir()

    def close(self) -> None:
        """Nothing is held."""

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with (self.root / LOCK).open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def _sync(self, folder: Path) -> None:
        """What is in it, and that it is in the folders above."""
        for path in (folder, *folder.parents[:2]):
            number = os.open(path, os.O_RDONLY)
            try:
                os.fsync(number)
            finally:
                os.close(number)


def _tag(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def _fail(error: OSError) -> None:
    """What cannot be seen is not taken to be gone; what is not there holds nothing."""
    if not isinstance(error, FileNotFoundError):
        raise error

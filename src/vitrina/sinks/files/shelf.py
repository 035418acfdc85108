"""What a mart in files asks of where it is: a folder, or a bucket. Paths are those below the mart."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol


class Changed(Exception):
    """The file is not as it was seen: somebody else has written it since."""


@dataclass(frozen=True)
class Seen:
    """A file that is there."""

    path: str
    bytes: int
    at: float  # when it was written


class Shelf(Protocol):
    """Files of one mart. What goes wrong is raised as OSError; a file that is not there as FileNotFoundError."""

    def look(self) -> None:
        """Once the place has answered."""

    def get(self, path: str) -> tuple[bytes, str] | None:
        """What is in a file, and a tag that changes with it; None if there is none."""

    def put(self, path: str, data: bytes) -> None:
        """Write a file, there to stay."""

    def switch(self, path: str, data: bytes, tag: str | None) -> str:
        """Write it if it is as the tag says, or not there if there is none, and give its new tag; else `Changed`."""

    def open(self, path: str) -> Any:
        """For who reads a file of Parquet."""

    def copy(self, path: str, to: str) -> None:
        """The same file under another name."""

    def list(self, folder: str = "") -> Iterator[Seen]:
        """Every file below it."""

    def remove(self, paths: Sequence[str]) -> None:
        """These; some may be gone."""

    def close(self) -> None:
        """Whatever was written stays."""

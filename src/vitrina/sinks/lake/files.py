"""What a lake asks of where it is: a folder, or a bucket."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pyiceberg.io import FileIO


class Files(Protocol):
    """Files that are named by URLs."""

    @property
    def io(self) -> "FileIO":
        """As pyiceberg reads and writes them."""

    def look(self) -> None:
        """Once the lake has answered."""

    def doubt(self, folder: str) -> str:
        """What to do about a file that is not in there, if it may be elsewhere; empty if it is lost."""

    def list(self, folder: str) -> Iterator[tuple[str, float]]:
        """Every file below it, and when it was written."""

    def remove(self, folder: str) -> None:
        """All of it."""

    def flush(self) -> None:
        """Whatever was written by `io` is there to stay."""

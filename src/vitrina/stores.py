"""Marts outside of Postgres, by plug-in: what a store must be able to do, so that Vitrina can keep a mart in it.

A store holds named sets of documents, one of which is served under the mart's own name. What is sent, when, and what
is sent again after a crash is Vitrina's affair (`sinks/documents/delivery.py`); a store keeps four promises:

- `write` is all or nothing, and writing the same twice is the same as once;
- once `take` was called with an epoch, nothing of an older one changes anything: `Superseded` is raised instead;
- `serve` is one move: a reader sees the old set or the new one;
- a document is given back as the very text that was written.

Register a function from the mart's name to its store as an entry point of group `vitrina.writers`; its name is the
prefix of the targets (`sqlite` for `sqlite:films`). Calls may come from two threads at once.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from vitrina.domain.errors import VitrinaError


class Superseded(VitrinaError):
    """Another runner has taken the mart over: what the caller sends is too late."""


@dataclass(frozen=True)
class Document:
    """One row of the mart: the key as text, a version that grows, and a JSON object; without a text, it is deleted."""

    id: str
    version: int
    text: str | None


@dataclass(frozen=True)
class Field:
    """One field of the documents, with the Postgres type it comes from."""

    name: str
    type: str


class Store(Protocol):
    """Where one mart lives. What a retry may cure is raised as RetryableError, what a person must, as ConfigError."""

    def take(self, epoch: int) -> None:
        """From now on, refuse what comes with an older epoch."""
        ...

    def sets(self) -> Mapping[str, str]:
        """Every set by name, with the mark it was created under."""
        ...

    def create(self, name: str, mark: str, fields: Sequence[Field], epoch: int) -> None:
        """A set, empty; one of that name is replaced."""
        ...

    def write(self, name: str, documents: Sequence[Document], epoch: int) -> None:
        """Put or delete each of them, in one transaction."""
        ...

    def read(self, name: str) -> Iterator[Document]:
        """Everything that a set holds."""
        ...

    def count(self, name: str) -> int:
        """How many documents that is."""
        ...

    def serve(self, name: str, epoch: int) -> None:
        """Let the mart's own name show this set."""
        ...

    def served(self) -> str | None:
        """The set that it shows."""
        ...

    def drop(self, name: str) -> None:
        """Remove a set, if it is there."""
        ...

    def close(self) -> None:
        """Let go of whatever is held."""
        ...

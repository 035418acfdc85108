"""Marts outside of the warehouse: what a store must be able to do, so that Vitrina can keep a mart in it.

A store holds named sets of documents, one of which is served under the mart's own name. What is sent, when, and what
is sent again after a crash is Vitrina's affair (`sinks/documents/delivery.py`); a store keeps four promises:

- writing the same batch twice is the same as once, and `write` returns when all of it has arrived;
- once `take` was called with an epoch, nothing of an older one changes anything: `Superseded` is raised instead;
- `serve` is one move: a reader sees the old set or the new one;
- a document is given back as the very text that was written.

Elasticsearch is one (`sinks/search/store.py`). Another comes by plug-in: register a function from the mart's
name to its store as an entry point of group `vitrina.writers`; its name is the prefix of the targets (`sqlite` for
`sqlite:films`). Calls may come from two threads at once. `vitrina.testing` has the tests that every store must pass.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from vitrina.domain.errors import VitrinaError


class Superseded(VitrinaError):
    """Somebody else writes here: our successor, perhaps, and then what the caller sends is too late."""


@dataclass(frozen=True)
class Document:
    """One row of the mart: the key as text, a version that grows, and a JSON object; without a text, it is deleted."""

    id: str
    version: int
    text: str | None


@dataclass(frozen=True)
class Batch:
    """Documents of one version, as Postgres has put them together: two lines each, the id as a JSON string, then the
    document; nothing in the second line deletes it."""

    version: int
    lines: bytes
    count: int

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[Document]:
        for id_, text in self.pairs():
            yield Document(json.loads(id_), self.version, text.decode() or None)

    def pairs(self) -> Iterator[tuple[bytes, bytes]]:
        """The lines, two at a time; nothing is taken apart."""
        lines = self.lines.split(b"\n")
        return zip(lines[0:-1:2], lines[1::2], strict=True)


@dataclass(frozen=True)
class Mark:
    """Whose a set is, and what tells it from any other of its name."""

    owner: str
    id: str


@dataclass(frozen=True)
class Field:
    """One field of the documents, with the Postgres type it comes from."""

    name: str
    type: str


class Store(Protocol):
    """Where one mart lives. What a retry may cure is raised as RetryableError, what a person must, as ConfigError."""

    senders: int = 1  # how many batches may be on their way at once
    seen_after: float | None = 0.0  # seconds in which readers see what was written; None: not by itself

    def mark(self, name: str) -> Mark | None:
        """Of a set; None if there is none of that name."""
        ...

    def served(self) -> Mapping[str, Mark]:
        """The sets that the mart's own name shows: one, unless somebody else had that name before."""
        ...

    def create(self, name: str, mark: Mark, fields: Sequence[Field], epoch: int) -> None:
        """A set, empty; one of that name is replaced. A store with ids of its own may mark it by those."""
        ...

    def take(self, name: str, epoch: int) -> None:
        """From now on, refuse what comes with an older epoch; it is this set that will be written."""
        ...

    def write(self, name: str, batch: Batch, epoch: int) -> None:
        """Put or delete each of its documents."""
        ...

    def read(self, name: str) -> Iterator[Document]:
        """Everything that a set holds."""
        ...

    def find(self, name: str, ids: Sequence[str]) -> Iterator[Document]:
        """Some of it, a few hundred at most; found by reading on unless a store knows better."""
        wanted = set(ids)
        return (document for document in self.read(name) if document.id in wanted)

    def count(self, name: str) -> int:
        """How many documents a set holds."""
        ...

    def serve(self, name: str, epoch: int) -> None:
        """Let the mart's own name show this set, and no other."""
        ...

    def drop(self, name: str) -> None:
        """Remove a set, if it is there."""
        ...

    def write_out(self, name: str) -> None:
        """A hint: most of a new set has come."""
        del name

    def make_ready(self, name: str) -> None:
        """Whatever a new set needs once all has been sent, before it is counted and served."""
        del name

    def close(self) -> None:
        """Let go of whatever is held."""
        return

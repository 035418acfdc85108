"""Stores that a plug-in brings, behind the face that a delivery knows: documents in, generations kept."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import entry_points
from itertools import islice
from typing import Any
from uuid import UUID, uuid4

from vitrina.domain.errors import ConfigError
from vitrina.domain.policy import split_prefix
from vitrina.meta.repos.indexes import Generation
from vitrina.sinks.elasticsearch.bulk import Shipment, split
from vitrina.sinks.elasticsearch.client import Intruder
from vitrina.sql.describe import Column
from vitrina.stores import Document, Field, Store, Superseded

WRITERS = "vitrina.writers"
PAGE = 1_000


def resolve_store(target: str) -> Store:
    """From the plug-in that has registered the target's prefix."""
    prefix, name = split_prefix(target)
    points = {point.name: point for point in entry_points(group=WRITERS)}
    if prefix not in points:
        known = ", ".join(f"{name}:" for name in sorted(points)) or "none"
        raise ConfigError(
            f"no writer is registered for {prefix}: (known besides tables and es: {known})",
            f"install the package that has it as an entry point of group {WRITERS}, here and where runners run",
        )
    store: Store = points[prefix].load()(name)
    return store


@dataclass(frozen=True)
class StoreKeeper:
    """Generations as sets of the store, marked with whose they are."""

    store: Store
    pipeline_id: UUID
    target: str
    epoch: int
    fields: tuple[Column, ...]

    def name(self, number: int) -> str:
        """Of a generation's set."""
        return f"{split_prefix(self.target)[1]}-{number:06d}"

    def behind_target(self) -> Mapping[str, Any]:
        """The set that is served, with its mark."""
        served = self.store.served()
        return {served: self.store.sets().get(served, "")} if served else {}

    def is_ours(self, found: Any) -> bool:
        """By the mark."""
        return str(found).startswith(str(self.pipeline_id))

    def uuid_of(self, index: str) -> str | None:
        """The mark: another set of that name has another."""
        return self.store.sets().get(index)

    def create(self, generation: Generation, body: dict[str, Any]) -> str | None:
        """Anew, unless somebody else has a set of that name."""
        del body  # mapping and settings, of an index
        found = self.uuid_of(generation.index)
        if found is not None and not self.is_ours(found):
            return None
        mark = f"{self.pipeline_id}/{uuid4().hex}"
        fields = [Field(column.name, column.type) for column in self.fields]
        with _in_time():
            self.store.create(generation.index, mark, fields, self.epoch)
        return mark

    def take_writes(self, generation: Generation) -> None:
        """For this epoch."""
        del generation
        with _in_time():
            self.store.take(self.epoch)

    def write_out(self, index: str) -> None:
        """It is: what a store has taken is durable."""

    def make_ready(self, index: str, serving: dict[str, Any]) -> None:
        """It is."""

    def count(self, index: str) -> int:
        """As the store says."""
        return self.store.count(index)

    def serve(self, generation: Generation) -> None:
        """If we still may."""
        with _in_time():
            self.store.serve(generation.index, self.epoch)

    def remove(self, generation: Generation) -> None:
        """Unless somebody has put another one in its place."""
        if self.uuid_of(generation.index) == generation.uuid:
            self.store.drop(generation.index)


class StoreOutlet:
    """One run's way to a store."""

    threads = 1

    def __init__(self, pipeline_id: UUID, target: str, epoch: int, fields: tuple[Column, ...]) -> None:
        self.store = resolve_store(target)
        self.keeper = StoreKeeper(self.store, pipeline_id, target, epoch, fields)

    def sender(
        self, generation: Generation, newest: Callable[[], int], check: Callable[[], None]
    ) -> Callable[[Shipment], None]:
        """Under this epoch; an error is the run's, whose retry sends again what is in doubt."""
        del newest, check

        def send(shipment: Shipment) -> None:
            documents = [_document(item) for item in split(shipment.body)]
            with _in_time():
                self.store.write(generation.index, documents, self.keeper.epoch)

        return send

    def scan(self, index: str) -> Iterator[bytes]:
        """A thousand at a time."""
        documents = self._read(index)
        while page := [*islice(documents, PAGE)]:
            yield b'{"hits":{"hits":[' + b",".join(map(_hit, page)) + b"]}}"

    def sources(self, index: str, ids: list[str]) -> bytes:
        """Found by reading on; for the few samples of a report."""
        found = [document for document in self._read(index) if document.id in ids]
        return b'{"docs":[' + b",".join(map(_hit, found)) + b"]}"

    def close(self) -> None:
        """The store."""
        self.store.close()

    def _read(self, index: str) -> Iterator[Document]:
        name = self.store.served() if index == self.keeper.target else index
        return self.store.read(name) if name else iter(())


@contextmanager
def _in_time() -> Iterator[None]:
    """Too late means that somebody else is at work, our successor perhaps: the delivery looks at the lease."""
    try:
        yield
    except Superseded as error:
        raise Intruder(error.message) from error


def _document(item: bytes) -> Document:
    """An item of a bulk body: an action, and below it the document unless it is a delete."""
    action, _, text = item.decode().partition("\n")
    ((kind, meta),) = json.loads(action).items()
    return Document(meta["_id"], meta["version"], None if kind == "delete" else text.removesuffix("\n"))


def _hit(document: Document) -> bytes:
    """As a search gives it, the document as the text that it is."""
    meta = json.dumps({"_id": document.id, "_version": document.version})
    return f'{meta[:-1]}, "_source": {document.text}}}'.encode()

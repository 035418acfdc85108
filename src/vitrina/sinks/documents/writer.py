"""The writer of a mart elsewhere: statements over its shadow, and an outbox of what they wrote ahead."""

from dataclasses import dataclass, field, replace
from typing import Any

from vitrina.engine.mart import Mart, Wanted
from vitrina.engine.writer import Abilities, Loader
from vitrina.meta.db import Connection
from vitrina.meta.repos.indexes import Edition
from vitrina.sinks.documents.shadow import shadow_mart
from vitrina.sinks.documents.shape import Shape
from vitrina.sinks.documents.statements import ShadowSql
from vitrina.sql.describe import Column
from vitrina.stores import Batch

BATCH_BYTES = 8_000_000  # of a request; a few of them are in memory at a time
FRAME_BYTES = 100  # around each document
WIDER = 1.3  # a row as JSON, with the names of its fields


@dataclass
class Outbox:
    """What is written ahead under one version, until it is sent; and how large documents are, as far as one knows."""

    version: int = 0
    lines: list[bytes] = field(default_factory=list)
    count: int = 0
    bytes_per_document: float = 0.0

    def begin(self, version: int) -> None:
        """What comes next is of this version."""
        self.version = version

    def expect(self, width: float) -> None:
        """How wide a row is, by the planner's estimate; what is written shows better."""
        self.bytes_per_document = width * WIDER + FRAME_BYTES

    def measure(self, width: float) -> None:
        """How wide documents were that are written."""
        self.bytes_per_document = width + FRAME_BYTES

    def keep(self, lines: bytes, count: int) -> None:
        """To be sent once it is committed."""
        self.lines.append(lines)
        self.count += count

    def take(self) -> Batch | None:
        """What is to be sent now, if anything."""
        if not self.count:
            return None
        batch = Batch(self.version, b"".join(self.lines), self.count)
        self.lines, self.count = [], 0
        return batch


@dataclass(frozen=True)
class ShadowWriter:
    """One run's writer, into an edition once there is one. `built`: the query gives documents, and not rows."""

    abilities: Abilities
    shape: Shape
    built: bool
    edition: Edition | None = None
    outbox: Outbox = field(default_factory=Outbox, compare=False)

    @property
    def loader(self) -> Loader | None:
        """None: what a statement gives is what is sent."""
        return None

    def into(self, edition: Edition) -> "ShadowWriter":
        """The same, of this edition."""
        return replace(self, edition=edition)

    @property
    def fields(self) -> tuple[Column, ...]:
        """Of a document."""
        return self.shape.columns

    @property
    def key_columns(self) -> list[Column]:
        """With their types."""
        by_name = {c.name: c for c in self.shape.columns}
        return [by_name[name] for name in self.shape.key]

    @property
    def most_rows(self) -> int:
        """As many as make a request of a good size, as far as one knows."""
        return max(1, int(BATCH_BYTES / max(self.outbox.bytes_per_document, FRAME_BYTES)))

    def read(self, select: str, columns: tuple[Column, ...]) -> tuple[str, tuple[Column, ...]]:
        """Documents, built where the data is, with their keys; through transforms, the rows they are built from."""
        return (self.shape.select(select), self.shape.read_columns) if self.built else (select, columns)

    def prepare(self, conn: Connection, wanted: Wanted) -> tuple[Mart, list[str]]:
        """The shadow of its edition; who opened that has made it."""
        del wanted
        assert self.edition is not None
        return shadow_mart(conn, self.edition, self.key_columns), []

    def statements(self, mart: Mart) -> ShadowSql:
        """Over the shadow."""
        return ShadowSql(mart, self.shape, self.built, lambda: self.outbox.version)

    def wrote(self, row: dict[str, Any]) -> None:
        """Keep what a statement wrote ahead."""
        documents, deletes = row.pop("lines", None), row.pop("deletes", None)
        if documents:
            self.outbox.keep(documents, row["written"])
            self.outbox.measure(len(documents) / row["written"])
        if deletes:
            self.outbox.keep(deletes, row["deleted"])

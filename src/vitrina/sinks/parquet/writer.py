"""The writer of a mart of rows: statements over its shadow, and what they wrote, until it is in files."""

from dataclasses import dataclass, field, replace
from typing import Any

from vitrina.engine.mart import Mart
from vitrina.engine.writer import Loader
from vitrina.meta.repos.indexes import Edition
from vitrina.sinks.documents.writer import ShadowWriter
from vitrina.sinks.parquet.shape import RowShape
from vitrina.sinks.parquet.statements import RowSql

BATCH_BYTES = 16_000_000  # of rows as text, which are in memory with what becomes of them
VERSION = 1  # of every row in the shadow: nothing is ever on its way


@dataclass
class Changes:
    """What one step has written: lines of rows, and files that are there already."""

    files: list[Any] = field(default_factory=list)  # of rows whose keys were not there
    fresh: list[bytes] = field(default_factory=list)  # rows whose keys were not there
    written: list[bytes] = field(default_factory=list)  # rows in the place of others, perhaps
    deleted: list[bytes] = field(default_factory=list)  # keys

    def __bool__(self) -> bool:
        return bool(self.files or self.fresh or self.written or self.deleted)

    def clear(self) -> None:
        """The step has come to nothing, or to an end."""
        self.files, self.fresh, self.written, self.deleted = [], [], [], []


@dataclass(frozen=True)
class RowWriter(ShadowWriter):
    """One run's writer, into an edition once there is one."""

    shape: RowShape
    changes: Changes = field(default_factory=Changes, compare=False)
    loader: Loader | None = field(default=None, compare=False)  # once there is a table to write to

    def into(self, edition: Edition) -> "RowWriter":
        """The same, of this edition."""
        return replace(self, edition=edition)

    @property
    def most_rows(self) -> int:
        """As many as fit into memory, as far as one knows."""
        return max(1, int(BATCH_BYTES / max(self.outbox.bytes_per_document, 1)))

    def statements(self, mart: Mart) -> RowSql:
        """Over the shadow."""
        return RowSql(mart, self.shape, self.built, lambda: VERSION)

    def wrote(self, row: dict[str, Any]) -> None:
        """Keep what a statement wrote. One that looked first may have found other rows under those keys."""
        lines, deletes = row.pop("lines", None), row.pop("deletes", None)
        if lines:
            (self.changes.written if "read" in row else self.changes.fresh).append(lines)
            self.outbox.bytes_per_document = len(lines) / row["written"]
        if deletes:
            self.changes.deleted.append(deletes)

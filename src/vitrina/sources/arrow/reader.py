"""A source that gives batches of Arrow: what its kinds share is how those come to Postgres."""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from vitrina.sources.source import Source
from vitrina.sql.describe import Column
from vitrina.transforms.frames import Batch

ROWS = 8_192  # of a batch, where it can be chosen


@dataclass(frozen=True)
class Shaped:
    """A SELECT around somebody's, whose columns come in forms that Arrow and Postgres both have."""

    query: str
    columns: Sequence[Column]


@dataclass(frozen=True)
class ArrowSource(Source):
    """One that knows no SQL of Postgres."""

    @abstractmethod
    def shape(self, select: str) -> Shaped:
        """What is read for a SELECT; a ConfigError for a column that Postgres cannot have."""

    @abstractmethod
    def batches(self, query: str, size: int) -> Iterator[Any]:
        """The record batches of a query of its own SQL, as they come; about `size` rows each, where it can be told."""

    def describe(self, select: str) -> list[Column]:
        return list(self.shape(select).columns)

    def blocks(self, select: str) -> Iterator[bytes]:
        from vitrina.sources.arrow.encoding import blocks

        shaped = self.shape(select)
        return blocks(self.batches(shaped.query, ROWS), shaped.columns)

    def rows(self, select: str, size: int) -> Iterator[Batch]:
        from vitrina.sources.arrow.values import text_batches

        shaped = self.shape(select)
        return text_batches(self.batches(shaped.query, min(size, ROWS)), shaped.columns, size)

"""Spark as an engine: it compares a query with a mart in the lake, and writes what differs, file by file, itself."""

from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

from vitrina.domain.errors import ConfigError
from vitrina.sources.engine import Differs, Kept, Tally
from vitrina.sources.spark.merging import Merging, quoted
from vitrina.sources.spark.working import Working, reported

WORK = "vitrina_work"  # the catalogue where marts are written before they count
Reading: TypeAlias = Callable[[Any, str, Sequence[str]], AbstractContextManager[str]]
"""What a session reads for a SELECT with a key, and for how long."""


@dataclass
class SparkEngine:
    """Over the catalogue `vitrina_work` of its session."""

    working: Working
    reading: Reading

    def divide(self, mart: Kept, parts: int) -> None:
        """By the key."""
        merging = self._merging(mart)
        if merging.divider is not None:
            self.working.run(merging.divide(parts), "dividing the mart")

    def find(self, select: str, mart: Kept) -> Sequence[Tally]:
        """One comparison; what it found is a table, of which only how much is told."""
        merging = self._merging(mart)
        with reported(self.working.source, "reading"), self.reading(self.working.session, select, mart.key) as query:
            self.working.run(merging.find(query), "comparing")
        rows = self.working.run(merging.tally(), "counting what differs")
        return [Tally(row["part"], Differs(row["how"]), row["keys"]) for row in rows]

    def named(self, mart: Kept, how: Differs, limit: int) -> list[dict[str, str]]:
        """Keys."""
        return self.working.run(self._merging(mart).named(how, limit), "naming keys")

    def converge(self, mart: Kept, part: int, ways: Collection[Differs]) -> None:
        """A commit of Spark's, on top of the last; nobody's pointer but that of the work moves."""
        for statement in self._merging(mart).converge(part, ways):
            self.working.run(statement, f"writing part {part + 1} of {mart.parts}")

    def close(self) -> None:
        """Its session, too."""
        self.working.close()

    def _merging(self, mart: Kept) -> Merging:
        return Merging(WORK, mart, self._types(mart))

    def _types(self, mart: Kept) -> dict[str, str]:
        if mart.table not in self._known:
            rows = self.working.run(f"DESCRIBE TABLE {quoted(WORK, *mart.table.split('.', 1))}", "looking at the mart")
            types = {row["col_name"]: row["data_type"] for row in rows}
            if missing := [name for name in mart.columns if name not in types]:
                raise ConfigError(f"the engine sees no column {missing[0]} in the mart", "run --rebuild")
            self._known[mart.table] = types
        return self._known[mart.table]

    @cached_property
    def _known(self) -> dict[str, dict[str, str]]:
        return {}

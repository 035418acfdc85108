"""What a reader finds at its source: who it is there, which schemas and tables it may read, what else is in the way."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from vitrina.domain.findings import Code, Finding
from vitrina.domain.wording import NESTED, Because, Data

MODES = ("full", "incremental", "live by wal", "live by trigger")


@dataclass(frozen=True)
class Schema:
    """One that queries may read, as far as settings go."""

    name: str
    exists: bool
    usable: bool
    tables: int
    closed: int  # of the tables, those that the reader may not read

    @property
    def is_readable(self) -> bool:
        """At least some of it."""
        return self.usable and self.tables > self.closed


@dataclass(frozen=True)
class Sight:
    """What there is to say about a source without running a query of anybody's."""

    role: str | None = None
    schemas: Sequence[Schema] = ()
    obstacles: Mapping[str, Sequence[Finding]] = field(default_factory=dict)  # by mode; one without any can be run

    def may(self, mode: str) -> bool:
        """Whether pipelines of a mode can be run over it."""
        return not self.obstacles.get(mode)


@dataclass(frozen=True)
class Seen:
    """The tables of the allowed schemas, with their columns."""

    tables: Sequence[Mapping[str, Any]] = ()
    more: bool = False  # than are listed


def obstacle(mode: str, code: Code, **data: Any) -> Finding:
    """Why a mode cannot be had."""
    return Finding("warning", mode, code, data)


def lacking(mode: str, meaning: Because) -> Finding:
    """For a kind that cannot do what a mode needs."""
    told: Data = {NESTED: meaning}
    return Finding("warning", mode, Code.KIND_CANNOT, told)

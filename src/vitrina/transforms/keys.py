"""The keys of a batch, for the promise that a transform keeps them: none is made up, and none comes twice."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from typing import Any, Protocol, Self
from uuid import UUID

EXACT = frozenset({str, int, UUID, date, bytes})  # equal only if they are the same; of others, how they are written


class Keys(Protocol):
    """Of each row its key."""

    def repeated(self) -> int | None:
        """Where some key comes for the second time."""
        ...

    def made_up(self, before: Self) -> int | None:
        """Where the first key is that was not there before."""
        ...


@dataclass(frozen=True)
class ExactKeys:
    """Of Python's values, each as something that is equal only to itself: 1, 1.0 and True are three."""

    values: list[object]

    @classmethod
    def of(cls, columns: Sequence[list[Any]]) -> "ExactKeys":
        """A copy: a function may change what it gets."""
        exact = [_all_exact(column) for column in columns]
        return cls(list(exact[0]) if len(exact) == 1 else list(zip(*exact, strict=True)))

    @cached_property
    def _known(self) -> frozenset[object]:
        return frozenset(self.values)

    def repeated(self) -> int | None:
        return repeated(self.values) if len(self._known) < len(self.values) else None

    def made_up(self, before: Self) -> int | None:
        if self._known <= before._known:
            return None
        return next(n for n, key in enumerate(self.values) if key not in before._known)


def repeated(keys: Sequence[object]) -> int:
    """Where some key comes for the second time."""
    first = {key: n for n, key in reversed(list(enumerate(keys)))}
    return next(n for n, key in enumerate(keys) if first[key] != n)


def _all_exact(values: list[object]) -> list[object]:
    return values if EXACT.issuperset(map(type, values)) else [_exact(value) for value in values]


def _exact(value: object) -> object:
    return value if type(value) in EXACT else (type(value), repr(value))

"""Python transforms: registered by name in code, never taken from the database or the API.

    @vitrina.transform("add_decade", adds={"decade": "integer"})
    def add_decade(rows):
        for row in rows:
            yield row | {"decade": row["year"] // 10 * 10}

Rows go in as dicts, a batch at a time, and rows come out: changed or left out, with their key columns as they were.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from vitrina.domain.errors import ConfigError

Row: TypeAlias = dict[str, Any]
Function: TypeAlias = Callable[[Sequence[Row]], Iterable[Row]]


@dataclass(frozen=True)
class Transform:
    """A registered function and what it does to the columns."""

    name: str
    function: Function
    adds: Mapping[str, str] = field(default_factory=dict)  # column -> Postgres type
    drops: frozenset[str] = frozenset()


REGISTRY: dict[str, Transform] = {}


def transform(
    name: str, *, adds: Mapping[str, str] | None = None, drops: Iterable[str] = ()
) -> Callable[[Function], Function]:
    """Register a function as the transform `name`, with the columns it adds (and their types) or drops."""

    def register(function: Function) -> Function:
        known = REGISTRY.get(name)
        if known and known.function.__qualname__ != function.__qualname__:
            raise ConfigError(f"two transforms are called {name!r}: {known.function} and {function}")
        REGISTRY[name] = Transform(name, function, dict(adds or {}), frozenset(drops))
        return function

    return register

"""Python transforms: registered by name in code, never taken from the database or the API.

    @vitrina.transform("add_decade", adds={"decade": "integer"})
    def add_decade(rows):
        for row in rows:
            yield row | {"decade": row["year"] // 10 * 10}

Rows go in as dicts, a batch at a time, and rows come out: changed or left out, with their key columns as they were.
With `batch="columns"` the function takes and gives a dict of lists, with `batch="arrow"` an Arrow table.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, TypeVar, get_args

from vitrina.domain.errors import ConfigError
from vitrina.domain.refusals import Refusal

Row: TypeAlias = dict[str, Any]
FormName: TypeAlias = Literal["rows", "columns", "arrow"]
Function = TypeVar("Function", bound=Callable[[Any], Any])
FORMS: tuple[FormName, ...] = get_args(FormName)


@dataclass(frozen=True)
class Transform:
    """A registered function, what it does to the columns, and in which form it takes and gives a batch."""

    name: str
    function: Callable[[Any], Any]
    adds: Mapping[str, str] = field(default_factory=dict)  # column -> Postgres type
    drops: frozenset[str] = frozenset()
    batch: FormName = "rows"


REGISTRY: dict[str, Transform] = {}


def transform(
    name: str, *, adds: Mapping[str, str] | None = None, drops: Iterable[str] = (), batch: FormName = "rows"
) -> Callable[[Function], Function]:
    """Register a function as the transform `name`, with the columns it adds (and their types) or drops."""
    if batch not in FORMS:
        raise ConfigError.of(Refusal.NO_BATCH_FORM, name=name, batch=batch, forms=[repr(form) for form in FORMS])

    def register(function: Function) -> Function:
        known = REGISTRY.get(name)
        if known and known.function.__qualname__ != function.__qualname__:
            raise ConfigError.of(Refusal.TRANSFORM_TWICE, name=name, one=str(known.function), other=str(function))
        REGISTRY[name] = Transform(name, function, dict(adds or {}), frozenset(drops), batch)
        return function

    return register

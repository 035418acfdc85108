"""Resolving transforms and applying them to batches, with their contract checked row by row."""

import importlib
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date
from itertools import repeat
from operator import eq
from uuid import UUID

from vitrina.domain.errors import ConfigError
from vitrina.plug_ins import brought
from vitrina.sql.describe import Column
from vitrina.transforms import REGISTRY, Row, Transform
from vitrina.transforms.lines import line_of

ENTRY_POINTS = "vitrina.transforms"
EXACT = frozenset({str, int, UUID, date, bytes})  # equal only if they are the same; of others, how they are written


def load_transforms(modules: Sequence[str]) -> None:
    """Import the modules that register transforms: those of the settings and of entry points."""
    if modules:
        reach_working_folder()
    for module in modules:
        try:
            importlib.import_module(module)
        except ModuleNotFoundError as error:
            remedy = f"install it, put it into {os.getcwd()}, or correct VITRINA_TRANSFORM_MODULES"
            raise ConfigError(f"VITRINA_TRANSFORM_MODULES names {module!r}: {error}", remedy) from error
        except Exception as error:
            said = f"VITRINA_TRANSFORM_MODULES names {module!r}, which raises {type(error).__name__}: {error}"
            raise ConfigError(said + line_of(error), "correct the module") from error
    for point in brought(ENTRY_POINTS):
        point.load()


def reach_working_folder() -> None:
    """A module of somebody's own is beside their pipelines; what is installed comes first."""
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())


def resolve_transformer(names: Sequence[str], columns: Sequence[Column], key: Sequence[str]) -> "Transformer":
    """The chain of transforms over these columns, or a ConfigError that names the one that does not fit."""
    chain, source = [], tuple(columns)
    for name in names:
        if name not in REGISTRY:
            known = ", ".join(sorted(REGISTRY)) or "none"
            raise ConfigError(
                f"there is no transform {name!r} (registered: {known})",
                "register it with @vitrina.transform and name its module in VITRINA_TRANSFORM_MODULES",
            )
        step = REGISTRY[name]
        _check_columns(step, columns, key)
        columns = [c for c in columns if c.name not in step.drops]
        columns += [Column(column, type_, builtin=False) for column, type_ in step.adds.items()]
        chain.append((step, frozenset(c.name for c in columns)))
    return Transformer(tuple(chain), tuple(columns), tuple(key), source)


def _check_columns(step: Transform, columns: Sequence[Column], key: Sequence[str]) -> None:
    names = {c.name for c in columns}
    if step.drops & set(key):
        raise ConfigError(f"transform {step.name!r} drops key column {', '.join(sorted(step.drops & set(key)))}")
    if step.drops - names:
        raise ConfigError(f"transform {step.name!r} drops {', '.join(sorted(step.drops - names))}, which is not there")
    if names & set(step.adds):
        raise ConfigError(f"transform {step.name!r} adds {', '.join(sorted(names & set(step.adds)))}, which is there")


@dataclass(frozen=True)
class Transformer:
    """Applies the chain; `columns` is what comes out of it."""

    chain: tuple[tuple[Transform, frozenset[str]], ...]
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    source: tuple[Column, ...]  # what goes into it

    def with_key(self, key: tuple[str, ...], columns: Sequence[Column]) -> "Transformer":
        """With the mart's key, which must come from the query: a transform keeps keys and makes up none."""
        missing = [name for name in key if name not in {c.name for c in columns}]
        if missing:
            raise ConfigError(f"key column {', '.join(missing)} is not in the query", "a transform cannot add it")
        return replace(self, key=key)

    def apply(self, rows: list[Row]) -> list[Row]:
        """A batch through every transform; a ConfigError names transform and row, and nothing is written."""
        keys = self._keys(rows)
        before = set(keys)
        if len(before) < len(keys):
            name = self._name(rows[_repeated(keys)])
            raise ConfigError(f"the query gives a key twice: {name}", "make the key unique in the query")
        for step, names in self.chain:
            rows = self._run(step, rows)
            before = self._check(step, names, before, rows)
        return rows

    def _run(self, step: Transform, rows: list[Row]) -> list[Row]:
        try:
            return list(step.function(rows))
        except MemoryError:
            raise
        except Exception as error:
            where = self._find_culprit(step, rows) + line_of(error, step.function)
            raise ConfigError(f"transform {step.name!r} raised {type(error).__name__}: {error}{where}") from error

    def _find_culprit(self, step: Transform, rows: list[Row]) -> str:
        """Which row it fails on, found by trying them one at a time."""
        for row in rows:
            try:
                list(step.function([dict(row)]))
            except Exception:
                return f", at the row with {self._name(row)}"
        return ""

    def _check(self, step: Transform, names: frozenset[str], before: set[object], rows: list[Row]) -> set[object]:
        """The keys that are left. Every row is looked at, so this is what a transform costs beside itself."""
        if others := [row for row in rows if not isinstance(row, dict)]:
            kind = type(others[0]).__name__
            raise ConfigError(f"transform {step.name!r} returned {kind} instead of a dict: {others[0]!r:.80}")
        if not all(map(eq, map(dict.keys, rows), repeat(names))):
            row = next(row for row in rows if row.keys() != names)
            raise ConfigError(f"transform {step.name!r} returned the wrong columns: {_difference(names, row)}")
        keys = self._keys(rows)
        after = set(keys)
        if not after <= before:
            made_up = next(row for row, key in zip(rows, keys, strict=True) if key not in before)
            raise ConfigError(f"transform {step.name!r} made up a key: {self._name(made_up)} was not in the batch")
        if len(after) < len(keys):
            raise ConfigError(f"transform {step.name!r} returned {self._name(rows[_repeated(keys)])} twice")
        return after

    def _keys(self, rows: list[Row]) -> list[object]:
        """Of each row its key, as something that is equal only to itself: 1, 1.0 and True are three."""
        columns = [_all_exact([row[name] for row in rows]) for name in self.key]
        return columns[0] if len(columns) == 1 else list(zip(*columns, strict=True))

    def _name(self, row: Row) -> str:
        return ", ".join(f"{name} = {row.get(name)}" for name in self.key)


def _difference(names: frozenset[str], row: Row) -> str:
    missing, extra = sorted(names - row.keys()), sorted(row.keys() - names)
    said = [f"without {', '.join(missing)}"] if missing else []
    said += [f"with {', '.join(extra)}, which it does not declare in adds"] if extra else []
    return " and ".join(said)


def _all_exact(values: list[object]) -> list[object]:
    return values if EXACT.issuperset(map(type, values)) else [_exact(value) for value in values]


def _exact(value: object) -> object:
    return value if type(value) in EXACT else repr(value)


def _repeated(keys: Sequence[object]) -> int:
    """Where some key comes for the second time."""
    first = {key: n for n, key in reversed(list(enumerate(keys)))}
    return next(n for n, key in enumerate(keys) if first[key] != n)

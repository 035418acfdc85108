"""Resolving transforms and applying them to batches, with their contract checked row by row."""

import importlib
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from vitrina.domain.errors import ConfigError
from vitrina.domain.refusals import Refusal
from vitrina.plug_ins import brought
from vitrina.sql.describe import Column
from vitrina.transforms import REGISTRY, Row, Transform
from vitrina.transforms.forms import AsRows, Form, changed, received
from vitrina.transforms.frames import Batch, Values
from vitrina.transforms.keys import Keys
from vitrina.transforms.lines import line_of

ENTRY_POINTS = "vitrina.transforms"


def load_transforms(modules: Sequence[str]) -> None:
    """Import the modules that register transforms: those of the settings and of entry points."""
    if modules:
        reach_working_folder()
    for module in modules:
        try:
            importlib.import_module(module)
        except ModuleNotFoundError as error:
            raise ConfigError.of(
                Refusal.MODULE_NOT_THERE, module=module, error=str(error), folder=os.getcwd()
            ) from error
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
            raise ConfigError.of(Refusal.NO_TRANSFORM, name=name, known=known)
        step = REGISTRY[name]
        _check_columns(step, columns, key)
        columns = [c for c in columns if c.name not in step.drops]
        columns += [Column(column, type_, builtin=False) for column, type_ in step.adds.items()]
        chain.append((step, tuple(columns)))
    return Transformer(tuple(chain), tuple(columns), tuple(key), source)


def _check_columns(step: Transform, columns: Sequence[Column], key: Sequence[str]) -> None:
    names = {c.name for c in columns}
    if step.drops & set(key):
        raise ConfigError.of(Refusal.DROPS_KEY, name=step.name, columns=sorted(step.drops & set(key)))
    if step.drops - names:
        raise ConfigError.of(Refusal.DROPS_NOTHING, name=step.name, columns=sorted(step.drops - names))
    if names & set(step.adds):
        raise ConfigError.of(Refusal.ADDS_WHAT_IS_THERE, name=step.name, columns=sorted(names & set(step.adds)))


@dataclass(frozen=True)
class Transformer:
    """Applies the chain; `columns` is what comes out of it."""

    chain: tuple[tuple[Transform, tuple[Column, ...]], ...]  # each with the columns after it
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    source: tuple[Column, ...]  # what goes into it

    def with_key(self, key: tuple[str, ...], columns: Sequence[Column]) -> "Transformer":
        """With the mart's key, which must come from the query: a transform keeps keys and makes up none."""
        missing = [name for name in key if name not in {c.name for c in columns}]
        if missing:
            raise ConfigError.of(Refusal.KEY_NOT_GIVEN, columns=missing)
        return replace(self, key=key)

    def apply(self, rows: list[Row]) -> list[Row]:
        """A batch of rows, as rows again."""
        return self._through(AsRows(self.source, rows)).rows()

    def put_through(self, batch: Batch | Values) -> Form:
        """A batch as it was sent, in whatever form the last transform gives."""
        return self._through(received(batch, self.source, self.chain[0][0].batch if self.chain else "rows"))

    def _through(self, held: Form) -> Form:
        """Through every transform; a ConfigError names transform and row, and nothing is written."""
        keys = held.keys(self.key)
        if (again := keys.repeated()) is not None:
            name = self._name(held, again)
            raise ConfigError(f"the query gives a key twice: {name}", "make the key unique in the query")
        for step, columns in self.chain:
            if held.form != step.batch:
                held = changed(held, step.batch)
                keys = held.keys(self.key)
            held = self._run(step, held, columns)
            keys = self._check(step, keys, held)
        return held

    def _run(self, step: Transform, held: Form, columns: tuple[Column, ...]) -> Form:
        result = self._call(step, held)
        try:
            return held.taken(result, columns)
        except ConfigError as error:
            raise ConfigError(f"transform {step.name!r} {error.message}", error.remedy) from error.__cause__

    def _call(self, step: Transform, held: Form) -> Any:
        try:
            return _called(step, held, 0, len(held))
        except MemoryError:
            raise
        except Exception as error:
            where = self._find_culprit(step, held) + line_of(error, step.function)
            raise ConfigError(f"transform {step.name!r} raised {type(error).__name__}: {error}{where}") from error

    def _find_culprit(self, step: Transform, held: Form) -> str:
        """Which row it fails on, found by halves."""
        start, end = 0, len(held)
        while end - start > 1:
            middle = (start + end) // 2
            start, end = (start, middle) if _fails(step, held, start, middle) else (middle, end)
        return f", at the row with {self._name(held, start)}" if _fails(step, held, start, end) else ""

    def _check(self, step: Transform, before: Keys, held: Form) -> Keys:
        """The keys that are left."""
        keys = held.keys(self.key)
        if keys == before:  # row by row, as nearly always
            return before
        if (made_up := keys.made_up(before)) is not None:
            name = self._name(held, made_up)
            raise ConfigError(f"transform {step.name!r} made up a key: {name} was not in the batch")
        if (again := keys.repeated()) is not None:
            raise ConfigError(f"transform {step.name!r} returned {self._name(held, again)} twice")
        return keys

    def _name(self, held: Form, number: int) -> str:
        row = held.row(number)
        return ", ".join(f"{name} = {row.get(name)}" for name in self.key)


def _called(step: Transform, held: Form, start: int, end: int) -> Any:
    """What a function makes of some of the rows; one that gives rows may give one after the other."""
    result = step.function(held.part(start, end))
    return list(result) if step.batch == "rows" else result


def _fails(step: Transform, held: Form, start: int, end: int) -> bool:
    try:
        _called(step, held, start, end)
    except Exception:
        return True
    return False

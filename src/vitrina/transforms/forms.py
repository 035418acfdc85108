"""The forms in which functions take and give a batch: rows, columns, or (in `arrow.py`) an Arrow table.

Between Python's values and Arrow a batch goes as the text of COPY, which every value survives.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from operator import eq, itemgetter
from typing import Any, ClassVar, Protocol, Self

from vitrina.domain.errors import ConfigError
from vitrina.sql.describe import Column
from vitrina.transforms import FormName, Row
from vitrina.transforms.frames import Batch, Values
from vitrina.transforms.keys import ExactKeys, Keys
from vitrina.transforms.rows import format_values, load_rows, load_values

NO_ARROW = "a transform takes Arrow tables, and pyarrow is not installed"


class Form(Protocol):
    """A batch of rows, of these columns."""

    form: ClassVar[FormName]
    columns: tuple[Column, ...]

    def __len__(self) -> int:
        """How many rows."""
        ...

    def part(self, start: int, end: int) -> Any:
        """Some of the rows, as a function gets them: its own, to change as it likes."""
        ...

    def taken(self, result: Any, columns: tuple[Column, ...]) -> Self:
        """What a function gave back; a ConfigError, beginning with a verb, if it is no batch of these columns."""
        ...

    def keys(self, names: Sequence[str]) -> Keys:
        """The keys as they are now."""
        ...

    def row(self, number: int) -> Row:
        """One of them."""
        ...

    def rows(self) -> list[Row]:
        """As dicts."""
        ...

    def text(self) -> bytes | bytearray:
        """As COPY takes them."""
        ...


@dataclass
class AsRows:
    """A dict for each row."""

    form: ClassVar[FormName] = "rows"
    columns: tuple[Column, ...]
    held: list[Row]

    @classmethod
    def of(cls, batch: Batch | Values, columns: tuple[Column, ...]) -> "AsRows":
        """As they were sent."""
        return cls(columns, load_rows(batch))

    def __len__(self) -> int:
        return len(self.held)

    def part(self, start: int, end: int) -> list[Row]:
        return self.held if end - start == len(self.held) else [dict(row) for row in self.held[start:end]]

    def taken(self, result: Any, columns: tuple[Column, ...]) -> "AsRows":
        """Every row is looked at, so this is what a transform costs beside itself."""
        rows, names = result, frozenset(c.name for c in columns)
        if others := [row for row in rows if not isinstance(row, dict)]:
            raise ConfigError(f"returned {type(others[0]).__name__} instead of a dict: {others[0]!r:.80}")
        if not all(map(eq, map(dict.keys, rows), repeat(names))):
            check_names(names, next(row for row in rows if row.keys() != names))
        return AsRows(columns, rows)

    def keys(self, names: Sequence[str]) -> ExactKeys:
        return ExactKeys.of([[row[name] for row in self.held] for name in names])

    def row(self, number: int) -> Row:
        return self.held[number]

    def rows(self) -> list[Row]:
        return self.held

    def text(self) -> bytearray:
        return format_values(map(self._values_of(), self.held), self.columns)

    def _values_of(self) -> Callable[[Row], tuple[Any, ...]]:
        names = [c.name for c in self.columns]
        return itemgetter(*names) if len(names) > 1 else lambda row: (row[names[0]],)


@dataclass
class AsColumns:
    """A list for each column."""

    form: ClassVar[FormName] = "columns"
    columns: tuple[Column, ...]
    held: dict[str, list[Any]] = field(default_factory=dict)

    @classmethod
    def of(cls, batch: Batch | Values, columns: tuple[Column, ...]) -> "AsColumns":
        """As they were sent."""
        return cls.turned(batch.names, load_values(batch), columns)

    @classmethod
    def turned(cls, names: Sequence[str], rows: Sequence[Sequence[Any]], columns: tuple[Column, ...]) -> "AsColumns":
        """Rows, the other way round."""
        lists = map(list, zip(*rows, strict=True)) if rows else ([] for _ in names)
        return cls(columns, dict(zip(names, lists, strict=True)))

    def __len__(self) -> int:
        return len(self.held[self.columns[0].name])

    def part(self, start: int, end: int) -> dict[str, list[Any]]:
        return {name: values[start:end] for name, values in self.held.items()}

    def taken(self, result: Any, columns: tuple[Column, ...]) -> "AsColumns":
        if not isinstance(result, Mapping):
            raise ConfigError(f"returned {type(result).__name__} instead of a dict of lists: {result!r:.80}")
        check_names(frozenset(c.name for c in columns), result)
        lists = {name: _list(name, values) for name, values in result.items()}
        sizes = {name: len(values) for name, values in lists.items()}
        if len(set(sizes.values())) > 1:
            said = ", ".join(f"{name} has {size}" for name, size in sizes.items())
            raise ConfigError(f"returned columns of different lengths: {said}")
        return AsColumns(columns, lists)

    def keys(self, names: Sequence[str]) -> ExactKeys:
        return ExactKeys.of([self.held[name] for name in names])

    def row(self, number: int) -> Row:
        return {name: values[number] for name, values in self.held.items()}

    def rows(self) -> list[Row]:
        names = [c.name for c in self.columns]
        return [dict(zip(names, row, strict=True)) for row in self._values()]

    def text(self) -> bytearray:
        return format_values(self._values(), self.columns)

    def _values(self) -> "zip[tuple[Any, ...]]":
        return zip(*(self.held[c.name] for c in self.columns), strict=True)


def _list(name: str, values: Any) -> list[Any]:
    """A list of Python's values; an array of numpy's has a way to give one."""
    listed = values.tolist() if hasattr(values, "tolist") else values
    if not isinstance(listed, Sequence) or isinstance(listed, str | bytes):
        raise ConfigError(f"returned {type(values).__name__} for column {name} instead of a list: {values!r:.80}")
    return list(listed)


def check_names(names: frozenset[str], given: Mapping[str, Any] | Sequence[str]) -> None:
    """A ConfigError if a function gave other columns than it declares."""
    got = set(given)
    missing, extra = sorted(names - got), sorted(got - names)
    said = [f"without {', '.join(missing)}"] if missing else []
    said += [f"with {', '.join(extra)}, which it does not declare in adds"] if extra else []
    if said:
        raise ConfigError(f"returned the wrong columns: {' and '.join(said)}")


def received(batch: Batch | Values, columns: tuple[Column, ...], form: FormName) -> Form:
    """A batch as it was sent, in the form that the first function takes."""
    if form == "columns":
        return AsColumns.of(batch, columns)
    if form == "rows" or isinstance(batch, Values):
        return changed(AsRows.of(batch, columns), form)
    by_name = {c.name: c for c in columns}
    return _arrow(batch.text, tuple(by_name[name] for name in batch.names))


def changed(held: Form, form: FormName) -> Form:
    """The same rows in the form that a function takes."""
    if form == held.form:
        return held
    if form == "arrow":
        return _arrow(held.text(), held.columns)
    rows = held.rows()
    if form == "rows":
        return AsRows(held.columns, rows)
    names = [c.name for c in held.columns]
    return AsColumns.turned(names, [[row[name] for name in names] for row in rows], held.columns)


def _arrow(text: bytes | bytearray, columns: tuple[Column, ...]) -> Form:
    try:
        from vitrina.transforms.arrow import AsArrow  # pyarrow comes with an extra
    except ModuleNotFoundError as error:
        raise ConfigError(NO_ARROW, "pip install 'vitrina[arrow]'") from error
    return AsArrow.parsed(text, columns)

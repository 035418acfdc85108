"""Batches of Arrow as text, for whoever looks at single values: transforms, and a preview."""

from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from itertools import islice
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
from psycopg.postgres import types

from vitrina.domain.errors import ConfigError
from vitrina.sources.arrow.forms import ENDS, SINCE_2000, fitted
from vitrina.sql.describe import Column
from vitrina.transforms.frames import Batch

Write: TypeAlias = Callable[[Any], str]


def text_batches(batches: Iterator[Any], columns: Sequence[Column], size: int) -> Iterator[Batch]:
    """About `size` rows at a time."""
    names, oids = [c.name for c in columns], [oid(c.type) for c in columns]
    for batch in batches:
        texts = [list(_texts(column, batch.column(n))) for n, column in enumerate(columns)]
        for start in range(0, batch.num_rows, size):
            yield Batch.of(names, oids, zip(*(text[start : start + size] for text in texts), strict=True))


def oid(type_: str) -> int:
    """Of a built-in type, by the name that `describe` gives."""
    found = types[type_.partition("(")[0].removesuffix("[]")]
    return found.array_oid if type_.endswith("[]") else found.oid


def _texts(column: Column, values: Any) -> Iterator[str | None]:
    return _written(column, fitted(column, values))


def _written(column: Column, plain: Any) -> Iterator[str | None]:
    if column.type.endswith("[]"):
        return _arrays(Column(column.name, column.type.removesuffix("[]")), plain)
    write = _writer(column, plain.type)
    if pa.types.is_temporal(plain.type) and not pa.types.is_duration(plain.type):
        plain = _dated(column, plain)
    return (None if value is None else write(value) for value in plain.to_pylist())


def _arrays(element: Column, lists: Any) -> Iterator[str | None]:
    elements = _written(element, lists.flatten())
    for length in lists.value_lengths().to_pylist():
        yield None if length is None else "{" + ",".join(map(_quoted, islice(elements, length))) + "}"


def _dated(column: Column, moments: Any) -> Any:
    """As text; a ConfigError for those that Arrow has none for, or writes otherwise than Postgres (years before 1)."""
    texts = moments.cast(pa.string())
    if pc.any(pc.match_substring_regex(texts, "^[<-]")).as_py():
        said = f"column {column.name} has a {column.type} before the year 1, or beyond what is written as text"
        raise ConfigError(said, "filter it out, or CAST(x AS VARCHAR)")
    return texts


def _quoted(text: str | None) -> str:
    if text is None:
        return "NULL"
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _writer(column: Column, form: Any) -> Write:
    type_ = column.type
    if pa.types.is_boolean(form):
        return lambda value: "t" if value else "f"
    if pa.types.is_integer(form) and (type_ == "date" or type_.startswith("timestamp")):
        return lambda value: _counted(value, form, column)
    if type_ in ("bytea", "uuid"):
        return lambda value: ("\\x" if type_ == "bytea" else "") + bytes(value).hex()
    if type_ == "real":
        return lambda value: str(pa.scalar(value, pa.float32()).cast(pa.string()))
    if type_ == "timestamp with time zone":
        return lambda value: str(value).removesuffix("Z") + "+00"
    if type_ == "interval":
        return lambda value: f"{value // timedelta(microseconds=1)} microseconds"
    if pa.types.is_decimal(form):
        return lambda value: format(value, "f")
    return str


def _counted(value: int, form: Any, column: Column) -> str:
    """Of a column that has infinite moments among others."""
    if abs(value) >= ENDS[form]:
        return "infinity" if value > 0 else "-infinity"
    since_1970 = pa.array([value + SINCE_2000[form]], form)
    moment = since_1970.cast(pa.date32() if column.type == "date" else pa.timestamp("us"))
    text = str(_dated(column, moment)[0])
    return text + "+00" if column.type.endswith("with time zone") else text

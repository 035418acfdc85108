"""Rows of a file by their keys: which file may hold some, and which of its rows are among them."""

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.expressions import AlwaysTrue, And, BooleanExpression, GreaterThanOrEqual, LessThanOrEqual
from pyiceberg.schema import Schema

PRUNED = ("int", "long", "string", "date")  # types of keys that the bounds of a file are asked for


def around(schema: Schema, gone: Any) -> BooleanExpression:
    """What the bounds of a file are compared with: the least and the greatest of the first column of the keys."""
    name = gone.column_names[0]
    if str(schema.find_type(name)) not in PRUNED:
        return AlwaysTrue()
    ends = pc.min_max(gone[name]).as_py()
    least, most = _literal(ends["min"]), _literal(ends["max"])
    return And(GreaterThanOrEqual(name, least), LessThanOrEqual(name, most))  # type: ignore[call-arg]


def _literal(value: Any) -> Any:
    return value if isinstance(value, int | str) else value.isoformat()


def among(rows: Any, gone: Any) -> Any:
    """Of each row, whether its key is one of those."""
    names = gone.column_names
    if len(names) == 1:
        return pc.is_in(_plain(rows[names[0]]), value_set=_plain(gone[names[0]]).combine_chunks())
    keys = pa.table({name: _plain(gone[name]) for name in names}).append_column("there", _all_true(gone.num_rows))
    numbered = pa.table({name: _plain(rows[name]) for name in names})
    numbered = numbered.append_column("n", pa.array(range(rows.num_rows), pa.int64()))
    joined = numbered.join(keys.group_by(names).aggregate([("there", "any")]), keys=names, join_type="left outer")
    return joined.sort_by("n")["there_any"].fill_null(False)


def together(first: Any, second: Any) -> Any:
    """The keys of both."""
    return pa.concat_tables([first, second])


def _all_true(size: int) -> Any:
    return pa.repeat(pa.scalar(True), size)


def _plain(column: Any) -> Any:
    """Values that can be compared: those of a uuid are bytes."""
    return column.cast(pa.binary(16)) if isinstance(column.type, pa.UuidType) else column

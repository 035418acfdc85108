"""Which files may hold some keys, by their bounds."""

from typing import Any

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

"""Is the key of a SELECT unique by its form alone? Then nothing has to be counted to know it."""

from collections.abc import Collection
from typing import Any

import postgast


def is_unique_by_grouping(select: str, key: Collection[str]) -> bool:
    """Whether the query groups by columns of the key only: one row a group, so one row a key."""
    statement = postgast.parse(select).stmts[0].stmt.select_stmt
    if not statement.group_clause or statement.larg.ByteSize() or statement.group_distinct:
        return False
    outputs = [target.res_target for target in statement.target_list]
    keyed = [output.val.column_ref for output in outputs if _name(output) in key and output.val.HasField("column_ref")]
    return all(any(_same_column(item, column) for column in keyed) for item in statement.group_clause)


def _name(output: Any) -> str:
    if output.name:
        return str(output.name)
    fields = output.val.column_ref.fields
    return str(fields[-1].string.sval) if fields else ""


def _same_column(item: Any, column: Any) -> bool:
    if not item.HasField("column_ref"):
        return False
    left, right = ([field.string.sval for field in ref.fields] for ref in (item.column_ref, column))
    return left == right and all(left)

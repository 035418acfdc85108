"""Is the key of a SELECT unique by its form alone? Then nothing has to be counted to know it."""

from collections.abc import Collection
from typing import Any

from vitrina.sql import grammar

# Functions that give one value a call. Any other might give a set, and then a group comes out as several rows.
SINGLE_VALUED = frozenset(
    [
        "count",
        "sum",
        "avg",
        "min",
        "max",
        "array_agg",
        "string_agg",
        "json_agg",
        "jsonb_agg",
        "json_object_agg",
        "jsonb_object_agg",
        "bool_and",
        "bool_or",
        "every",
        "stddev",
        "variance",
        "abs",
        "round",
        "ceil",
        "floor",
        "lower",
        "upper",
        "trim",
        "btrim",
        "length",
        "left",
        "right",
        "concat",
        "concat_ws",
        "now",
        "date_trunc",
        "extract",
        "date_part",
        "to_char",
        "array_length",
        "cardinality",
        "array_remove",
        "array_to_string",
        "jsonb_build_object",
        "json_build_object",
        "to_jsonb",
        "to_json",
    ]
)


def is_unique_by_grouping(select: str, key: Collection[str]) -> bool:
    """Whether the query groups by columns of the key only: one row a group, so one row a key."""
    statement = grammar.parse(select).stmts[0].stmt.select_stmt
    if not statement.group_clause or statement.larg.ByteSize() or statement.group_distinct:
        return False
    if _may_multiply([*statement.target_list, *statement.sort_clause, *statement.distinct_clause]):
        return False
    outputs = [target.res_target for target in statement.target_list]
    keyed = [output.val.column_ref for output in outputs if _name(output) in key and output.val.HasField("column_ref")]
    return all(any(_same_column(item, column) for column in keyed) for item in statement.group_clause)


def _may_multiply(items: Collection[Any]) -> bool:
    calls = [node for item in items for _, node in grammar.walk(item) if type(node).__name__ == "FuncCall"]
    return not all(_is_aggregate(call) or _is_single_valued(call) for call in calls)


def _is_aggregate(call: Any) -> bool:
    """By its form: only aggregates and window functions take these clauses, and neither gives a set."""
    clauses = (call.agg_star, call.agg_distinct, call.agg_order, call.HasField("agg_filter"), call.HasField("over"))
    return any(clauses)


def _is_single_valued(call: Any) -> bool:
    *schema, name = (part.string.sval for part in call.funcname)
    return schema in ([], ["pg_catalog"]) and name in SINGLE_VALUED


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

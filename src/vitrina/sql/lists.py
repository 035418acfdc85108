"""Which columns of a SELECT are lists of JSON objects, by their form: made by a function that builds an array."""

from typing import Any

from vitrina.sql import grammar

BUILDERS = {"json_agg", "jsonb_agg", "json_agg_strict", "jsonb_agg_strict", "json_build_array", "jsonb_build_array"}


def builds_lists(select: str) -> frozenset[str]:
    """The names of output columns whose expression calls such a function; a column that is only passed on is none."""
    statement = grammar.parse(select).stmts[0].stmt.select_stmt
    while statement.HasField("larg"):
        statement = statement.larg
    outputs = [target.res_target for target in statement.target_list]
    return frozenset(str(output.name) for output in outputs if output.name and _calls_builder(output.val))


def _calls_builder(expression: Any) -> bool:
    nodes = [node for _, node in grammar.walk(expression)]
    calls = [node for node in nodes if type(node).__name__ == "FuncCall"]
    arrays = any(type(node).__name__ == "JsonArrayAgg" for node in nodes)
    return arrays or any(call.funcname[-1].string.sval in BUILDERS for call in calls)

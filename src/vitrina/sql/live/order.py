"""Which rows an ORDER BY leaves tied, as far as one can see: of those any may come first."""

from collections.abc import Iterator, Sequence
from typing import TypeAlias

from vitrina.sql.live.blocks import Block, Condition, Table
from vitrina.sql.live.catalog import TYPE_FIELDS, Catalog
from vitrina.sql.live.exprs import Call, Const, Expr, Ref, strip
from vitrina.sql.live.nodes import Node

JOIN, GROUP = 2, 9  # rtekind
NUMERIC = 1700
MANY_ROWS = {"AGGREF", "WINDOWFUNC", "SUBLINK", "GROUPINGFUNC"}

Column: TypeAlias = tuple[int, int]  # of a FROM: the item's number and the column's


def sorted_by(block: Block, clauses: Sequence[Node]) -> list[Expr]:
    """What some sort clauses of a block name."""
    entries = {entry.number("ressortgroupref"): entry.number("resno") for entry in block.node.items("targetList")}
    return [block.outputs[entries[clause.number("tleSortGroupRef")]] for clause in clauses]


def open_outputs(block: Block, clauses: Sequence[Node], catalog: Catalog) -> set[int]:
    """The outputs in which rows that tie in an order may differ; none when there are no such rows."""
    told = told_columns(block, clauses, catalog)
    if told is None:
        return set()
    return {
        entry.number("resno")
        for entry in block.node.items("targetList")
        if not entry.flag("resjunk")
        and not is_told(block, entry["expr"], told)
        and not _is_among(entry, clauses, catalog)
    }


def told_columns(block: Block, clauses: Sequence[Node], catalog: Catalog) -> set[Column] | None:
    """The columns of FROM that are the same in rows that tie in an order; None when no rows tie."""
    if is_unique(block, sorted_by(block, clauses)):
        return None
    exprs = named_by(block, clauses)
    return {column for expr in exprs if (column := _told_by(block.node, expr, catalog))}


def is_told(block: Block, expr: Node, told: set[Column]) -> bool:
    """Whether an expression is computed from such columns alone."""
    used = columns_of(block.node, expr)
    return used is not None and used <= told


def named_by(block: Block, clauses: Sequence[Node]) -> list[Node]:
    """The expressions that some sort clauses of a block stand for."""
    by_ref = {entry.number("ressortgroupref"): entry["expr"] for entry in block.node.items("targetList")}
    return [by_ref[clause.number("tleSortGroupRef")] for clause in clauses]


def columns_of(query: Node, node: Node) -> set[Column] | None:
    """The columns of a query's FROM that an expression is computed from; None where it takes more than one row."""
    if node.kind in MANY_ROWS:
        return None
    if node.kind == "VAR":
        return _columns_of_var(query, node)
    found: set[Column] = set()
    for child in node.children():
        below = columns_of(query, child)
        if below is None:
            return None
        found |= below
    return found


def _columns_of_var(query: Node, var: Node) -> set[Column] | None:
    if var.number("varlevelsup"):
        return set()  # the same for all rows
    number, column = var.number("varno"), var.number("varattno")
    entry = query.items("rtable")[number - 1]
    hidden = {JOIN: "joinaliasvars", GROUP: "groupexprs"}.get(entry.number("rtekind"))
    if hidden is None:
        return {(number, column)}
    return columns_of(query, entry.items(hidden)[column - 1]) if column > 0 else None


def _told_by(query: Node, expr: Node, catalog: Catalog) -> Column | None:
    """The column whose very value an ORDER BY expression tells: equal must mean the same."""
    kinds = {"VAR": "vartype", "RELABELTYPE": "resulttype", "COERCEVIAIO": "resulttype", "FUNCEXPR": "funcresulttype"}
    used = columns_of(query, expr)
    if used is None or len(used) != 1 or expr.kind not in kinds or expr.number(kinds[expr.kind]) not in catalog.exact:
        return None
    written = expr.kind == "VAR" or _is_written_number(expr)
    return next(iter(used)) if written else None


def _is_written_number(expr: Node) -> bool:
    """Whether it is a number cast to text, which tells 1.0 from 1.00."""
    args = [expr["arg"]] if expr["arg"] is not None else expr.items("args")
    return (
        len(args) == 1 and args[0].kind == "VAR" and args[0].number("vartype") == NUMERIC and expr.kind == "COERCEVIAIO"
    )


def _is_among(entry: Node, clauses: Sequence[Node], catalog: Catalog) -> bool:
    """Whether an output is itself ordered by, and equal values of it are the same."""
    ref = entry.number("ressortgroupref")
    types = [entry["expr"].number(name) for name in TYPE_FIELDS if entry["expr"][name]]
    exact = bool(types) and types[0] in catalog.exact
    return exact and any(clause.number("tleSortGroupRef") == ref for clause in clauses)


def is_ordered(block: Block, aggregate: Node, catalog: Catalog) -> bool:
    """Whether the ORDER BY of an aggregate leaves no ties between values that differ."""
    if aggregate["aggdistinct"]:
        return True
    entries = aggregate.items("args")
    by_ref = {entry.number("ressortgroupref"): entry["expr"] for entry in entries}
    exprs = [by_ref[clause.number("tleSortGroupRef")] for clause in aggregate.items("aggorder")]
    told = {column for expr in exprs if (column := _told_by(block.node, expr, catalog))}
    used = [columns_of(block.node, entry["expr"]) for entry in entries if not entry.flag("resjunk")]
    if all(columns is not None and columns <= told for columns in used):
        return True
    return block.leaves <= _told_items(block, told)


def is_unique(block: Block, order: Sequence[Expr]) -> bool:
    """Whether an order leaves no ties: what it names tells one row of every item of FROM, or one group."""
    if block.aggregated:
        return set(block.group) <= set(order) and not block.grouping_sets
    if block.node["setOperations"]:
        return False
    named = {(ref.item, ref.number) for ref in order if isinstance(ref, Ref) and ref.block == block.id}
    told = _told_items(block, named)
    return block.leaves <= told


def _told_items(block: Block, named: set[Column]) -> set[int]:
    """The items of which the named columns tell one row: by a key of theirs, or by what they are joined on."""
    told: set[int] = set()
    size = -1
    while size != len(told) + len(named):
        size = len(told) + len(named)
        told |= {number for number in block.leaves if _has_key(block, number, named)}
        for condition in block.conditions:
            named |= set(_named_by(condition, named, told))
    return told


def _named_by(condition: Condition, named: set[Column], told: set[int]) -> Iterator[Column]:
    """What an equality adds to what is known; the ON of an outer join speaks only of the side that may be missing."""
    expr, join = condition.expr, condition.join
    if condition.link is not None or not (isinstance(expr, Call) and expr.exact) or (join and join.kind == "full"):
        return
    one, other = (strip(arg) for arg in expr.args)
    for known, new in ((one, other), (other, one)):
        if not (isinstance(new, Ref) and new.block == condition.block.id):
            continue
        outer = isinstance(known, Ref) and known.block != condition.block.id
        column = (known.item, known.number) if isinstance(known, Ref) else None
        if not (isinstance(known, Const) or outer or column in named or (column and column[0] in told)):
            continue
        if join is None or join.kind == "inner" or any(new.item in side for side in join.nullable):
            yield new.item, new.number


def _has_key(block: Block, number: int, named: set[Column]) -> bool:
    columns = {column for item, column in named if item == number}
    return any(key <= columns for key in _keys(block.items[number]))


def _keys(item: Table | Block | str) -> list[frozenset[int]]:
    """Columns of which no two rows of an item have the same values."""
    if isinstance(item, Table):
        numbers = {info.name: number for number, info in item.info.columns.items()}
        return [frozenset(numbers[name] for name in key) for key in item.info.keys]
    if isinstance(item, str) or item.grouping_sets or item.node.flag("hasTargetSRFs") or item.node["setOperations"]:
        return []
    if item.aggregated and not item.node["distinctClause"]:
        return list(_given(item, item.group))
    if item.node["distinctClause"]:
        shown = [e.number("resno") for e in item.node.items("targetList") if not e.flag("resjunk")]
        return list(_given(item, item.distinct_on)) if item.distinct_on else [frozenset(shown)]
    return []


def _given(item: Block, exprs: Sequence[Expr]) -> Iterator[frozenset[int]]:
    """The outputs that give some expressions, if all are given."""
    shown = {
        item.outputs[e.number("resno")]: e.number("resno")
        for e in item.node.items("targetList")
        if not e.flag("resjunk")
    }
    if all(isinstance(expr, Ref | Call) and expr in shown for expr in exprs):
        yield frozenset(shown[expr] for expr in exprs)

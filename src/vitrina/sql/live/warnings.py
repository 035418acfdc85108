"""What makes a live mart flicker: results that may differ from one reading of the same rows to the next."""

from collections.abc import Iterator, Sequence

from vitrina.sql.live.blocks import Block, Model, Table
from vitrina.sql.live.catalog import Catalog
from vitrina.sql.live.exprs import Expr, Ref
from vitrina.sql.live.nodes import Node, walk
from vitrina.sql.rules import Finding

ORDERED = {"array_agg", "string_agg", "json_agg", "jsonb_agg", "xmlagg", "json_object_agg", "jsonb_object_agg"}
RANKED = {"row_number", "ntile", "lag", "lead", "first_value", "last_value", "nth_value"}
SUMMED = {"sum", "avg", "stddev", "stddev_samp", "stddev_pop", "variance", "var_samp", "var_pop"}
FLOATS = {"700", "701"}


def find_warnings(models: Sequence[Model], catalog: Catalog, tree: Node) -> tuple[Finding, ...]:
    """Worth saying before the mart goes live."""
    found = [*_aggregates(tree, catalog)]
    for model in models:
        for block in model.blocks.values():
            found += _ties(block, catalog)
    return tuple(dict.fromkeys(found))


def _aggregates(tree: Node, catalog: Catalog) -> Iterator[Finding]:
    for node in walk(tree):
        if node.kind != "AGGREF":
            continue
        name = catalog.functions[node.number("aggfnoid")].name
        if name in ORDERED and not node["aggorder"] and not node["aggdistinct"]:
            message = f"{name} has no ORDER BY: the same rows may come in another order"
            yield Finding("warning", name, message, f"write {name}(… ORDER BY …)")
        if name in SUMMED and FLOATS & set(node.items("aggargtypes")):
            message = f"{name} of floating-point numbers: the last digits depend on the order of the rows"
            yield Finding("warning", name, message, "cast to numeric")


def _ties(block: Block, catalog: Catalog) -> Iterator[Finding]:
    remedy = "end the ORDER BY with a unique column"
    entries = {e.number("ressortgroupref"): e.number("resno") for e in block.node.items("targetList")}

    def exprs(clauses: Sequence[Node]) -> list[Expr]:
        return [block.outputs[entries[c.number("tleSortGroupRef")]] for c in clauses]

    ranked = {node.number("winref") for node in walk_own(block.node) if _is_ranked(node, catalog)}
    for window in block.node.items("windowClause"):
        order = exprs(window.items("partitionClause")) + exprs(window.items("orderClause"))
        if window.number("winref") in ranked and not _is_unique(block, order):
            yield Finding("warning", "window", "rows that tie in a window's ORDER BY may change places", remedy)
    order = exprs(block.node.items("sortClause"))
    if block.distinct_on and not _is_unique(block, order):
        yield Finding(
            "warning", "DISTINCT ON", "of rows that tie in the ORDER BY of DISTINCT ON any may be taken", remedy
        )
    if block.limited and not _is_unique(block, order):
        yield Finding("warning", "LIMIT", "of rows that tie in the ORDER BY before LIMIT any may be taken", remedy)


def walk_own(node: Node) -> Iterator[Node]:
    """A query's nodes, its subqueries aside."""
    yield node
    for child in node.children():
        if child.kind != "QUERY":
            yield from walk_own(child)


def _is_ranked(node: Node, catalog: Catalog) -> bool:
    return node.kind == "WINDOWFUNC" and catalog.functions[node.number("winfnoid")].name in RANKED


def _is_unique(block: Block, order: Sequence[Expr]) -> bool:
    """Whether an order leaves no ties: it names a unique key of every table of the block."""
    if block.aggregated and block.group:
        return set(block.group) <= set(order)
    named = {(ref.item, ref.number) for ref in order if isinstance(ref, Ref) and ref.block == block.id}
    return all(_has_key(block.items[number], number, named) for number in block.leaves)


def _has_key(item: Table | Block | str, number: int, named: set[tuple[int, int]]) -> bool:
    if not isinstance(item, Table):
        return False
    columns = {item.info.columns[n].name for i, n in named if i == number and n in item.info.columns}
    return any(key <= columns for key in item.info.keys)

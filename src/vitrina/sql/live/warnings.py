"""What makes a live mart flicker: results that may differ from one reading of the same rows to the next."""

from collections.abc import Iterator, Sequence

from vitrina.sql.live.blocks import Block, Model
from vitrina.sql.live.catalog import Catalog
from vitrina.sql.live.chance import ORDERED, is_left_open
from vitrina.sql.live.nodes import Node, walk
from vitrina.sql.live.order import open_outputs
from vitrina.sql.rules import Finding

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
    if any(is_left_open(function, block, catalog) for function in _windows(block.node)):
        yield Finding("warning", "window", "rows that tie in a window's ORDER BY may change places", remedy)
    open_now = open_outputs(block, block.node.items("sortClause"), catalog)
    if block.distinct_on and open_now:
        yield Finding(
            "warning", "DISTINCT ON", "of rows that tie in the ORDER BY of DISTINCT ON any may be taken", remedy
        )
    if block.limited and open_now:
        yield Finding("warning", "LIMIT", "of rows that tie in the ORDER BY before LIMIT any may be taken", remedy)


def _windows(node: Node) -> Iterator[Node]:
    """The window functions of a query, those of its subqueries aside."""
    if node.kind == "WINDOWFUNC":
        yield node
    for child in node.children():
        if child.kind != "QUERY":
            yield from _windows(child)

"""What makes a live mart flicker: results that may differ from one reading of the same rows to the next."""

from collections.abc import Iterator, Sequence

from vitrina.domain.findings import Code, Finding
from vitrina.sql.live.blocks import Block, Model
from vitrina.sql.live.catalog import Catalog
from vitrina.sql.live.chance import ORDERED, is_left_open
from vitrina.sql.live.nodes import Node, walk
from vitrina.sql.live.order import open_outputs

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
            yield Finding("warning", name, Code.UNORDERED_AGGREGATE, {"aggregate": name})
        if name in SUMMED and FLOATS & set(node.items("aggargtypes")):
            yield Finding("warning", name, Code.FLOAT_SUM, {"aggregate": name})


def _ties(block: Block, catalog: Catalog) -> Iterator[Finding]:
    if any(is_left_open(function, block, catalog) for function in _windows(block.node)):
        yield Finding("warning", "window", Code.WINDOW_TIES)
    open_now = open_outputs(block, block.node.items("sortClause"), catalog)
    if block.distinct_on and open_now:
        yield Finding("warning", "DISTINCT ON", Code.DISTINCT_TIES)
    if block.limited and open_now:
        yield Finding("warning", "LIMIT", Code.LIMIT_TIES)


def _windows(node: Node) -> Iterator[Node]:
    """The window functions of a query, those of its subqueries aside."""
    if node.kind == "WINDOWFUNC":
        yield node
    for child in node.children():
        if child.kind != "QUERY":
            yield from _windows(child)

"""Where a query leaves it open which rows it takes, and then decides by them which rows there are (R11).

Of rows that tie, any may be taken; which, may differ between the whole query and a reading for some keys. Where that is
only shown, either value is right, and a warning says so. Where it decides what else there is, no reading for some keys
can tell what the whole query gives.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from vitrina.sql.live.blocks import Block, Model
from vitrina.sql.live.catalog import Catalog
from vitrina.sql.live.nodes import Node, nodes_in
from vitrina.sql.live.order import Column, is_ordered, is_told, named_by, open_outputs, told_columns

SUBQUERY, JOIN, CTE, GROUP = 1, 2, 6, 9  # rtekind
EXISTS = 0  # subLinkType
ORDERED = {"array_agg", "string_agg", "json_agg", "jsonb_agg", "xmlagg", "json_object_agg", "jsonb_object_agg"}
RANKED = {"row_number", "ntile", "lag", "lead", "first_value", "last_value", "nth_value"}
ROWS = 0x4  # of frameOptions: the frame counts rows, so those that tie are told apart
APART = {
    "targetList",
    "rtable",
    "cteList",
    "setOperations",
    "jointree",
}  # fields of a query that are read in ways of their own

Scopes: TypeAlias = "tuple[_Scope, ...]"


@dataclass(frozen=True)
class _Scope:
    """A SELECT, and which columns of its items are open."""

    node: Node
    open: dict[int, set[int]] = field(default_factory=dict)


def decided_by_chance(tree: Node, models: Sequence[Model], catalog: Catalog, key: Iterable[int]) -> bool:
    """Whether rows that tie decide which rows there are; `key`: the numbers of the key's columns."""
    reader = _Reader({id(b.node): b for model in models for b in model.blocks.values()}, catalog)
    return bool(reader.query(tree, ()) & set(key)) or reader.decisive


def is_left_open(function: Node, block: Block, catalog: Catalog) -> bool:
    """Whether rows that tie in a window's order decide what a window function gives.

    So it is where it tells them apart, and either they look different beside it or it reads what differs in them.
    """
    window = _window_of(function, block)
    told = told_columns(block, _order_of(window), catalog)
    if told is None or not _tells_ties_apart(function, window, catalog):
        return False
    return not _reads_told(function, block, told) or bool(_shown_apart(block, window, catalog))


def _shown_apart(block: Block, window: Node, catalog: Catalog) -> set[int]:
    """The outputs in which rows that tie in a window may differ, whatever place each of them got there."""
    told = told_columns(block, _order_of(window), catalog) or set()
    alike = {
        entry.number("resno")
        for entry in block.node.items("targetList")
        if entry["expr"].kind == "WINDOWFUNC" and _goes_by_place(entry["expr"], block, window, told, catalog)
    }
    return open_outputs(block, _order_of(window), catalog) - alike


def _goes_by_place(function: Node, block: Block, window: Node, told: set[Column], catalog: Catalog) -> bool:
    """Whether a window function depends on a row's place in this window, or on nothing that may differ in ties."""
    own = _window_of(function, block)
    if own.number("winref") == window.number("winref"):
        return True
    placed = all(is_told(block, expr, told) for expr in named_by(block, _order_of(own)))
    return placed and _reads_told(function, block, told) and not _tells_ties_apart(function, own, catalog)


def _reads_told(function: Node, block: Block, told: set[Column]) -> bool:
    read = [*function.items("args"), *([function["aggfilter"]] if function["aggfilter"] is not None else [])]
    return all(is_told(block, expr, told) for expr in read)


def _window_of(function: Node, block: Block) -> Node:
    windows: dict[int, Node] = {window.number("winref"): window for window in block.node.items("windowClause")}
    return windows[function.number("winref")]


def _order_of(window: Node) -> list[Node]:
    return [*window.items("partitionClause"), *window.items("orderClause")]


def _tells_ties_apart(function: Node, window: Node, catalog: Catalog) -> bool:
    """Whether a window function can give different values to rows that tie."""
    name = catalog.functions[function.number("winfnoid")].name
    return name in RANKED or name in ORDERED or bool(window.number("frameOptions") & ROWS)


@dataclass
class _Reader:
    blocks: Mapping[int, Block]
    catalog: Catalog
    decisive: bool = False

    def query(self, node: Node, around: Scopes) -> set[int]:
        """The open columns of a SELECT."""
        scope = _Scope(node)
        scopes = (*around, scope)
        for number, entry in enumerate(node.items("rtable"), 1):
            scope.open[number] = self._item(entry, scopes)
        if node["setOperations"]:
            return self._united(node, scope)
        demands = list(_demands(node["jointree"]["quals"]))
        chosen = [demand for demand in demands if self._is_choice(demand, scopes)]
        self._decides((demand for demand in demands if demand not in chosen), scopes)
        self._decides(nodes_in(node["jointree"]["fromlist"]), scopes)
        for name in node.fields.keys() - APART:
            self._decides(nodes_in(node[name]), scopes)
        return self._outputs(node, scopes)

    def _is_choice(self, demand: Node, scopes: Scopes) -> bool:
        """Whether a condition is row_number() of a subquery against a constant: as many rows are taken, whichever."""
        sides = demand.items("args") if demand.kind == "OPEXPR" else []
        columns = [side for side in sides if side.kind == "VAR" and not side.number("varlevelsup")]
        if len(sides) != 2 or len(columns) != 1 or not any(side.kind == "CONST" for side in sides):
            return False
        scope, number, column = scopes[-1], columns[0].number("varno"), columns[0].number("varattno")
        entry = scope.node.items("rtable")[number - 1]
        block = self.blocks.get(id(_subquery(entry, scopes[: len(scopes) - entry.number("ctelevelsup")])))
        opened = _numbered(block, column, self.catalog) if block is not None else None
        if opened is None:
            return False
        scope.open[number] = scope.open[number] - {column} | opened
        return True

    def _item(self, entry: Node, scopes: Scopes) -> set[int]:
        around = scopes[: len(scopes) - entry.number("ctelevelsup")]
        subquery = _subquery(entry, around)
        if subquery is not None:
            return self.query(subquery, around)
        if entry.number("rtekind") not in (JOIN, GROUP):
            self._decides(entry.children(), scopes)
        return set()

    def _united(self, node: Node, scope: _Scope) -> set[int]:
        found = set[int]().union(*scope.open.values())
        block = self.blocks.get(id(node))
        if found and (block is None or block.merging or node["limitCount"] or node["limitOffset"]):
            self.decisive = True
        return found | self._chosen(node)

    def _outputs(self, node: Node, scopes: Scopes) -> set[int]:
        found = self._chosen(node)
        deciding = _deciding(node)
        for entry in node.items("targetList"):
            if self._is_open(entry["expr"], scopes):
                found.add(entry.number("resno"))
                if entry.number("ressortgroupref") in deciding:
                    self.decisive = True
        return found

    def _chosen(self, node: Node) -> set[int]:
        """The outputs that show which rows DISTINCT ON or LIMIT took."""
        block = self.blocks.get(id(node))
        if block is None or not (block.limited or block.distinct_on):
            return set()
        return open_outputs(block, node.items("sortClause"), self.catalog)

    def _decides(self, nodes: Iterable[Node], scopes: Scopes) -> None:
        if any(self._is_open(node, scopes) for node in nodes):  # not `|=`: a subquery on the way may have decided
            self.decisive = True

    def _is_open(self, node: Node, scopes: Scopes) -> bool:
        """Whether something is computed with what is open; subqueries inside are read on the way."""
        if node.kind == "VAR":
            return self._is_open_column(node, scopes)
        if node.kind == "SUBLINK":
            given = self.query(node["subselect"], scopes) and node.number("subLinkType") != EXISTS
            return bool(given) | (node["testexpr"] is not None and self._is_open(node["testexpr"], scopes))
        below = [self._is_open(child, scopes) for child in node.children()]
        return any(below) or self._is_unordered(node, scopes[-1].node)

    def _is_open_column(self, var: Node, scopes: Scopes) -> bool:
        up = scopes[: len(scopes) - var.number("varlevelsup")]
        scope, number, column = up[-1], var.number("varno"), var.number("varattno")
        entry = scope.node.items("rtable")[number - 1]
        hidden = {JOIN: "joinaliasvars", GROUP: "groupexprs"}.get(entry.number("rtekind"))
        if hidden is not None:
            exprs = entry.items(hidden)
            chosen = exprs if column < 1 else exprs[column - 1 : column]
            return any(self._is_open(expr, up) for expr in nodes_in(chosen))
        return bool(scope.open.get(number)) if column == 0 else column in scope.open.get(number, ())

    def _is_unordered(self, node: Node, query: Node) -> bool:
        block = self.blocks.get(id(query))
        if node.kind == "AGGREF" and self.catalog.functions[node.number("aggfnoid")].name in ORDERED:
            return block is None or not is_ordered(block, node, self.catalog)
        if node.kind != "WINDOWFUNC" or block is None:
            return False
        return is_left_open(node, block, self.catalog)


def _subquery(entry: Node, around: Scopes) -> Node | None:
    """The SELECT that an item of FROM is: its own, or that of a CTE; `around` ends where a CTE would be defined."""
    if entry.number("rtekind") == CTE:
        named = [cte for cte in around[-1].node.items("cteList") if cte["ctename"] == entry["ctename"]]
        return named[0]["ctequery"] if named else None
    found: Node | None = entry["subquery"] if entry.number("rtekind") == SUBQUERY else None
    return found


def _numbered(block: Block, column: int, catalog: Catalog) -> set[int] | None:
    """The outputs in which rows that row_number() numbers as it likes may differ; None where a column is not that."""
    (expr,) = [e["expr"] for e in block.node.items("targetList") if e.number("resno") == column]
    if expr.kind != "WINDOWFUNC" or catalog.functions[expr.number("winfnoid")].name != "row_number":
        return None
    return _shown_apart(block, _window_of(expr, block), catalog)


def _demands(quals: Node | None) -> Iterator[Node]:
    """The conditions that AND joins."""
    if quals is None:
        return
    if quals.kind == "BOOLEXPR" and quals["boolop"] == "and":
        for arg in quals.items("args"):
            yield from _demands(arg)
    else:
        yield quals


def _deciding(node: Node) -> set[int]:
    """The sort references of outputs by which rows are grouped, told apart or chosen."""
    clauses = [*node.items("groupClause"), *node.items("distinctClause")]
    for window in node.items("windowClause"):
        clauses += [*window.items("partitionClause"), *window.items("orderClause")]
    if node["limitCount"] or node["limitOffset"] or node.flag("hasDistinctOn"):
        clauses += node.items("sortClause")
    return {clause.number("tleSortGroupRef") for clause in clauses} - {0}

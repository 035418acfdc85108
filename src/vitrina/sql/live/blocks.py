"""A query as blocks: each SELECT with what its FROM joins, its conditions and its outputs, subqueries in their place.

A CTE is read as a subquery of its own wherever it is named, and of a UNION one branch is chosen: `read_variants` gives
one model for every choice. Columns are still symbolic (Ref): what they mean depends on the occurrence that changed.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from vitrina.domain.reasons import Reason
from vitrina.domain.wording import Because
from vitrina.sql.live.catalog import Catalog, TableInfo
from vitrina.sql.live.exprs import Expr, Opaque, Ref, conjuncts
from vitrina.sql.live.nodes import Node, nodes_in, walk
from vitrina.sql.live.translate import Translator

RELATION, SUBQUERY, JOIN, CTE, GROUP = 0, 1, 2, 6, 9  # rtekind
ANY = 2  # subLinkType
SIMPLE_SET, SETS = 1, 4  # of a GROUPINGSET
UNION = 1  # of a SETOPERATIONSTMT
LATE = ("havingQual", "limitCount", "limitOffset")  # what a SELECT computes after its rows, outputs aside (R12)
COMPUTED = ("functions", "tablefunc", "values_lists", "securityQuals")  # what an item of FROM computes
JOINS = ("inner", "left", "full", "right")
MOST_VARIANTS = 64


@dataclass(frozen=True, eq=False)
class Join:
    """A join: the items of each side, by their numbers."""

    kind: str
    left: frozenset[int]
    right: frozenset[int]

    @property
    def nullable(self) -> tuple[frozenset[int], ...]:
        """The sides that may be missing from its rows."""
        sides = {"inner": (), "left": (self.right,), "right": (self.left,), "full": (self.left, self.right)}
        return sides[self.kind]


Position: TypeAlias = Join | int | None  # in a join's ON, in an item, or in the block as a whole


@dataclass(frozen=True, eq=False)
class Condition:
    """Something that ON or WHERE demands; `link`: it is the test of IN, tied to that subquery."""

    block: "Block"
    join: Join | None
    expr: Expr
    link: "Block | None" = None
    guarded: bool = False  # not a plain condition, so NULLs on either side would matter (R9)


@dataclass(frozen=True, eq=False)
class Table:
    """An occurrence of a table."""

    place: str
    block: "Block"
    number: int
    info: TableInfo
    alias: str
    inherits: bool
    entry: Node


@dataclass(eq=False)
class Block:
    """One SELECT."""

    id: str
    scope: "Block | None"  # whose columns it may name
    parent: "Block | None"  # where it stands
    position: Position  # there; an item's number when it is a subquery of FROM
    linked: bool  # stands in an expression
    node: Node
    late: bool = False  # that expression is computed after grouping: there may be no row around it
    items: dict[int, "Table | Block | Because"] = field(default_factory=dict)
    joins: list[Join] = field(default_factory=list)
    leaves: frozenset[int] = frozenset()
    conditions: list[Condition] = field(default_factory=list)
    outputs: dict[int, Expr] = field(default_factory=dict)
    limited: bool = False
    aggregated: bool = False
    grouping_sets: bool = False
    merging: bool = False  # equal rows, or those of a group, become one
    group: tuple[Expr, ...] = ()
    group_always: tuple[Expr, ...] = ()  # what every one of its grouping sets groups by
    partitions: tuple[tuple[Expr, ...], ...] = ()
    distinct_on: tuple[Expr, ...] = ()

    def chain(self) -> Iterator["Block"]:
        """Itself and the blocks around it."""
        yield self
        if self.parent:
            yield from self.parent.chain()

    @property
    def needs_rows(self) -> bool:
        """Whether it gives nothing where its FROM gives nothing."""
        return not self.aggregated or bool(self.group and not self.grouping_sets)


@dataclass(frozen=True)
class Model:
    """One variant of a query."""

    top: Block
    blocks: dict[str, Block]
    tables: dict[str, Table]

    def within(self, place: str) -> Iterator[tuple[Block, int]]:
        """The blocks whose rows are made from this occurrence, with the item that it is part of there."""
        table = self.tables[place]
        block, number = table.block, table.number
        yield block, number
        while not block.linked and block.parent is not None:
            position = block.position
            assert isinstance(position, int)
            block, number = block.parent, position
            yield block, number

    def under(self, block: Block, numbers: frozenset[int]) -> Iterator[str]:
        """The occurrences that some items of a block are made of."""
        for number in numbers:
            item = block.items[number]
            if isinstance(item, Table):
                yield item.place
            elif isinstance(item, Block):
                yield from self.under(item, item.leaves)


def read_variants(query: Node, catalog: Catalog) -> list[Model]:
    """A model for each choice of branches; none when there are too many."""
    found, waiting = [], [list[int]()]
    while waiting:
        chosen = waiting.pop()
        builder = _Builder(catalog, chosen)
        top = builder.block(query, "q", None, None, None)
        found.append(Model(top, builder.blocks, builder.tables))
        for at in range(len(chosen), len(builder.arities)):
            prefix = chosen + [0] * (at - len(chosen))
            waiting += [[*prefix, other] for other in range(1, builder.arities[at])]
        if len(found) + len(waiting) > MOST_VARIANTS:
            return []
    return found


@dataclass
class _Builder:
    catalog: Catalog
    chosen: Sequence[int]
    arities: list[int] = field(default_factory=list)
    blocks: dict[str, Block] = field(default_factory=dict)
    tables: dict[str, Table] = field(default_factory=dict)
    hidden: dict[str, Expr] = field(default_factory=dict)  # what columns of joins and groups stand for

    def choose(self, arity: int) -> int:
        self.arities.append(arity)
        at = len(self.arities) - 1
        return self.chosen[at] if at < len(self.chosen) else 0

    def block(
        self,
        node: Node,
        name: str,
        scope: Block | None,
        parent: Block | None,
        position: Position,
        linked: bool = False,
        late: bool = False,
    ) -> Block:
        block = Block(name, scope, parent, position, linked, node, late)
        self.blocks[name] = block
        _BlockReader(self, block).read()
        return block


@dataclass
class _BlockReader:
    """Reads one block; is the Scope of its expressions."""

    builder: _Builder
    block: Block
    position: Position = None
    positive: bool = False
    late: bool = False
    prefix: str = ""  # of the names of subqueries: the same in every variant
    links: int = 0

    def read(self) -> None:
        node, block = self.block.node, self.block
        if node["setOperations"]:
            self._set_operation(node["setOperations"])
        else:
            block.leaves = self._from(node["jointree"].items("fromlist"))
            self._conditions(node["jointree"]["quals"], None)
            self.late = True
            for entry in node.items("targetList"):
                block.outputs[entry.number("resno")] = self.expr(entry["expr"])
        self.late = True
        for clause in (*node.items("windowClause"), *nodes_in([node[name] for name in LATE])):
            self.expr(clause)  # for the subqueries inside
        self._shape(node)

    def expr(self, node: Node, position: Position = None) -> Expr:
        outer, self.position = self.position, position
        try:
            return Translator(self.builder.catalog, self).expr(node)
        finally:
            self.position = outer

    def column(self, node: Node) -> Expr:
        block = self.block
        for _ in range(node.number("varlevelsup")):
            assert block.scope is not None
            block = block.scope
        number, attribute = node.number("varno"), node.number("varattno")
        entry = block.node.items("rtable")[number - 1]
        hidden = {JOIN: "joinaliasvars", GROUP: "groupexprs"}.get(entry.number("rtekind"))
        if hidden is None:
            return Ref(block.id, number, attribute, node.number("vartype"))
        if attribute < 1:
            return Opaque(Reason.WHOLE_ROW_OF_A_JOIN.of())
        name = f"{block.id}:{number}.{attribute}."
        if name not in self.builder.hidden:
            reader = _BlockReader(self.builder, block, late=True, prefix=name)
            self.builder.hidden[name] = reader.expr(entry.items(hidden)[attribute - 1])
        return self.builder.hidden[name]

    def sublink(self, node: Node) -> Expr:
        self.links += 1
        name = f"{self.block.id}?{self.prefix}{self.links}"
        position, positive, self.positive = self.position, self.positive, False
        inner = self.builder.block(node["subselect"], name, self.block, self.block, position, True, self.late)
        if node["testexpr"]:
            translator = Translator(self.builder.catalog, self, parameters=lambda param: _output(inner, param))
            test = translator.expr(node["testexpr"])
            if node.number("subLinkType") == ANY and not isinstance(position, int):
                self.block.conditions += [
                    Condition(self.block, position, part, inner, guarded=not positive) for part in conjuncts(test)
                ]
        return Opaque(Reason.SUBQUERY.of())

    def _conditions(self, node: Node | None, join: Join | None) -> None:
        if node is None:
            return
        if node.kind == "BOOLEXPR" and node["boolop"] == "and":
            for arg in node.items("args"):
                self._conditions(arg, join)
            return
        self.positive = node.kind == "SUBLINK"
        expr = self.expr(node, join)
        self.positive = False
        self.block.conditions.append(Condition(self.block, join, expr))

    def _from(self, nodes: Sequence[Node]) -> frozenset[int]:
        return frozenset[int]().union(*(self._source(node) for node in nodes))

    def _source(self, node: Node) -> frozenset[int]:
        if node.kind == "RANGETBLREF":
            return self._item(node.number("rtindex"))
        join = Join(JOINS[node.number("jointype")], self._source(node["larg"]), self._source(node["rarg"]))
        self.block.joins.append(join)
        self._conditions(node["quals"], join)
        return join.left | join.right

    def _item(self, number: int) -> frozenset[int]:
        block, entry = self.block, self.block.node.items("rtable")[number - 1]
        kind, name = entry.number("rtekind"), f"{self.block.id}.{number}"
        if kind == RELATION:
            block.items[number] = self._table(entry, name, number)
        elif kind == SUBQUERY:
            block.items[number] = self.builder.block(entry["subquery"], name, block, block, number)
        elif kind == CTE:
            scope, query = self._cte(entry)
            block.items[number] = self.builder.block(query, name, scope, block, number)
        else:
            block.items[number] = Reason.GIVEN_BY_A_FUNCTION.of()
        for child in nodes_in([entry[source] for source in COMPUTED]):
            self.expr(child, number)
        return frozenset([number])

    def _table(self, entry: Node, name: str, number: int) -> Table:
        info = self.builder.catalog.tables[entry.number("relid")]
        table = Table(name, self.block, number, info, alias_of(entry), entry.flag("inh"), entry)
        self.builder.tables[name] = table
        return table

    def _cte(self, entry: Node) -> tuple[Block, Node]:
        block = self.block
        for _ in range(entry.number("ctelevelsup")):
            assert block.scope is not None
            block = block.scope
        named = (cte for cte in block.node.items("cteList") if cte["ctename"] == entry["ctename"])
        return block, next(named)["ctequery"]

    def _set_operation(self, operation: Node) -> None:
        numbers = list(_branches(operation))
        number = numbers[self.builder.choose(len(numbers))]
        self.block.leaves = self._item(number)
        branch = self.block.items[number]
        assert isinstance(branch, Block)
        types = [int(oid) for oid in operation.items("colTypes")]
        for at, type_ in enumerate(types, 1):
            self.block.outputs[at] = Ref(self.block.id, number, at, type_)

    def _shape(self, node: Node) -> None:
        block = self.block
        entries = {entry.number("ressortgroupref"): entry.number("resno") for entry in node.items("targetList")}

        def sorted_by(clauses: Sequence[Node]) -> tuple[Expr, ...]:
            return tuple(block.outputs[entries[clause.number("tleSortGroupRef")]] for clause in clauses)

        block.limited = any(node[name] and not node[name].flag("constisnull") for name in ("limitCount", "limitOffset"))
        block.grouping_sets = bool(node["groupingSets"])
        block.group = () if node["setOperations"] else sorted_by(node.items("groupClause"))
        always = _in_every_set(node.items("groupingSets"))
        block.group_always = sorted_by([c for c in node.items("groupClause") if c.number("tleSortGroupRef") in always])
        block.aggregated = bool(
            node.flag("hasAggs") or node["groupClause"] or node["groupingSets"] or node["havingQual"]
        )
        block.partitions = tuple(sorted_by(window.items("partitionClause")) for window in node.items("windowClause"))
        operation = node["setOperations"]
        united = operation is not None and not all(
            o.number("op") == UNION and o.flag("all") for o in _operations(operation)
        )
        block.merging = bool(block.aggregated or node["distinctClause"] or united)
        if node["distinctClause"]:
            block.distinct_on = sorted_by(node.items("distinctClause")) if node.flag("hasDistinctOn") else ()


def alias_of(entry: Node) -> str:
    """What the query calls an item of FROM."""
    return str((entry["alias"] or entry["eref"])["aliasname"])


def _output(block: Block, param: Node) -> Expr:
    return Ref(block.id, 0, param.number("paramid"), param.number("paramtype"))


def _operations(operation: Node) -> Iterator[Node]:
    return (node for node in walk(operation) if node.kind == "SETOPERATIONSTMT")


def _branches(operation: Node) -> Iterator[int]:
    for side in (operation["larg"], operation["rarg"]):
        if side.kind == "RANGETBLREF":
            yield side.number("rtindex")
        else:
            yield from _branches(side)


def _in_every_set(sets: Sequence[Any]) -> set[int]:
    """The grouping clauses that all sets of a list of GROUPING SETS, ROLLUP and CUBE have: lists are multiplied."""
    return set[int]().union(*(_always(item) for item in sets))


def _always(item: Node) -> set[int]:
    content = item.items("content")
    if item.number("kind") == SIMPLE_SET:
        return set(map(int, content))
    return set.intersection(*map(_always, content)) if item.number("kind") == SETS and content else set()

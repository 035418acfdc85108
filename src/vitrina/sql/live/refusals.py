"""What cannot be live at all: a result that changes while no row does, or rows whose changes cannot be followed."""

import re
from collections.abc import Iterator

from vitrina.domain.errors import ConfigError
from vitrina.domain.reasons import Reason
from vitrina.domain.refusals import Refusal
from vitrina.domain.wording import Because
from vitrina.sql import grammar
from vitrina.sql.calls import Call, Resolved
from vitrina.sql.live.catalog import TEXTS, Catalog, TableInfo
from vitrina.sql.live.nodes import Node, nodes_in, walk
from vitrina.sql.rules import reads_clock

KINDS = {"f": Reason.FOREIGN_TABLE, "m": Reason.MATERIALISED_VIEW}
CLOCK_WORD = re.compile(r"(?<![a-z])(now|today|tomorrow|yesterday)(?![a-z])", re.IGNORECASE)
CAST = "COERCEVIAIO"
# What of a node may hold other nodes; whatever else does is of a server that these rules do not know.
CLAUSES = {
    "QUERY": frozenset(
        ["cteList", "rtable", "rteperminfos", "jointree", "targetList", "groupClause", "groupingSets", "havingQual",
         "windowClause", "distinctClause", "sortClause", "limitOffset", "limitCount", "rowMarks", "setOperations"]
    ),
    "RANGETBLENTRY": frozenset(
        ["alias", "eref", "tablesample", "subquery", "joinaliasvars", "join_using_alias", "functions", "tablefunc",
         "values_lists", "groupexprs", "securityQuals"]
    ),
    "WINDOWCLAUSE": frozenset(["partitionClause", "orderClause", "startOffset", "endOffset"]),
}  # fmt: skip
ITEMS = {0, 1, 2, 3, 4, 5, 6, 9}  # rtekind


def refuse(select: str, tree: Node, catalog: Catalog, resolved: Resolved) -> None:
    """A ConfigError that lists every reason why the query cannot be live."""
    reasons = [*_calls(resolved), *_clock_literals(select, tree), *_nodes(tree), *_tables(catalog)]
    if reasons:
        raise ConfigError.of(Refusal.NOT_TO_BE_LIVE, reasons=list(dict.fromkeys(reasons)))


def _calls(resolved: Resolved) -> Iterator[Because]:
    if resolved.uses.reads_clock:
        yield Reason.CLOCK_READ.of(what="CURRENT_DATE …")
    for call in resolved.calls:
        if reads_clock(call):
            yield Reason.CLOCK_READ.of(what=f"{call.name}()")
        elif call.how != "part" and call.volatility == "v":
            yield Reason.VOLATILE_CALL.of(function=call.qualified)
        elif _may_read_tables(call):
            yield Reason.MAY_READ_TABLES.of(function=call.qualified)


def _may_read_tables(call: Call) -> bool:
    return not (call.builtin or call.extension or call.constructor or call.how == "part") and call.volatility != "i"


def _clock_literals(select: str, tree: Node) -> Iterator[Because]:
    """Words that an input function turns into the time: in a literal that did not stay a text, or in a cast text."""
    nodes = list(walk(tree))
    kept = {node.number("location") for node in nodes if _is_text(node)}
    encoded = select.encode()
    kinds = (grammar.pg_query_pb2.SCONST, grammar.pg_query_pb2.USCONST)
    literals = [token for token in grammar.scan(select).tokens if token.token in kinds]
    found = [encoded[token.start : token.end].decode() for token in literals if token.start not in kept]
    casts = (node for node in nodes if node.kind == CAST and node.number("resulttype") not in TEXTS)
    found += [_text(below) for node in casts for below in walk(node) if _is_text(below)]
    for word in (match[0] for text in found if (match := CLOCK_WORD.search(text))):
        yield Reason.CLOCK_WORD.of(word=word)


def _is_text(node: Node) -> bool:
    return node.kind == "CONST" and node.number("consttype") in TEXTS and not node.flag("constisnull")


def _text(node: Node) -> str:
    return bytes(node.items("constvalue")).decode("ascii", "replace")


def _nodes(tree: Node) -> Iterator[Because]:
    for node in walk(tree):
        if strange := _unknown(node):
            yield strange
        if node.kind == "COMMONTABLEEXPR" and node.flag("cterecursive"):
            yield Reason.RECURSIVE.of(name=str(node["ctename"]))
        if node["tablesample"] is not None:
            yield Reason.SAMPLED.of()
        if node.kind == "VAR" and node.number("varattno") < 0:
            yield Reason.SYSTEM_COLUMN.of()


def _unknown(node: Node) -> Because | None:
    """A clause, an item of FROM or a join that no rule tells of: of a server newer than these rules."""
    known = CLAUSES.get(node.kind)
    if known is not None:
        strange = [name for name, value in node.fields.items() if name not in known and any(nodes_in(value))]
        if strange:
            return Reason.UNKNOWN_CLAUSE.of(clause=strange[0])
    if node.kind == "RANGETBLENTRY" and node.number("rtekind") not in ITEMS:
        return Reason.UNKNOWN_ITEM.of(kind=node.number("rtekind"))
    if node.kind == "JOINEXPR" and node.number("jointype") > 3:
        return Reason.UNKNOWN_JOIN.of(kind=node.number("jointype"))
    return None


def _tables(catalog: Catalog) -> Iterator[Because]:
    for table in catalog.tables.values():
        if reason := _table(table):
            yield reason.of(table=table.qualified)


def _table(table: TableInfo) -> Reason | None:
    if table.kind in KINDS:
        return KINDS[table.kind]
    if table.has_heirs and table.kind == "r":
        return Reason.HAS_HEIRS
    return Reason.FOREIGN_PARTS if table.has_foreign_parts else None

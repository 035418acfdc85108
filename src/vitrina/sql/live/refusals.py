"""What cannot be live at all: a result that changes while no row does, or rows whose changes cannot be followed."""

import re
from collections.abc import Iterator

from vitrina.domain.errors import ConfigError
from vitrina.sql import grammar
from vitrina.sql.calls import Call, Resolved
from vitrina.sql.live.catalog import TEXTS, Catalog, TableInfo
from vitrina.sql.live.nodes import Node, nodes_in, walk
from vitrina.sql.rules import reads_clock

KINDS = {"f": "a foreign table", "m": "a materialised view"}
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
REMEDY = "use mode full on a schedule, or change the query"


def refuse(select: str, tree: Node, catalog: Catalog, resolved: Resolved) -> None:
    """A ConfigError that lists every reason why the query cannot be live."""
    reasons = [*_calls(resolved), *_clock_literals(select, tree), *_nodes(tree), *_tables(catalog)]
    if reasons:
        raise ConfigError("the query cannot be live: " + "; ".join(dict.fromkeys(reasons)), REMEDY)


def _calls(resolved: Resolved) -> Iterator[str]:
    if resolved.uses.reads_clock:
        yield "it reads the clock (CURRENT_DATE or the like), so rows change while nothing is written"
    for call in resolved.calls:
        if reads_clock(call):
            yield f"it reads the clock ({call.name}()), so rows change while nothing is written"
        elif call.how != "part" and call.volatility == "v":
            yield f"{call.qualified} is VOLATILE: it may give another value at every call"
        elif _may_read_tables(call):
            yield f"{call.qualified} is not IMMUTABLE: it may read tables whose changes nobody follows"


def _may_read_tables(call: Call) -> bool:
    return not (call.builtin or call.extension or call.constructor or call.how == "part") and call.volatility != "i"


def _clock_literals(select: str, tree: Node) -> Iterator[str]:
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
        yield f"'{word}' as a date or time means the clock, so rows change while nothing is written"


def _is_text(node: Node) -> bool:
    return node.kind == "CONST" and node.number("consttype") in TEXTS and not node.flag("constisnull")


def _text(node: Node) -> str:
    return bytes(node.items("constvalue")).decode("ascii", "replace")


def _nodes(tree: Node) -> Iterator[str]:
    for node in walk(tree):
        if strange := _unknown(node):
            yield f"it has {strange}, which is not known here"
        if node.kind == "COMMONTABLEEXPR" and node.flag("cterecursive"):
            yield f"{node['ctename']} is recursive (WITH RECURSIVE)"
        if node["tablesample"] is not None:
            yield "it reads a random part of a table (TABLESAMPLE)"
        if node.kind == "VAR" and node.number("varattno") < 0:
            yield "it reads a system column (ctid, xmin, tableoid, …), which changes on its own"


def _unknown(node: Node) -> str:
    """A clause, an item of FROM or a join that no rule tells of: of a server newer than these rules."""
    known = CLAUSES.get(node.kind)
    if known is not None:
        strange = [name for name, value in node.fields.items() if name not in known and any(nodes_in(value))]
        if strange:
            return f"the clause {strange[0]}"
    if node.kind == "RANGETBLENTRY" and node.number("rtekind") not in ITEMS:
        return f"an item of FROM of kind {node['rtekind']}"
    return f"a join of kind {node['jointype']}" if node.kind == "JOINEXPR" and node.number("jointype") > 3 else ""


def _tables(catalog: Catalog) -> Iterator[str]:
    for table in catalog.tables.values():
        if reason := _table(table):
            yield f"{table.qualified} {reason}"


def _table(table: TableInfo) -> str:
    if table.kind in KINDS:
        return f"is {KINDS[table.kind]}: its changes cannot be captured"
    if table.has_heirs and table.kind == "r":
        return "has tables that inherit from it: their changes are not captured with it"
    return "has partitions on another server: their changes cannot be captured" if table.has_foreign_parts else ""

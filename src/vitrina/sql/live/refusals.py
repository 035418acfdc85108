"""What cannot be live at all: a result that changes while no row does, or rows whose changes cannot be followed."""

import re
from collections.abc import Iterator

from vitrina.domain.errors import ConfigError
from vitrina.sql.calls import Call, Resolved
from vitrina.sql.live.catalog import TEXTS, Catalog, TableInfo
from vitrina.sql.live.nodes import Node, walk
from vitrina.sql.rules import reads_clock

KINDS = {"f": "a foreign table", "m": "a materialised view"}
CLOCK_WORDS = {"now", "today", "tomorrow", "yesterday"}
CLOCK_LITERAL = re.compile(r"'\s*(now|today|tomorrow|yesterday)\s*'", re.IGNORECASE)
CAST = "COERCEVIAIO"
DATES = frozenset([1082, 1083, 1114, 1184, 1266])
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
    """Words that a cast turns into the time: more of them in the text than stay texts, or a text that is cast."""
    written = [match[1].lower() for match in CLOCK_LITERAL.finditer(select)]
    kept = [word for node in walk(tree) if (word := _clock_word(node))]
    casts = (node for node in walk(tree) if node.kind == CAST and node.number("resulttype") in DATES)
    cast = [word for node in casts for below in walk(node) if (word := _clock_word(below))]
    if len(written) > len(kept) or cast:
        word = (cast or written)[0]
        yield f"'{word}' as a date or time means the clock, so rows change while nothing is written"


def _clock_word(node: Node) -> str:
    if node.kind != "CONST" or node.number("consttype") not in TEXTS or node.flag("constisnull"):
        return ""
    text = bytes(node.items("constvalue")[4:]).decode("ascii", "replace").strip().lower()
    return text if text in CLOCK_WORDS else ""


def _nodes(tree: Node) -> Iterator[str]:
    for node in walk(tree):
        if node.kind == "COMMONTABLEEXPR" and node.flag("cterecursive"):
            yield f"{node['ctename']} is recursive (WITH RECURSIVE)"
        if node["tablesample"] is not None:
            yield "it reads a random part of a table (TABLESAMPLE)"
        if node.kind == "VAR" and node.number("varattno") < 0:
            yield "it reads a system column (ctid, xmin, tableoid, …), which changes on its own"


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

"""`pg_input_is_valid(value, 'type')`, and `pg_input_error_info`, read a text as a type that another text names: honest
if every server has it.

Any other type may bring code of its own to be run, the CHECKs of a domain for one.
"""

from vitrina.meta.db import Connection, fetch_all
from vitrina.sql.calls import Resolved
from vitrina.sql.describe import FIRST_USER_OID
from vitrina.sql.live.nodes import Node, parse_tree, walk

# reg…: whether there is an object of some name is nobody's business.
FOREIGN = """
SELECT n.name FROM unnest(%(names)s::text[]) AS n (name) LEFT JOIN pg_type t ON t.oid = to_regtype(n.name)
WHERE t.oid IS NULL OR t.oid >= %(first_user_oid)s OR t.typname LIKE '%%reg%%' OR t.typtype NOT IN ('b', 'r', 'm')
"""
TEXT, HEADER = 25, 4
FUNCTIONS = {"pg_input_is_valid", "pg_input_error_info"}


def honest_calls(conn: Connection, tree: str, resolved: Resolved) -> frozenset[int]:
    """The functions' oids, if the tree alone calls them, and always with such a type."""
    oids = {call.oid for call in resolved.calls if call.builtin and call.name in FUNCTIONS} - resolved.hidden
    return frozenset(oid for oid in oids if _names_only_builtin_types(conn, tree, oid))


def _names_only_builtin_types(conn: Connection, tree: str, function: int) -> bool:
    calls = [node for node in walk(parse_tree(tree)) if node.kind == "FUNCEXPR" and node.number("funcid") == function]
    names = [_literal(node.items("args")[1]) for node in calls]
    if not names or None in names:
        return False
    return not fetch_all(conn, FOREIGN, {"names": names, "first_user_oid": FIRST_USER_OID})


def _literal(node: Node) -> str | None:
    if node.kind != "CONST" or node.number("consttype") != TEXT or node.flag("constisnull"):
        return None
    return bytes(node.items("constvalue"))[HEADER:].decode(errors="replace")

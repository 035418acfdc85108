"""Code that tables bring along: what their owners wrote, and the tree of a query does not show.

The planner works out expressions of indexes, of statistics, of partition keys and of CHECKs, and executes what is
constant in them, with the rights of whoever plans. Who writes to a table runs its triggers, defaults, computed columns,
CHECKs, policies and rules too.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_

from vitrina.meta.db import Connection, fetch_all, fetch_one, queries
from vitrina.sql.describe import FIRST_USER_OID
from vitrina.sql.tree import Uses, read_tree

SQL = queries("owned")


@dataclass(frozen=True)
class Foreign:
    """A function that would run with our rights, and is not ours; or what may bring one."""

    function: str
    owner: str


def planned(conn: Connection, relations: Collection[int]) -> Uses:
    """What of somebody's own the planner may execute for these tables and their children."""
    return _own(conn, relations, "planned")


def foreign_code(conn: Connection, schema: str, table: str) -> list[Foreign]:
    """The functions that whoever writes to a table would run, and that are neither ours nor a superuser's."""
    family = [row["oid"] for row in fetch_all(conn, SQL["reached"], {"schema": schema, "table": table})]
    uses = _own(conn, family, "planned", "read", "written")
    triggered = frozenset(row["oid"] for row in fetch_all(conn, SQL["triggered"], {"relations": family}))
    ruled = fetch_all(conn, SQL["ruled"], {"schema": schema, "table": table})
    return _foreign(conn, uses | Uses(functions=triggered)) + [Foreign(**row) for row in ruled]


def loose_ends(conn: Connection, schema: str, table: str) -> list[Foreign]:
    """What of somebody else's may bring such code at any time, without a lock of the table, though it has none now."""
    asked = {"schema": schema, "table": table, "first_user_oid": FIRST_USER_OID}
    return [Foreign(**row) for row in fetch_all(conn, SQL["loose"], asked)]


def is_open_to_others(conn: Connection, schema: str, table: str) -> bool:
    """Whether somebody else may add code to it, as its owner or by the right to make triggers."""
    return bool(fetch_all(conn, SQL["outsiders"], {"schema": schema, "table": table}))


def code_of_reading(conn: Connection, schema: str, table: str) -> list[Foreign]:
    """The same, of whoever only looks at it."""
    if is_plain(conn, schema, table):
        return []
    family = [row["oid"] for row in fetch_all(conn, SQL["reached"], {"schema": schema, "table": table})]
    return _foreign(conn, _own(conn, family, "planned", "read"))


def foreign_owner(conn: Connection, schema: str, table: str, trusted: Sequence[str] = ()) -> str:
    """Who owns a table, unless that is somebody who is trusted."""
    rows = fetch_all(conn, SQL["owner"], {"schema": schema, "table": table, "trusted": list(trusted)})
    return rows[0]["owner"] if rows else ""


def is_plain(conn: Connection, schema: str, table: str) -> bool:
    """Whether it is not there, or has nothing beside columns of the server's own types and plain indexes."""
    asked = {"schema": schema, "table": table, "first_user_oid": FIRST_USER_OID}
    row = fetch_one(conn, SQL["plain"], asked)
    return row is None or bool(row["yes"])


def _foreign(conn: Connection, uses: Uses) -> list[Foreign]:
    called = {"functions": list(uses.functions), "operators": list(uses.operators), "types": list(uses.types)}
    rows = fetch_all(conn, SQL["foreign"], called | {"first_user_oid": FIRST_USER_OID})
    return [Foreign(**row) for row in rows]


def _own(conn: Connection, relations: Collection[int], *kinds: str) -> Uses:
    """What every server has is left out: of that, only what has no effects is worked out while planning."""
    if not relations:
        return Uses()
    asked = {"relations": list(relations), "kinds": list(kinds), "first_user_oid": FIRST_USER_OID}
    rows = fetch_all(conn, SQL["trees"], asked)
    uses = reduce(or_, (read_tree(row["tree"]) for row in rows), Uses())
    return Uses(
        functions=frozenset(oid for oid in uses.functions if oid >= FIRST_USER_OID),
        operators=frozenset(oid for oid in uses.operators if oid >= FIRST_USER_OID),
        types=uses.types,
    )

"""What a tree's oids are: functions with what they can do, relations with where they live.

Followed besides the tree itself: the function behind an operator, the parts of a user-defined aggregate, the input,
output, subscript, comparison and hash functions of user-defined types and of the types inside them, the CHECKs of
domains, the expressions of virtual generated columns, and what the planner executes for the tables (`owned`).
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import reduce
from operator import or_
from typing import Any

from vitrina.meta.db import Connection, fetch_all
from vitrina.sql.describe import FIRST_USER_OID
from vitrina.sql.owned import planned
from vitrina.sql.tree import Uses, read_tree

# User-defined types and the user-defined types inside them.
TYPES = """
WITH RECURSIVE used_types (oid) AS (
    SELECT unnest(%(types)s::oid[])
    UNION
    SELECT part.oid
    FROM used_types u
    JOIN pg_type t ON t.oid = u.oid
    CROSS JOIN LATERAL (
        VALUES (t.typbasetype), (t.typelem), ((SELECT rngsubtype FROM pg_range WHERE rngtypid = t.oid)),
               ((SELECT rngtypid FROM pg_range WHERE rngmultitypid = t.oid))
        UNION ALL
        SELECT atttypid FROM pg_attribute
        WHERE attrelid = t.typrelid AND t.typrelid <> 0 AND attnum > 0 AND NOT attisdropped
    ) AS part (oid)
    WHERE part.oid >= %(first_user_oid)s
)
SELECT oid::bigint AS oid FROM used_types
"""

# To belong to an extension is no alibi: its owner, who need not be a superuser, may add functions to it, and the owner
# of a function may replace it. What the extension's own script installed belongs to a superuser, whoever ran it.
CALLS = """
WITH used (how, via, func) AS (
    SELECT 'call', '', f FROM unnest(%(functions)s::oid[]) AS f
    UNION
    SELECT 'operator', format('operator %%s.%%s', oprnamespace::regnamespace, oprname), oprcode
    FROM pg_operator WHERE oid = ANY (%(operators)s::oid[])
    UNION
    SELECT 'part', 'aggregate ' || aggfnoid::regproc, part.f
    FROM pg_aggregate, unnest(ARRAY[aggtransfn, aggfinalfn, aggcombinefn, aggserialfn, aggdeserialfn,
                                               aggmtransfn, aggminvtransfn, aggmfinalfn]::oid[]) AS part (f)
    WHERE aggfnoid = ANY (%(functions)s::oid[]) AND aggfnoid >= %(first_user_oid)s
    UNION
    SELECT 'part', 'type ' || format_type(t.oid, NULL), part.f
    FROM pg_type t
    LEFT JOIN pg_range r ON r.rngtypid = t.oid
    CROSS JOIN LATERAL (
        SELECT unnest(ARRAY[typinput, typoutput, typreceive, typsend, typmodin, typmodout, typsubscript,
                            rngcanonical, rngsubdiff]::oid[])
        UNION ALL
        SELECT p.amproc
        FROM pg_opclass c
        JOIN pg_amproc p ON p.amprocfamily = c.opcfamily AND p.amproclefttype = c.opcintype
        WHERE c.opcintype = t.oid AND c.opcdefault
    ) AS part (f)
    WHERE t.oid = ANY (%(types)s::oid[]) AND part.f >= %(first_user_oid)s
)
SELECT u.how, u.via, p.oid::bigint AS oid, n.nspname AS schema, p.proname AS name, p.pronargs AS args,
       p.provolatile::text AS volatility, p.prosecdef AS definer, coalesce(e.extname, '') AS extension,
       'cstring'::regtype = ANY (p.proargtypes) AS takes_cstring,
       EXISTS (SELECT FROM pg_depend i WHERE i.classid = 'pg_proc'::regclass AND i.objid = p.oid
               AND i.refclassid = 'pg_type'::regclass AND i.deptype = 'i') AS constructor
FROM used u
JOIN pg_proc p ON p.oid = u.func
JOIN pg_namespace n ON n.oid = p.pronamespace
LEFT JOIN pg_depend d ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e'
                     AND EXISTS (SELECT FROM pg_roles r WHERE r.oid = p.proowner AND r.rolsuper)
LEFT JOIN pg_extension e ON e.oid = d.refobjid
ORDER BY n.nspname, p.proname, u.how, u.via
"""

RELATIONS = """
SELECT n.nspname AS schema, c.relname AS name
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.oid = ANY (%(relations)s::oid[])
ORDER BY 1, 2
"""

# Expressions that run with the query and are not in its tree.
HIDDEN = """
SELECT c.conbin::text AS tree
FROM pg_constraint c WHERE c.contypid = ANY (%(types)s::oid[]) AND c.conbin IS NOT NULL
UNION ALL
SELECT d.adbin::text
FROM pg_attribute a JOIN pg_attrdef d ON (d.adrelid, d.adnum) = (a.attrelid, a.attnum)
WHERE a.attgenerated = 'v' AND a.attrelid = ANY (%(relations)s::oid[])
"""


@dataclass(frozen=True)
class Call:
    """A function that the query runs: by its name, by an operator, or as a part of a type or an aggregate."""

    how: str  # call | operator | part
    via: str
    oid: int
    schema: str
    name: str
    args: int
    volatility: str  # i | s | v
    definer: bool
    extension: str
    takes_cstring: bool
    constructor: bool  # came with a range type

    @property
    def builtin(self) -> bool:
        """Whether every server has it."""
        return self.oid < FIRST_USER_OID and self.schema == "pg_catalog"

    @property
    def qualified(self) -> str:
        """As VITRINA_ALLOWED_FUNCTIONS names it."""
        return f"{self.schema}.{self.name}"


@dataclass(frozen=True)
class Relation:
    """A table, view, materialised view or foreign table that the query reads."""

    schema: str
    name: str


@dataclass(frozen=True)
class Resolved:
    """Everything a query uses."""

    uses: Uses
    calls: list[Call]
    relations: list[Relation]
    behind: frozenset[int] = frozenset()  # functions that only the tables' own expressions call
    hidden: frozenset[int] = frozenset()  # functions that domains and computed columns call, if not they alone


def resolve_uses(conn: Connection, tree: str) -> Resolved:
    """Look up the oids of a tree and of the expressions behind them, until nothing new turns up.

    Our own look-ups must not be shadowed: search_path is pg_catalog alone.
    """
    uses = new = read_tree(tree)
    hidden = frozenset[int]()
    while new:
        new = _with_inner_types(conn, new)
        uses |= new
        found = _all(row["tree"] for row in fetch_all(conn, HIDDEN, _params(new)))
        hidden |= found.functions
        new = found - uses
    behind = planned(conn, uses.relations) - uses
    uses |= _with_inner_types(conn, behind)
    calls = [Call(**row) for row in fetch_all(conn, CALLS, _params(uses))]
    relations = [Relation(**row) for row in fetch_all(conn, RELATIONS, _params(uses))]
    return Resolved(uses, calls, relations, behind.functions, hidden)


def _with_inner_types(conn: Connection, uses: Uses) -> Uses:
    if not uses.types:
        return uses
    return replace(uses, types=frozenset(row["oid"] for row in fetch_all(conn, TYPES, _params(uses))))


def _all(trees: Iterable[str]) -> Uses:
    return reduce(or_, map(read_tree, trees), Uses())


def _params(uses: Uses) -> dict[str, Any]:
    return {
        "functions": list(uses.functions),
        "operators": list(uses.operators),
        "types": list(uses.types),
        "relations": list(uses.relations),
        "first_user_oid": FIRST_USER_OID,
    }

"""What the server makes of a SELECT: its tree after parse analysis and rewriting, every name resolved to an oid.

`debug_print_rewritten` sends that tree to the client as a LOG message while a statement is prepared. The query is
neither planned nor executed, nothing is created, and it works the same in READ ONLY transactions, on standbys and on
sources where Vitrina owns nothing. In the tree views are expanded, to any depth, and the row-level policies that hold
for this role are applied.

Literals go through the input function of their type meanwhile, as the reader, and that of an array, a row or a range
of a domain runs the domain's CHECKs: code of whoever made it. It can send messages and change settings, so a tree is
believed only if the server's own printing sent it, if it is the only one, and if the settings hold that make the server
send the query's. The caller rolls back what else such code may have done to the session.

The message would go to the server's log as well (about 20 kB a query); a role that may set log_min_messages
(`vitrina roles` grants it) keeps it out of there.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Set
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import LiteralString

from psycopg import Error, NotSupportedError, errors

from vitrina.domain.errors import ConfigError
from vitrina.domain.refusals import Refusal
from vitrina.meta.db import Connection, fetch_one, prepare
from vitrina.sql.describe import FIRST_USER_OID

TOO_COMPLEX = "54"  # the class of errors: nested too deeply, too many columns
TITLE = "rewritten parse tree:"
PRINTER = "elog_node_display"  # the server's function that sends it; what RAISE sends comes from another
TELLING = {"client_min_messages": "log", "debug_pretty_print": "off", "debug_print_rewritten": "on"}
# What is held is gathered before what stands beside it is put back. Every name has its schema, also that of the type:
# the path is what the query's code has left.
HELD: LiteralString = """
SELECT pg_catalog.array_agg(pg_catalog.current_setting(s.name)) AS held,
       pg_catalog.set_config('debug_print_rewritten', 'off', true),
       pg_catalog.set_config('search_path', 'pg_catalog', true)
FROM pg_catalog.unnest(%s::pg_catalog.text[]) AS s (name)
"""
FUNCTIONS = frozenset({"funcid", "aggfnoid", "winfnoid", "startInRangeFunc", "endInRangeFunc", "tsmhandler"})
OPERATORS = frozenset({"opno", "opnos", "eqop", "sortop", "cycle_mark_neop"})
# Nodes and the field that names what they call: each must have been found, or the tree has not been understood.
EXPECTED = {
    "FUNCEXPR": "funcid",
    "AGGREF": "aggfnoid",
    "WINDOWFUNC": "winfnoid",
    "OPEXPR": "opno",
    "DISTINCTEXPR": "opno",
    "NULLIFEXPR": "opno",
    "SCALARARRAYOPEXPR": "opno",
    "ROWCOMPAREEXPR": "opnos",
    "SORTGROUPCLAUSE": "eqop",
    "TABLESAMPLECLAUSE": "tsmhandler",
}
# Names and literals cannot fake a field or hide one: in names blanks and braces are escaped, literals are bytes.
FIELD = re.compile(r":(\w+)\s+(?:(\d+)(?=\s)|\(o((?:\s+\d+)+)\))")
NODE = re.compile(r"(?<!\\)\{([A-Z]+)\s")
SAMPLE = re.compile(r"\{TABLESAMPLECLAUSE\s[^{}]*?:args.*?:repeatable\s+<>", re.DOTALL)
# The types that are numbers of objects and look like their names, and arrays of them; not regconfig and regdictionary.
NAMED = frozenset({24, 2202, 2203, 2204, 2205, 4096, 4089, 4191, 1008, 2207, 2208, 2209, 2210, 4097, 4090, 4192})
OBJECTS = NAMED | {2206, 2211}  # regtype, which a literal may be: pg_typeof(x) = 'text'::regtype
CLOCK = re.compile(r"\{SQLVALUEFUNCTION\s+:op\s+[0-8]\s")  # CURRENT_DATE … LOCALTIMESTAMP(n); then CURRENT_ROLE …


@dataclass(frozen=True)
class Uses:
    """The oids of what a tree uses; types only where they are not the server's own."""

    functions: frozenset[int] = frozenset()
    operators: frozenset[int] = frozenset()
    types: frozenset[int] = frozenset()
    relations: frozenset[int] = frozenset()
    reads_clock: bool = False
    locks_rows: bool = False
    names_objects: bool = False  # casts a value to regclass or the like, which looks it up in the catalogue
    samples: bool = False  # by TABLESAMPLE without REPEATABLE

    def __bool__(self) -> bool:
        return bool(self.functions or self.operators or self.types or self.relations)

    def __sub__(self, other: "Uses") -> "Uses":
        return Uses(
            self.functions - other.functions,
            self.operators - other.operators,
            self.types - other.types,
            self.relations - other.relations,
        )

    def __or__(self, other: "Uses") -> "Uses":
        return Uses(
            self.functions | other.functions,
            self.operators | other.operators,
            self.types | other.types,
            self.relations | other.relations,
            self.reads_clock or other.reads_clock,
            self.locks_rows or other.locks_rows,
            self.names_objects or other.names_objects,
            self.samples or other.samples,
        )


def read_tree(text: str) -> Uses:
    """What a node tree uses, by oid."""
    oids: dict[str, set[int]] = {}
    found: Counter[str] = Counter()
    for name, one, many in FIELD.findall(text):
        found[name] += 1
        oids.setdefault(name, set()).update(map(int, many.split() if many else [one]))
    nodes = Counter(NODE.findall(text))
    _check_understood(nodes, found, oids)
    return Uses(
        functions=_gather(oids, FUNCTIONS),
        operators=_gather(oids, OPERATORS),
        types=frozenset(
            oid
            for name, values in oids.items()
            if "type" in name.lower() or name.endswith("typid")
            for oid in values
            if oid >= FIRST_USER_OID
        ),
        relations=_gather(oids, frozenset({"relid"})),
        reads_clock=CLOCK.search(text) is not None,
        locks_rows="ROWMARKCLAUSE" in nodes,
        names_objects=not OBJECTS.isdisjoint(oids.get("resulttype", ()))
        or not NAMED.isdisjoint(oids.get("consttype", ())),
        samples=SAMPLE.search(text) is not None,
    )


def rewritten_tree(conn: Connection, select: str) -> str:
    """The tree of a SELECT, as this transaction would run it; leaves search_path at pg_catalog alone."""
    conn.execute(
        """
        SELECT CASE WHEN pg_catalog.has_parameter_privilege('log_min_messages', 'SET')
                    THEN pg_catalog.set_config('log_min_messages', 'panic', true) END,
               pg_catalog.set_config(name, value, true)
        FROM ROWS FROM (pg_catalog.unnest(%s::text[]), pg_catalog.unnest(%s::text[])) AS s (name, value)
        """,
        [list(TELLING), list(TELLING.values())],
    )
    with _listening(conn) as trees:
        _prepare(conn, select)
    row = fetch_one(conn, HELD, [list(TELLING)])
    held = row is not None and row["held"] == list(TELLING.values())
    if len(trees) != 1 or not held:
        raise ConfigError.of(Refusal.READING_NOT_SHOWN)
    return trees[0]


@dataclass
class _Trees:
    found: list[str] = field(default_factory=list)

    def hear(self, diagnostic: errors.Diagnostic) -> None:
        if diagnostic.message_primary == TITLE and diagnostic.source_function == PRINTER:
            self.found.append(diagnostic.message_detail or "")


@contextmanager
def _listening(conn: Connection) -> Iterator[list[str]]:
    trees = _Trees()
    hear = trees.hear
    conn.add_notice_handler(hear)
    try:
        yield trees.found
    finally:
        conn.remove_notice_handler(hear)


def _prepare(conn: Connection, select: str) -> None:
    try:
        prepare(conn, select.encode())
    except Error as error:
        if isinstance(error, NotSupportedError) or (error.sqlstate or "").startswith(TOO_COMPLEX):
            raise ConfigError.of(Refusal.SERVER_CANNOT_READ, error=error.diag.message_primary) from error
        raise


def _gather(oids: Mapping[str, set[int]], names: Set[str]) -> frozenset[int]:
    return frozenset(oid for name in names for oid in oids.get(name, ()) if oid)


def _check_understood(nodes: Counter[str], found: Counter[str], oids: Mapping[str, set[int]]) -> None:
    missed = [
        name for name in set(EXPECTED.values()) if sum(nodes[n] for n, f in EXPECTED.items() if f == name) > found[name]
    ]
    if missed or oids.get("commandType", {1}) != {1}:
        raise ConfigError.of(Refusal.READING_NOT_UNDERSTOOD)

"""What the result of a query depends on besides rows: views, functions, types, policies, collations, settings …

`find_needs` says which things these are, from the server's own tree; `look` how each of them is now. A fact that is not
what it was means that the mart may be wrong though no row has changed. `stamps` has the same in brief, for between two
slices.

Not seen: what a function calls in a body that is a text (plpgsql, SQL without BEGIN ATOMIC, C), files of the server
(dictionaries, time zones, libraries), and settings of an extension that the server's configuration file gives.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from functools import reduce
from hashlib import sha256
from json import dumps
from operator import or_
from typing import Any, TypeAlias

from vitrina.meta.db import Connection, fetch_all, fetch_one, queries, transaction
from vitrina.sql.calls import Resolved, resolve_uses
from vitrina.sql.describe import FIRST_USER_OID
from vitrina.sql.tree import FIELD, rewritten_tree

SQL = queries("catalogue")
FLAG, PATH = "text_search", "search_path"
ALONE = {"search_path": "pg_catalog"}
# Settings that change results and have no value that would suit everybody; all others are pinned, see meta/db.py.
SETTINGS = ("default_text_search_config", "lc_monetary", "lc_numeric", "lc_time", "timezone_abbreviations")
ALWAYS = ("casts", "settings", "given")
SORTS = (*ALWAYS, "relations", "constraints", "functions", "operators", "types", "collations", "roles", "names", FLAG)
OF = {"constraints": "relations"}
TEXT_SEARCH = {3614, 3615, 3734, 3769}  # tsvector, tsquery, regconfig, regdictionary

Facts: TypeAlias = dict[str, dict[str, Any]]
"""By `class:id`, how a thing is."""


@dataclass(frozen=True)
class Needs:
    """The things that one query depends on, or several do: oids at their source, and names."""

    relations: tuple[int, ...] = ()
    views: tuple[int, ...] = ()  # those of the relations that are
    functions: tuple[int, ...] = ()
    operators: tuple[int, ...] = ()
    types: tuple[int, ...] = ()
    collations: tuple[int, ...] = ()
    names: tuple[str, ...] = ()
    roles: tuple[int, ...] = ()  # whose rights policies are asked about
    text_search: bool = False

    def __or__(self, other: "Needs") -> "Needs":
        """What either needs."""
        both = {name: sorted({*mine, *getattr(other, name)}) for name, mine in vars(self).items() if name != FLAG}
        return Needs.parse(both | {FLAG: self.text_search or other.text_search})

    @classmethod
    def parse(cls, found: Mapping[str, Any]) -> "Needs":
        """From what `as_json` gives."""
        known = {field.name for field in fields(cls)} - {FLAG}
        return cls(**{name: tuple(found[name]) for name in known}, text_search=found[FLAG])

    def as_json(self) -> dict[str, Any]:
        """To be stored."""
        return asdict(self)

    def wanted(self) -> Iterator[str]:
        """Of the facts that matter to it."""
        for kind, ids in (
            *(("relation", self.relations), ("constraints", self.relations), ("function", self.functions)),
            *(("operator", self.operators), ("type", self.types), ("collation", self.collations)),
            *(("name", self.names), ("role", self.roles), ("setting", ("given", PATH, *SETTINGS)), ("casts", ("",))),
        ):
            yield from (f"{kind}:{id_}" for id_ in ids)
        if self.text_search:
            yield "text search:"


def needs_of(conn: Connection, settings: Mapping[str, str], select: str) -> Needs:
    """What a SELECT depends on, as this reader runs it. It may not have been judged yet, so nothing of it is kept."""
    with transaction(conn, settings, read_only=True, keep=False):
        tree = rewritten_tree(conn, select)
        return find_needs(conn, tree, resolve_uses(conn, tree))


def find_needs(conn: Connection, tree: str, resolved: Resolved) -> Needs:
    """What a tree depends on; search_path must be pg_catalog alone."""
    uses, oids = resolved.uses, _oids(tree)
    params = {
        "functions": sorted(uses.functions | {call.oid for call in resolved.calls}),
        "called": sorted(uses.functions),
        "operators": sorted(uses.operators),
        "types": sorted(uses.types),
        "relations": sorted(uses.relations),
        "collations": sorted(oid for name, oid in oids if "coll" in name),
        "first_user_oid": FIRST_USER_OID,
    }
    row = fetch_one(conn, SQL["needs"], params)
    assert row is not None
    return Needs.parse(row | {FLAG: any("type" in name and oid in TEXT_SEARCH for name, oid in oids)})


def _oids(tree: str) -> set[tuple[str, int]]:
    found = ((name.lower(), many.split() if many else [one]) for name, one, many in FIELD.findall(tree))
    return {(name, int(oid)) for name, values in found for oid in values}


def look(conn: Connection, needs: Needs, settings: Mapping[str, str]) -> Facts:
    """How each of these things is now, for a query that runs with these settings; one that is gone is missing.

    One statement, of the sorts that there are: most of what it costs is planning.
    """
    params: dict[str, Any] = {name: list(value) for name, value in vars(needs).items() if name != FLAG}
    params |= {"settings": list(SETTINGS), "first_user_oid": FIRST_USER_OID}
    kinds = [kind for kind in SORTS if kind in ALWAYS or getattr(needs, OF.get(kind, kind))]
    with transaction(conn, ALONE, read_only=True):
        rows = fetch_all(conn, " UNION ALL ".join(SQL[kind] for kind in kinds), params)
    path = {f"setting:{PATH}": {"name": PATH, "value": settings[PATH]}}
    return path | {row["key"]: row["facts"] for row in rows}


def digest(facts: Facts, needs: Needs) -> str:
    """Of the facts that matter to a query: another one if one of them differs."""
    kept = {key: facts[key] for key in needs.wanted() if key in facts}
    return sha256(dumps(kept, sort_keys=True).encode()).hexdigest()[:16]


def together(needs: Iterable[Needs]) -> Needs:
    """What all of them need."""
    return reduce(or_, needs, Needs())

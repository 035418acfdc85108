"""What the oids of a tree mean: tables with their columns and keys, functions, operators, types."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from psycopg.rows import DictRow

from vitrina.meta.db import Connection, fetch_all, queries
from vitrina.sql.live.nodes import Node, walk

# Types whose equal values are the same value to every function: not numeric (1.0, 1.00), floats (-0), bpchar, citext.
BOOL, TEXT, VARCHAR, BPCHAR, NAME, UNKNOWN = 16, 25, 1043, 1042, 19, 705
INT8, INT2, INT4, OID, UUID, DATE = 20, 21, 23, 26, 2950, 1082
EXACT = frozenset([BOOL, 17, 18, NAME, INT8, INT2, INT4, TEXT, OID, VARCHAR, DATE, 1083, 1114, 1184, UUID])
TEXTS = frozenset([TEXT, VARCHAR, BPCHAR, NAME, UNKNOWN])
COLLATION_FIELDS = ("varcollid", "inputcollid", "opcollid", "funccollid", "collOid", "resultcollid", "constcollid")
CALL_FIELDS = ("funcid", "aggfnoid", "winfnoid")
TYPE_FIELDS = (
    "vartype",
    "consttype",
    "resulttype",
    "opresulttype",
    "paramtype",
    "funcresulttype",
    "coalescetype",
    "casetype",
    "minmaxtype",
    "typeId",
)


@dataclass(frozen=True)
class ColumnInfo:
    """A column of a table."""

    name: str
    type: int
    required: bool
    generated: bool


@dataclass(frozen=True)
class TableInfo:
    """A relation that the query reads."""

    schema: str
    name: str
    kind: str
    root: str
    readable: bool
    policed: bool
    has_heirs: bool
    has_foreign_parts: bool
    columns: Mapping[int, ColumnInfo] = field(default_factory=dict)
    keys: tuple[frozenset[str], ...] = ()  # unique, and never NULL

    @property
    def qualified(self) -> str:
        """schema.name, for people."""
        return f"{self.schema}.{self.name}"


@dataclass(frozen=True)
class FunctionInfo:
    """A function."""

    schema: str
    name: str
    strict: bool


@dataclass(frozen=True)
class OperatorInfo:
    """An operator; `equality`: what a btree calls equal."""

    schema: str
    name: str
    strict: bool
    left: int
    right: int
    equality: bool


@dataclass(frozen=True)
class Catalog:
    """Everything that a tree names by oid."""

    tables: Mapping[int, TableInfo]
    functions: Mapping[int, FunctionInfo]
    operators: Mapping[int, OperatorInfo]
    types: Mapping[int, str]
    exact: frozenset[int]  # types whose equal values are the same value
    encoding: str = "ascii"  # how texts are kept


def look_up(conn: Connection, tree: Node) -> Catalog:
    """Look up what a tree names; search_path must be pg_catalog alone."""
    nodes = list(walk(tree))
    types = _fetch(conn, "types", _numbers(nodes, *TYPE_FIELDS))
    loose = frozenset(row["oid"] for row in _fetch(conn, "loose_collations", []))
    exact = EXACT | {row["oid"] for row in types if row["enum"]}
    return Catalog(
        tables=_tables(conn, _numbers(nodes, "relid")),
        functions={
            oid: FunctionInfo(**row) for oid, row in _by_oid(_fetch(conn, "functions", _numbers(nodes, *CALL_FIELDS)))
        },
        operators={
            oid: OperatorInfo(**row) for oid, row in _by_oid(_fetch(conn, "operators", _numbers(nodes, "opno")))
        },
        types={row["oid"]: row["name"] for row in types},
        exact=exact - TEXTS if loose.intersection(_numbers(nodes, *COLLATION_FIELDS)) else exact,
        encoding="utf-8" if conn.info.parameter_status("server_encoding") == "UTF8" else "ascii",
    )


def _tables(conn: Connection, oids: list[int]) -> dict[int, TableInfo]:
    columns: dict[int, dict[int, ColumnInfo]] = {oid: {} for oid in oids}
    for oid, row in _by_oid(_fetch(conn, "columns", oids)):
        number = row.pop("number")
        columns[oid][number] = ColumnInfo(**row)
    keys: dict[int, list[frozenset[str]]] = {oid: [] for oid in oids}
    for oid, row in _by_oid(_fetch(conn, "unique_keys", oids)):
        members = [columns[oid][number] for number in row["numbers"]]
        if all(member.required for member in members):
            keys[oid].append(frozenset(member.name for member in members))
    found = _by_oid(_fetch(conn, "tables", oids))
    return {oid: TableInfo(**row, columns=columns[oid], keys=tuple(keys[oid])) for oid, row in found}


def _fetch(conn: Connection, name: str, oids: list[int]) -> list[DictRow]:
    return fetch_all(conn, queries("live")[name], {"oids": oids})


def _by_oid(rows: Iterable[DictRow]) -> Iterator[tuple[int, dict[str, Any]]]:
    for row in rows:
        yield row["oid"], {name: value for name, value in row.items() if name != "oid"}


def _numbers(nodes: Iterable[Node], *names: str) -> list[int]:
    return sorted({node.number(name) for node in nodes for name in names if node[name]} - {0})

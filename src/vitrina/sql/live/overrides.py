"""Impact queries of the user's own: checked for their form, and put in the place of ours."""

from collections.abc import Iterator, Mapping, Sequence

from psycopg import sql

from vitrina.domain.errors import ConfigError
from vitrina.domain.findings import Code
from vitrina.domain.refusals import Refusal
from vitrina.meta.db import Connection, transaction
from vitrina.sql.lineage import tables_of
from vitrina.sql.live.impact import CHANGED, COMMA, Occurrence
from vitrina.sql.live.nodes import Node, parse_tree
from vitrina.sql.tree import rewritten_tree

CTE, JOIN = "6", "2"  # rtekind
EXAMPLE = "SELECT link.film_id FROM content.link JOIN changed c ON c.id = link.genre_id"


def guardable(table: str, query: str) -> str:
    """The user's impact query as a SELECT that stands alone, with `changed` as the table itself: what to guard."""
    text = sql.SQL("WITH {} AS (SELECT * FROM {}) SELECT * FROM (\n{}\n) AS touched")
    return text.format(sql.Identifier(CHANGED), sql.Identifier(*table.split(".", 1)), sql.SQL(query)).as_string(None)


def override(conn: Connection, settings: Mapping[str, str], table: str, query: str, key: Sequence[str]) -> Occurrence:
    """The occurrence that stands for all occurrences of a table; a ConfigError says what is wrong with the query."""
    if f".{CHANGED}" not in tables_of(query, ctes=True):
        raise ConfigError.of(Refusal.IMPACT_WITHOUT_CHANGED, table=table, relation=CHANGED, example=EXAMPLE)
    with transaction(conn, settings, read_only=True):
        tree = parse_tree(rewritten_tree(conn, guardable(table, query)))
    given = [str(entry["resname"]) for entry in tree.items("targetList") if not entry.flag("resjunk")]
    if not given:
        raise ConfigError.of(Refusal.IMPACT_GIVES_NOTHING, table=table, key=list(key))
    if strange := [name for name in given if name not in key]:
        raise ConfigError.of(Refusal.IMPACT_GIVES, table=table, columns=strange, key=list(key))
    names = tuple(name for name in key if name in given)
    select = sql.SQL("SELECT {} FROM (\n{}\n) AS own").format(COMMA.join(map(sql.Identifier, names)), sql.SQL(query))
    return Occurrence(
        table=table,
        alias=CHANGED,
        code=Code.REFRESHES_OWN,
        data={"table": table},
        key=names,
        columns=_columns(tree),
        selects=(select,),
    )


def _columns(tree: Node) -> tuple[str, ...]:
    """The columns of `changed` that the query names."""
    return tuple(sorted(set(_named(tree, ()))))


def _named(node: Node, around: tuple[Node, ...]) -> Iterator[str]:
    if node.kind == "QUERY":
        around = (*around, node)
    elif node.kind == "VAR":
        yield from _of_var(node, around)
    elif node.kind == "RANGETBLENTRY" and node["rtekind"] == JOIN:
        return  # it lists every column of both sides; a column that is used is found through its Var
    for child in node.children():
        yield from _named(child, around)


def _of_var(var: Node, around: tuple[Node, ...]) -> Iterator[str]:
    if var.number("varlevelsup") >= len(around):
        return
    query = around[len(around) - 1 - var.number("varlevelsup")]
    entry = query.items("rtable")[var.number("varno") - 1]
    number = var.number("varattno")
    if entry["rtekind"] == JOIN and number > 0:
        yield from _named(entry.items("joinaliasvars")[number - 1], (*around[: around.index(query)], query))
    elif entry["rtekind"] == CTE and entry["ctename"] == CHANGED:
        names = [str(name) for name in entry["eref"].items("colnames")]
        yield from names if number == 0 else [names[number - 1]]

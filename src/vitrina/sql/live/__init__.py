"""Live marts: which keys of the mart does a changed row of a source table touch?

Read in this order: `blocks` (the query as blocks), `changes` (what holds around a changed row), `paths` (the way to the
key), `verdicts` (one verdict for each occurrence), `impact` (the query that finds the keys). The rules R1 to R10 that
the docstrings name are told in docs/live.md.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from vitrina.domain.errors import ConfigError
from vitrina.meta.db import Connection, transaction
from vitrina.sql.calls import resolve_uses
from vitrina.sql.live.blocks import read_variants
from vitrina.sql.live.catalog import Catalog, look_up
from vitrina.sql.live.impact import Occurrence
from vitrina.sql.live.nodes import Node, parse_tree, walk
from vitrina.sql.live.overrides import guardable, override
from vitrina.sql.live.refusals import refuse
from vitrina.sql.live.ties import Tie, find_ties
from vitrina.sql.live.verdicts import judge
from vitrina.sql.live.warnings import find_warnings
from vitrina.sql.rules import Finding
from vitrina.sql.tree import rewritten_tree

__all__ = ["LiveView", "Occurrence", "Tie", "guardable", "understand"]


@dataclass(frozen=True)
class LiveView:
    """A SELECT understood: what to capture, and what each change means."""

    tables: tuple[str, ...]
    occurrences: tuple[Occurrence, ...]
    warnings: tuple[Finding, ...] = ()
    ties: tuple[Tie, ...] = ()  # where `recompute` may put a restriction to some keys


def understand(
    conn: Connection,
    settings: Mapping[str, str],
    select: str,
    key: Sequence[str],
    overrides: Mapping[str, str] | None = None,
) -> LiveView:
    """What a change of each table means for the mart; a ConfigError says why the query cannot be live.

    `conn` is the reader's and `settings` what the query will run with, as for the guard, which goes first. Nothing is
    executed or created.
    """
    try:
        return _understand(conn, settings, select, key, overrides or {})
    except RecursionError as error:
        raise ConfigError("the query is nested too deeply to be live", "use mode full on a schedule") from error


def _understand(
    conn: Connection, settings: Mapping[str, str], select: str, key: Sequence[str], overrides: Mapping[str, str]
) -> LiveView:
    with transaction(conn, settings, read_only=True):
        text = rewritten_tree(conn, select)
        resolved = resolve_uses(conn, text)
        tree = parse_tree(text)
        catalog = look_up(conn, tree)
    refuse(select, tree, catalog, resolved)
    outputs = _outputs(tree, key)
    models = read_variants(tree, catalog)
    occurrences = judge(models, catalog, outputs, key) if models else _too_many(catalog, tree)
    for table, query in overrides.items():
        own = override(conn, settings, table, query, key)
        occurrences = _put(own, occurrences)
    tables = tuple(sorted({o.table for o in occurrences}))
    ties = find_ties(models[0], outputs) if models else ()
    return LiveView(tables, tuple(occurrences), find_warnings(models, catalog, tree), ties)


def _put(own: Occurrence, occurrences: Sequence[Occurrence]) -> list[Occurrence]:
    others = [occurrence for occurrence in occurrences if occurrence.table != own.table]
    if len(others) == len(occurrences):
        read = ", ".join(sorted({occurrence.table for occurrence in occurrences}))
        raise ConfigError(f"impact names {own.table}, which the query does not read", f"it reads {read}")
    return [*others, own]


def _outputs(tree: Node, key: Sequence[str]) -> dict[str, int]:
    """The numbers of the key's columns."""
    entries = [entry for entry in tree.items("targetList") if not entry.flag("resjunk")]
    numbers = {entry["resname"]: entry.number("resno") for entry in entries}
    if missing := [name for name in key if name not in numbers]:
        raise ConfigError(f"the query gives no column {', '.join(missing)}, which the key names")
    return {name: numbers[name] for name in key}


def _too_many(catalog: Catalog, tree: Node) -> list[Occurrence]:
    read = sorted({node.number("relid") for node in walk(tree) if node["rtekind"] == "0" and node["relkind"] != "v"})
    reason = "the query has too many UNION branches to follow"
    return [
        Occurrence(table.root, table.name, "everything", f"a change in {table.root} refreshes everything: {reason}")
        for table in (catalog.tables[oid] for oid in read)
    ]

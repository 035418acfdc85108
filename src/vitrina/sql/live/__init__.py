"""Live marts: which keys of the mart does a changed row of a source table touch?

Read in this order: `blocks` (the query as blocks), `changes` (what holds around a changed row), `paths` (the way to the
key), `verdicts` (one verdict for each occurrence), `impact` (the query that finds the keys). The rules R1 to R12 that
the docstrings name are told in docs/live.md.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from vitrina.domain.errors import ConfigError
from vitrina.domain.findings import Finding
from vitrina.domain.reasons import Reason
from vitrina.domain.refusals import Refusal
from vitrina.meta.db import Connection, transaction
from vitrina.sql.calls import resolve_uses
from vitrina.sql.dependencies import Needs, find_needs, needs_of
from vitrina.sql.live.blocks import Model, alias_of, read_variants
from vitrina.sql.live.catalog import Catalog, look_up
from vitrina.sql.live.chance import decided_by_chance
from vitrina.sql.live.impact import Occurrence, everything
from vitrina.sql.live.nodes import Node, parse_tree
from vitrina.sql.live.overrides import guardable, override
from vitrina.sql.live.refusals import refuse
from vitrina.sql.live.ties import Tie, find_ties
from vitrina.sql.live.verdicts import judge
from vitrina.sql.live.warnings import find_warnings
from vitrina.sql.tree import rewritten_tree

__all__ = ["LiveView", "Occurrence", "Tie", "guardable", "judge_tree", "understand"]


@dataclass(frozen=True)
class LiveView:
    """A SELECT understood: what to capture, and what each change means."""

    tables: tuple[str, ...]
    occurrences: tuple[Occurrence, ...]
    warnings: tuple[Finding, ...] = ()
    ties: tuple[Tie, ...] = ()  # where `recompute` may put a restriction to some keys
    needs: Needs = field(default_factory=Needs)  # what all of it depends on besides rows


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
        raise ConfigError.of(Refusal.TOO_DEEP_TO_BE_LIVE) from error


def _understand(
    conn: Connection, settings: Mapping[str, str], select: str, key: Sequence[str], overrides: Mapping[str, str]
) -> LiveView:
    with transaction(conn, settings, read_only=True):
        text = rewritten_tree(conn, select)
        resolved = resolve_uses(conn, text)
        tree = parse_tree(text)
        catalog = look_up(conn, tree)
        needs = find_needs(conn, text, resolved)
    refuse(select, tree, catalog, resolved)
    view = _derive(tree, catalog, key)
    for table, query in overrides.items():
        own = override(conn, settings, table, query, key)
        view = replace(view, occurrences=_put(own, view.occurrences))
        needs |= needs_of(conn, settings, guardable(table, query))
    return replace(view, needs=needs)


def _derive(tree: Node, catalog: Catalog, key: Sequence[str]) -> LiveView:
    models = read_variants(tree, catalog)
    occurrences = judge_tree(tree, models, catalog, key)
    tables = tuple(sorted({o.table for o in occurrences}))
    ties = find_ties(models[0], _outputs(tree, key)) if models else ()
    return LiveView(tables, tuple(occurrences), find_warnings(models, catalog, tree), ties)


def judge_tree(tree: Node, models: Sequence[Model], catalog: Catalog, key: Sequence[str]) -> list[Occurrence]:
    """The verdict on every occurrence, by the tree alone; what no model reads is not followed, so it is everything."""
    outputs = _outputs(tree, key)
    if not models:
        return _everything(_relations(tree), catalog, Reason.TOO_MANY_BRANCHES)
    if decided_by_chance(tree, models, catalog, outputs.values()):
        return _everything(_relations(tree), catalog, Reason.TIED)
    read = {id(table.entry) for model in models for table in model.tables.values()}
    unread = [entry for entry in _relations(tree) if id(entry) not in read]
    return judge(models, catalog, outputs, key) + _everything(unread, catalog, Reason.READ_UNFOLLOWED)


def _put(own: Occurrence, occurrences: Sequence[Occurrence]) -> tuple[Occurrence, ...]:
    others = [occurrence for occurrence in occurrences if occurrence.table != own.table]
    if len(others) == len(occurrences):
        read = ", ".join(sorted({occurrence.table for occurrence in occurrences}))
        raise ConfigError.of(Refusal.IMPACT_NOT_READ, table=own.table, read=read)
    return (*others, own)


def _outputs(tree: Node, key: Sequence[str]) -> dict[str, int]:
    """The numbers of the key's columns."""
    entries = [entry for entry in tree.items("targetList") if not entry.flag("resjunk")]
    numbers = {entry["resname"]: entry.number("resno") for entry in entries}
    if missing := [name for name in key if name not in numbers]:
        raise ConfigError.of(Refusal.LIVE_KEY_NOT_GIVEN, columns=missing)
    return {name: numbers[name] for name in key}


def _relations(node: Node) -> Iterator[Node]:
    """The tables of a tree, where it reads them; a CTE that nothing names is not read, nor is a view itself."""
    if node.kind == "COMMONTABLEEXPR" and not node.number("cterefcount"):
        return
    if node["rtekind"] == "0" and node["relkind"] != "v":
        yield node
    for child in node.children():
        yield from _relations(child)


def _everything(entries: Iterable[Node], catalog: Catalog, reason: Reason) -> list[Occurrence]:
    read = sorted({(catalog.tables[entry.number("relid")].root, alias_of(entry)) for entry in entries})
    return [everything(table, alias, reason.of()) for table, alias in read]

"""Which subqueries and views of a FROM have a column that is the key: where a restriction to some keys may be put."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from vitrina.sql.live.blocks import Block, Condition, Model
from vitrina.sql.live.changes import usable_from
from vitrina.sql.live.exprs import Call, Expr, Ref, parts, strip


@dataclass(frozen=True)
class Tie:
    """An item of the outermost FROM, its column, and the key column that it equals."""

    alias: str
    column: str
    key: str


def find_ties(model: Model, outputs: Mapping[str, int]) -> tuple[Tie, ...]:
    """The ties of a query whose rows of one key do not depend on rows of another.

    The key must come from an item that is always there; then a row that a restriction takes away from a subquery can
    only have been joined to rows of other keys.
    """
    top = model.top
    moved = top.limited or top.partitions or top.distinct_on or top.grouping_sets or top.node["setOperations"]
    if moved or (top.aggregated and not top.group):
        return ()
    found: list[Tie] = []
    for name, number in outputs.items():
        key = top.outputs[number]
        if isinstance(key, Ref) and key.block == top.id and _is_always_there(top, key.item):
            found += _tied(top, name, key)
    return tuple(found)


def _tied(top: Block, name: str, key: Ref) -> Iterator[Tie]:
    for number in sorted(top.leaves - {key.item}):
        entry = top.node.items("rtable")[number - 1]
        if isinstance(top.items[number], Block) and not entry.flag("lateral"):
            columns = [str(column) for column in entry["eref"].items("colnames")]
            for same in sorted(_equal_to(top, key, number)):
                yield Tie(str(entry["eref"]["aliasname"]), columns[same - 1], name)


def _is_always_there(top: Block, number: int) -> bool:
    return not any(number in side for join in top.joins for side in join.nullable)


def _equal_to(top: Block, key: Ref, number: int) -> set[int]:
    """The columns of an item that equal the key wherever the item has a row."""
    present, same = {number}, {key}
    size = -1
    while size != len(present) + len(same):
        size = len(present) + len(same)
        for condition in top.conditions:
            if condition.link is None and _holds(condition, present):
                sides = _sides(condition.expr)
                present |= {ref.item for ref in sides}
                same |= sides if sides & same else set()
    return {ref.number for ref in same if ref.item == number and ref.block == top.id}


def _sides(expr: Expr) -> set[Ref]:
    """Both sides of an equality of columns."""
    if not (isinstance(expr, Call) and expr.exact):
        return set()
    sides = [strip(part) for part in parts(expr)]
    refs = {side for side in sides if isinstance(side, Ref) and side.item}
    return refs if len(refs) == len(sides) else set()


def _holds(condition: Condition, present: set[int]) -> bool:
    join = condition.join
    return join is None or usable_from(join, bool(present & join.left), bool(present & join.right))

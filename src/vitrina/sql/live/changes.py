"""What holds for the rows that a change of one table occurrence can touch.

A changed row matters only to result rows that are made with it (or, for the nullable side of an outer join, that would
be). Whatever the query demands of such rows is a condition that a path from the change to the key may follow.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from vitrina.domain.reasons import COMPUTED, Reason
from vitrina.domain.wording import Because
from vitrina.sql.live.blocks import Block, Condition, Join, Model, Position, Table
from vitrina.sql.live.catalog import Catalog
from vitrina.sql.live.exprs import (
    COMPUTED_WITH_LOOSE,
    NONE,
    Call,
    Col,
    Const,
    Expr,
    Loose,
    Opaque,
    Ref,
    Row,
    bare,
    is_null,
    null_without,
    obstacle,
    parts,
    places,
    strip,
    transform,
    untrue_without,
    without,
)

GROUPING_SETS = Reason.GROUPING_SETS.of()


@dataclass(frozen=True)
class Demand:
    """A condition, its columns found: what must hold of the rows at hand."""

    condition: Condition
    expr: Expr

    @cached_property
    def strict_in(self) -> frozenset[str]:
        """The occurrences without whose row it is not true."""
        return untrue_without(self.expr)


@dataclass(eq=False)
class ChangedRow:
    """A changed row of one occurrence, in one variant of the query."""

    model: Model
    place: str
    catalog: Catalog
    _outputs: dict[tuple[str, int], Expr] = field(default_factory=dict)

    @cached_property
    def table(self) -> Table:
        """The occurrence."""
        return self.model.tables[self.place]

    @cached_property
    def dirty(self) -> frozenset[str]:
        """The blocks that contain it: their outputs may be other than they were."""
        return frozenset(block.id for block in self.table.block.chain())

    def output(self, block: Block, number: int) -> Expr:
        """An output of a block; of a dirty one only what the change leaves in place (R6)."""
        known = self._outputs.get((block.id, number))
        if known is None:
            known = self.resolve(block.outputs[number])
            if block.grouping_sets:
                known = always_grouped(self, block, known)
            if block.id in self.dirty:
                known = stable_output(self, block, known)
            self._outputs[block.id, number] = known
        return known

    def why_unstable(self, block: Block) -> Because | None:
        """Why none of a dirty block's columns may be followed; None when some may, or when it is a mere aggregate."""
        values = [self.output(block, number) for number in block.outputs]
        reasons = [value.reason for value in values if isinstance(value, Opaque)]
        telling = [reason for reason in reasons if reason.code not in COMPUTED]
        return telling[0] if telling and len(reasons) == len(values) else None

    def resolve(self, expr: Expr) -> Expr:
        """The expression over columns of tables."""
        return transform(expr, self._leaf)

    def _leaf(self, expr: Expr) -> Expr:
        if not isinstance(expr, Ref):
            return expr
        block = self.model.blocks[expr.block]
        if expr.item == 0:
            return self.output(block, expr.number)
        item = block.items.get(expr.item)
        if isinstance(item, Table):
            return _column(item, expr)
        if isinstance(item, Block):
            if expr.number < 1:
                return Opaque(Reason.WHOLE_ROW.of())
            return self._with_row(block, expr.item, item, self._retyped(self.output(item, expr.number), expr))
        return Opaque(item or Reason.UNKNOWN_VALUE.of())

    def _with_row(self, block: Block, number: int, item: Block, value: Expr) -> Expr:
        """A subquery's column, NULL where an outer join leaves the subquery out: a constant is not by itself (R4)."""
        inner = bare(value)
        if isinstance(inner, Opaque) or is_null(inner) or not any(number in side for side in _nullable_sides(block)):
            return value
        if is_null(without(inner, frozenset(self.model.under(block, frozenset([number]))))):
            return value
        rows = sorted(self._steady(item))
        if not rows:
            return Opaque(Reason.LEFT_EMPTY.of())
        there = Call("of", (), (inner, Row(rows[0])), inner.type, strict=True)
        return Loose(there) if isinstance(value, Loose) else there

    def _retyped(self, value: Expr, ref: Ref) -> Expr:
        """A branch of a UNION may have a type of its own, which is cast later: that is not followed."""
        inner = bare(value)
        if isinstance(inner, Opaque) or inner.type == ref.type:
            return value
        return Opaque(Reason.OTHER_TYPES.of())

    @cached_property
    def demands(self) -> list[Demand]:
        """Every condition of the query, its columns found."""
        return [
            Demand(condition, self.resolve(condition.expr))
            for block in self.model.blocks.values()
            for condition in block.conditions
        ]

    def closure(self, present: Iterable[str], *, changed: bool = True) -> frozenset[str]:
        """With these rows at hand, which others must be there too? Where nothing changed, no IN speaks for them."""
        demands = [d for d in self.demands if d.condition.link is None or (changed and self.holds(d))]
        found = frozenset(present)
        while True:
            more = found.union(*(d.strict_in for d in demands if self.is_implied(d.condition, found)))
            if more == found:
                return found
            found = more

    def is_implied(self, condition: Condition, present: frozenset[str]) -> bool:
        """Whether a condition must hold when these rows are at hand (R3)."""
        if condition.link is not None:
            return condition.link.id in self.dirty
        block, join = condition.block, condition.join
        here = {number for place in present for b, number in self.model.within(place) if b is block}
        if join is None:
            return bool(here)
        left, right = bool(here & join.left), bool(here & join.right)
        return usable_from(join, left, right)

    def is_usable(self, demand: Demand) -> bool:
        """Whether a demand that is implied may be followed: every row it names is needed for it to be true (R2)."""
        if obstacle(demand.expr):
            return False
        return self.holds(demand) and is_strict_enough(demand, self.flipping)

    def holds(self, demand: Demand) -> bool:
        """Whether the test of an IN is true of the changed row wherever its answer changes (R9)."""
        return not demand.condition.guarded or self._has_no_nulls(demand)

    def _has_no_nulls(self, demand: Demand) -> bool:
        """Whether neither side of an IN can be NULL (R9)."""
        expr = demand.expr
        sides = [strip(arg) for arg in expr.args] if isinstance(expr, Call) else []
        return all(isinstance(side, Col) and side.required and not self.is_nullable(side.place) for side in sides)

    def is_nullable(self, place: str) -> bool:
        """Whether an outer join may leave its row out."""
        return any(number in side for block, number in self.model.within(place) for side in _nullable_sides(block))

    @cached_property
    def steady(self) -> frozenset[str]:
        """The occurrences that have a row in everything the query makes, changes aside."""
        return frozenset(self._steady(self.model.top))

    @cached_property
    def around(self) -> frozenset[str]:
        """The occurrences that have a row wherever the changed one matters, itself included."""
        found, late = {self.place}, False
        for block in self.table.block.chain():
            if block.needs_rows or not late:
                found.update(self._steady(block))
            late = block.linked and block.late
        return frozenset(found)

    def _steady(self, block: Block) -> Iterator[str]:
        for number in block.leaves:
            if any(number in side for side in _nullable_sides(block)):
                continue
            item = block.items[number]
            if isinstance(item, Table):
                yield item.place
            elif isinstance(item, Block) and item.needs_rows:
                yield from self._steady(item)

    @cached_property
    def flipping(self) -> frozenset[str]:
        """The occurrences that the change can make appear in, or vanish from, rows that stay: sides of outer joins."""
        found: set[str] = set()
        position: Position = self.table.number
        for block in self.table.block.chain():
            for side in _flipped(block, position):
                found.update(self.model.under(block, side))
            position = block.position
        return frozenset(found)


def usable_from(join: Join, left: bool, right: bool) -> bool:
    """Whether a join's ON holds, given which of its sides have a row (R3)."""
    if join.kind == "inner":
        return left or right
    return {"left": right, "right": left, "full": left and right}[join.kind]


def is_strict_enough(demand: Demand, flipping: frozenset[str]) -> bool:
    """Whether a demand speaks of all its rows: one that lets a missing row pass is no path for what may go missing."""
    return not (places(demand.expr) - demand.strict_in) & flipping


def stable_output(change: ChangedRow, block: Block, value: Expr) -> Expr:
    """What of a dirty block's output a change leaves in place (R6): or Opaque, with the reason."""
    reason = obstacle(value)
    if not reason and places(value):
        reason = _moved(change, block, bare(value))
    if reason:
        return Opaque(reason)
    inner = bare(value)
    if block.merging and not isinstance(inner, Opaque | Const) and inner.type not in change.catalog.exact:
        return Loose(inner)
    return value


def always_grouped(change: ChangedRow, block: Block, value: Expr) -> Expr:
    """What of a block with GROUPING SETS is never left empty by one of them: what all of them group by (R6)."""
    covered = _covered(change, bare(value), _resolved(change, block.group_always))
    return value if covered or not places(value) else Opaque(GROUPING_SETS)


def _moved(change: ChangedRow, block: Block, value: Expr) -> Because | None:
    if block.limited:
        return Reason.LIMITED.of()
    if block.aggregated and not block.group:
        return Reason.OVER_ALL.of()
    if (
        block.group
        and not block.grouping_sets
        and not _covered(change, value, _resolved(change, block.group), grouped=True)
    ):
        return COMPUTED_WITH_LOOSE
    same = _Same(change, block)
    for partition in block.partitions:
        if not _covered(change, same(value), [same(atom) for atom in _resolved(change, partition)]):
            return Reason.OTHER_PARTITION.of()
    if block.distinct_on:
        atoms = [same(atom) for atom in _resolved(change, block.distinct_on)]
        if not _covered(change, same(value), atoms):
            return Reason.OTHER_DISTINCT.of()
    return None


def _resolved(change: ChangedRow, atoms: Iterable[Expr]) -> list[Expr]:
    return [bare(change.resolve(atom)) for atom in atoms]


def _covered(change: ChangedRow, value: Expr, atoms: list[Expr], *, grouped: bool = False, top: bool = True) -> bool:
    """Whether a value is computed from the atoms alone. The server lets a group give nothing but what depends on it."""
    if value in atoms:
        return top or isinstance(value, Opaque | Ref) or value.type in change.catalog.exact
    if isinstance(value, Col | Row):
        return grouped
    if isinstance(value, Opaque):
        return False
    return all(_covered(change, part, atoms, grouped=grouped, top=False) for part in parts(value))


@dataclass(frozen=True)
class _Same:
    """Writes columns that a block's own conditions make equal as one and the same."""

    change: ChangedRow
    block: Block

    def __call__(self, expr: Expr) -> Expr:
        return transform(expr, lambda leaf: self._names.get(leaf, leaf))

    @property
    def _names(self) -> Mapping[Expr, Expr]:
        steady = frozenset(self.change._steady(self.block))
        names: dict[Expr, Expr] = {}
        for condition in self.block.conditions:
            if condition.link is None and self.change.is_implied(condition, steady):
                _unite(names, self.change.resolve(condition.expr))
        return names


def _unite(names: dict[Expr, Expr], expr: Expr) -> None:
    if not (isinstance(expr, Call) and expr.exact):
        return
    one, other = (names.get(side, side) for side in map(strip, expr.args))
    if isinstance(one, Col) and isinstance(other, Col) and one.type == other.type:
        for name in [name for name, known in names.items() if known == other]:
            names[name] = one
        names[other] = one


def _column(table: Table, ref: Ref) -> Expr:
    info = table.info.columns.get(ref.number)
    if info is None:
        return Opaque(Reason.WHOLE_ROW.of())
    if info.generated:
        return Opaque(Reason.GENERATED.of(column=info.name))
    return Col(table.place, info.name, ref.type, info.required)


def _nullable_sides(block: Block) -> Iterator[frozenset[int]]:
    for join in block.joins:
        yield from join.nullable


def _flipped(block: Block, position: Position) -> Iterator[frozenset[int]]:
    """The sides of a block's outer joins that hang on what stands at a position."""
    if isinstance(position, int):
        yield from (side for side in _nullable_sides(block) if position in side)
    elif isinstance(position, Join):
        yield from position.nullable
        inside = position.left | position.right
        yield from (side for side in _nullable_sides(block) if inside <= side)


def key_strict(exprs: Iterable[Expr]) -> frozenset[str]:
    """The occurrences without whose row a key would be NULL, which no key is (R5)."""
    return NONE.union(*map(null_without, exprs))

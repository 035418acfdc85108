"""The shortest safe path from a changed row to the key: which tables to join, on what, and what then gives the key."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from heapq import heappop, heappush
from itertools import chain, combinations, count
from typing import TypeAlias

from vitrina.domain.reasons import Reason
from vitrina.domain.wording import Because
from vitrina.sql.live.changes import ChangedRow, Demand, key_strict
from vitrina.sql.live.exprs import (
    Call,
    Col,
    Const,
    Expr,
    bare,
    is_null,
    null_without,
    obstacle,
    places,
    simplify,
    strip,
    without,
)

MOST_OPTIONAL = 3
MOST_STEPS = 2_000
PLAIN, COMPUTED, UNEQUAL = 1, 2, 100  # what a step costs: a column's equality, another's, any other condition
EQUALS = ("pg_catalog", "=")

Keys: TypeAlias = Mapping[str, Expr]


@dataclass(frozen=True)
class Path:
    """A changed row joined with the current rows of other occurrences, and the key that they give."""

    joined: tuple[str, ...]  # the changed occurrence first
    keys: tuple[tuple[str, Expr], ...]
    conditions: tuple[Expr, ...]


@dataclass(frozen=True)
class NoPath:
    """Why there is none."""

    reason: Because


def find_paths(change: ChangedRow, keys: Keys, wanted: Sequence[str]) -> list[Path] | NoPath:
    """Paths that together give the wanted part of every key that a change can touch.

    Where a key can do without a row that an outer join may leave out, it is also given without that row (R4).
    """
    for name in wanted:
        if reason := obstacle(keys[name]):
            return NoPath(Reason.DEPENDS_ON.of(column=name, reason=reason))
    optional = optional_sources(change, keys, wanted)
    if len(optional) > MOST_OPTIONAL:
        return NoPath(Reason.TOO_MANY_JOINS.of(columns=list(wanted)))
    found: list[Path] = []
    for missing in _subsets(sorted(optional)):
        nulled = {name: without(expr, missing) for name, expr in keys.items()}
        if any(map(is_null, nulled.values())):
            continue
        sure = change.closure(change.around | key_strict(nulled.values()) | (optional - missing))
        path = _Finder(change, sure, missing - change.flipping).find({name: nulled[name] for name in wanted})
        if path is None:
            return NoPath(_untied(change, wanted))
        found.append(path)
    return list(dict.fromkeys(found))


def optional_sources(change: ChangedRow, keys: Keys, wanted: Iterable[str]) -> frozenset[str]:
    """The occurrences that the key is made of, and that may be missing while there is a key (R4)."""
    firm = change.closure(change.steady | key_strict(keys.values()), changed=False)
    loose = (places(keys[name]) - null_without(keys[name]) for name in wanted)
    return frozenset(chain.from_iterable(loose)) - firm


@dataclass
class _Finder:
    change: ChangedRow
    sure: frozenset[str]  # the occurrences that have a row
    missing: frozenset[str]  # those that have none

    def find(self, keys: Keys) -> Path | None:
        """The cheapest set of occurrences that are tied to the change and give the key."""
        waiting: list[tuple[int, int, int, tuple[str, ...], tuple[Expr, ...]]] = [(0, 1, 0, (self.change.place,), ())]
        seen: set[frozenset[str]] = set()
        numbers = count(1)  # so that equal costs are not compared by what follows
        while waiting and len(seen) < MOST_STEPS:
            cost, _, _, joined, used = heappop(waiting)
            here = frozenset(joined)
            if here in seen:
                continue
            seen.add(here)
            given = {name: self.express(expr, here) for name, expr in keys.items()}
            if None not in given.values():
                exprs = tuple((name, simplify(expr)) for name, expr in given.items() if expr is not None)
                return Path(joined, exprs, tuple(self._conditions(here, used)))
            for place, price, extra in self._steps(here):
                heappush(waiting, (cost + price, len(joined) + 1, next(numbers), (*joined, place), (*used, *extra)))
        return None

    def express(self, expr: Expr, here: frozenset[str]) -> Expr | None:
        """The expression over the rows at hand, columns that are equal put for each other (R10)."""
        expr = bare(expr)
        if places(expr) <= here:
            return expr
        for other in substitutes(self.classes, strip(expr)):
            if places(other) <= here and not isinstance(expr, Const):
                return _cast(other, expr)
        if not isinstance(expr, Call):
            return None
        args = [self.express(arg, here) for arg in expr.args]
        if None in args:
            return None
        return Call(expr.form, expr.name, tuple(a for a in args if a is not None), expr.type, expr.strict)

    @cached_property
    def usable(self) -> list[Demand]:
        """The conditions that hold and may be followed."""
        change = self.change
        found = [d for d in change.demands if change.is_implied(d.condition, self.sure)]
        if self.missing:
            found = [Demand(d.condition, without(d.expr, self.missing)) for d in found]
        return [d for d in found if change.is_usable(d)]

    @cached_property
    def classes(self) -> dict[Expr, list[Expr]]:
        """Expressions that are the same value, each with all of them."""
        found: dict[Expr, list[Expr]] = {}
        for demand in self.usable:
            if isinstance(demand.expr, Call) and demand.expr.exact and len(places(demand.expr)) > 1:
                one, other = map(strip, demand.expr.args)
                if places(one) and places(other):
                    together = list(dict.fromkeys([*found.get(one, [one]), *found.get(other, [other])]))
                    found.update(dict.fromkeys(together, together))
        return found

    @cached_property
    def others(self) -> list[Demand]:
        """The conditions that are no such equality."""
        return [d for d in self.usable if len(places(d.expr)) > 1 and strip(d.expr) not in self._exact]

    @cached_property
    def _exact(self) -> frozenset[Expr]:
        return frozenset(d.expr for d in self.usable if isinstance(d.expr, Call) and d.expr.exact)

    def _steps(self, here: frozenset[str]) -> Iterator[tuple[str, int, tuple[Expr, ...]]]:
        for place in sorted(self.sure - here):
            info = self.change.model.tables[place].info
            if not info.readable or info.policed:  # a policy may hide the row that a change has just taken away
                continue
            with_it = here | {place}
            if price := self._same_value(here, place):
                yield place, price, ()
                continue
            for demand in self.others:
                expr = self.express(demand.expr, with_it)
                if expr is not None and place in places(expr) and places(expr) & here:
                    equal = isinstance(demand.expr, Call) and demand.expr.equality
                    yield place, COMPUTED if equal else UNEQUAL, (expr,)

    def _same_value(self, here: frozenset[str], place: str) -> int:
        """The price of joining a table on values that are the same; 0 when there are none."""
        prices = [
            PLAIN if isinstance(member, Col) else COMPUTED
            for members in self._distinct_classes
            if any(places(m) <= here for m in members)
            for member in members
            if place in places(member) and places(member) <= here | {place}
        ]
        return min(prices, default=0)

    @cached_property
    def _distinct_classes(self) -> list[list[Expr]]:
        return list({id(members): members for members in self.classes.values()}.values())

    def _conditions(self, here: frozenset[str], used: Iterable[Expr]) -> Iterator[Expr]:
        for members in self._distinct_classes:
            within = [member for member in members if places(member) <= here]
            for member in within[1:]:
                if places(member) != places(within[0]):
                    yield Call("operator", EQUALS, (within[0], member), 16)
        equal = [d.expr for d in self.others if isinstance(d.expr, Call) and d.expr.equality]
        yield from dict.fromkeys([expr for expr in equal if places(expr) <= here] + list(used))


def substitutes(classes: Mapping[Expr, Sequence[Expr]], expr: Expr) -> Sequence[Expr]:
    """What may stand for an expression because the query makes it equal (R10)."""
    return classes.get(expr, ())


def _untied(change: ChangedRow, wanted: Sequence[str]) -> Because:
    """Why no path leads to the key, in words about the innermost obstacle."""
    blocks = [block for block in change.table.block.chain() if block.parent]
    for block in blocks:
        if reason := change.why_unstable(block):
            return Reason.SUBQUERY_HAS.of(reason=reason)
    if any(block.linked for block in blocks):
        return Reason.SUBQUERY_UNTIED.of(columns=list(wanted))
    return Reason.UNTIED.of(columns=list(wanted))


def _cast(expr: Expr, like: Expr) -> Expr:
    if isinstance(expr, Col | Call) and isinstance(like, Col | Call) and expr.type != like.type:
        return Call("cast", (), (expr,), like.type, strict=True)
    return expr


def _subsets(items: Sequence[str]) -> Iterator[frozenset[str]]:
    sizes = (combinations(items, size) for size in range(len(items) + 1))
    return map(frozenset, chain.from_iterable(sizes))

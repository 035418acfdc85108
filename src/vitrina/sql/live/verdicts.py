"""One verdict for every occurrence, chosen so that no two of them lean on each other (R8)."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, combinations

from vitrina.domain.findings import Code
from vitrina.domain.reasons import Reason
from vitrina.domain.wording import Because
from vitrina.sql.live.blocks import Model, Table
from vitrina.sql.live.catalog import Catalog
from vitrina.sql.live.changes import ChangedRow
from vitrina.sql.live.exprs import COMPUTED_WITH_LOOSE, obstacle
from vitrina.sql.live.impact import Occurrence, columns_of, everything, select_of, straight_of
from vitrina.sql.live.paths import NoPath, Path, find_paths

MOST_PARTS = 6  # of a key that are tried in every combination


@dataclass(frozen=True)
class Candidate:
    """A part of the key that an occurrence can give, and through which others."""

    key: tuple[str, ...]
    paths: tuple[Path, ...]

    @property
    def leans_on(self) -> frozenset[str]:
        """The occurrences whose current rows it needs."""
        return frozenset(place for path in self.paths for place in path.joined[1:])


@dataclass
class Choice:
    """What an occurrence may do, best first; the last resort is to refresh everything."""

    table: Table
    candidates: list[Candidate]
    reason: Because

    @property
    def candidate(self) -> Candidate | None:
        """The one in force."""
        return self.candidates[0] if self.candidates else None


def judge(
    models: Sequence[Model], catalog: Catalog, outputs: Mapping[str, int], key: Sequence[str]
) -> list[Occurrence]:
    """The verdict on every occurrence. `outputs` are the numbers of the key's columns."""
    tables = {place: table for model in models for place, table in model.tables.items()}
    changes = {
        place: [ChangedRow(model, place, catalog) for model in models if place in model.tables] for place in tables
    }
    if any(decides_with_loose(change, outputs) for change in chain.from_iterable(changes.values())):
        choices = {
            place: Choice(table, [], Reason.LOOSE.of(reason=COMPUTED_WITH_LOOSE)) for place, table in tables.items()
        }
    else:
        choices = {place: _choose(changes[place], outputs, key) for place in tables}
    break_circles(choices)
    return [_occurrence(choice, tables, catalog, key) for _, choice in sorted(choices.items())]


def decides_with_loose(change: ChangedRow, outputs: Mapping[str, int]) -> bool:
    """Whether keys or conditions are computed with one of several values that are equal: which, is left to chance, and
    may be another one in the next reading (R11)."""
    keys = (change.output(change.model.top, number) for number in outputs.values())
    exprs = chain(keys, (demand.expr for demand in change.demands))
    return any(obstacle(expr) == COMPUTED_WITH_LOOSE for expr in exprs)


def _choose(changes: Sequence[ChangedRow], outputs: Mapping[str, int], key: Sequence[str]) -> Choice:
    candidates: list[Candidate] = []
    reason: Because | None = None
    for wanted in _parts_of(key):
        paths: list[Path] = []
        for change in changes:
            keys = {name: change.output(change.model.top, number) for name, number in outputs.items()}
            found = find_paths(change, keys, wanted)
            if isinstance(found, NoPath):
                reason = reason or found.reason
                break
            paths += found
        else:
            if paths:
                candidates.append(Candidate(wanted, tuple(dict.fromkeys(paths))))
    return Choice(changes[0].table, candidates, reason or Reason.NEVER_A_KEY.of())


def _parts_of(key: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """The whole key, then ever smaller parts of it (R7)."""
    if len(key) > MOST_PARTS:
        yield tuple(key)
        yield from ((name,) for name in key)
    else:
        for size in range(len(key), 0, -1):
            yield from combinations(key, size)


def break_circles(choices: Mapping[str, Choice]) -> None:
    """Take the next best candidate where occurrences lean on each other: rows that went together must not both
    need the other's current row to be found (R8)."""
    while circle := _circle(choices):
        movable = [place for place in circle if len(choices[place].candidates) > 1]
        choice = choices[movable[0] if movable else circle[-1]]
        choice.candidates.pop(0)
        if not choice.candidates:
            choice.reason = Reason.CIRCLE.of()


def _circle(choices: Mapping[str, Choice]) -> list[str]:
    """Some occurrences that lean on each other in a circle, or none."""
    left = {place: set(choice.candidate.leans_on) for place, choice in choices.items() if choice.candidate}
    while left:
        free = [place for place, needed in left.items() if not needed & left.keys()]
        if not free:
            return _walk_circle(left)
        for place in free:
            del left[place]
    return []


def _walk_circle(left: Mapping[str, set[str]]) -> list[str]:
    walked = [min(left)]
    while (following := min(left[walked[-1]] & left.keys())) not in walked:
        walked.append(following)
    return sorted(walked[walked.index(following) :])


def _occurrence(choice: Choice, tables: Mapping[str, Table], catalog: Catalog, key: Sequence[str]) -> Occurrence:
    table, candidate = choice.table, choice.candidate
    name = table.info.root
    if candidate is None:
        return everything(name, table.alias, choice.reason)
    is_whole = len(candidate.key) == len(key)
    return Occurrence(
        table=name,
        alias=table.alias,
        code=Code.REFRESHES_KEYS if is_whole else Code.REFRESHES_PART,
        data={"table": name} if is_whole else {"table": name, "columns": candidate.key},
        key=candidate.key,
        columns=columns_of(candidate.paths),
        reads=tuple(sorted({tables[place].info.qualified for place in candidate.leans_on})),
        selects=tuple(select_of(path, tables, catalog.types) for path in candidate.paths),
        key_in_row=straight_of(candidate.paths, candidate.key, catalog.types),
    )

"""Each rule of the derivation taken out: the oracle must then find a miss."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.liveoracle import checks
from tests.liveoracle.checks import Key, Touched
from vitrina.sql import live
from vitrina.sql.live import blocks, catalog, changes, paths, verdicts

Mutation = Callable[[pytest.MonkeyPatch], None]


def replaced(target: Any, name: str, value: Any) -> Mutation:
    """Something put in another's place."""
    return lambda monkeypatch: monkeypatch.setattr(target, name, value)


def both(one: Mutation, other: Mutation) -> Mutation:
    """Two at once: the second is a net below the first."""

    def mutate(monkeypatch: pytest.MonkeyPatch) -> None:
        one(monkeypatch)
        other(monkeypatch)

    return mutate


def whole_keys_only(key: Key, touched: Touched) -> bool:
    """As if a part of a key named no rows."""
    return (tuple(range(len(key))), key) in touched


MUTATIONS: dict[str, Mutation] = {
    "R1 old and new images": replaced(checks, "which_images", lambda: "NOT old"),
    "R2 strict on both sides": replaced(changes, "is_strict_enough", lambda *_: True),
    "R3 ON from the nullable side only": replaced(changes, "usable_from", lambda _, left, right: left or right),
    "R4 the key without a nullable source": replaced(paths, "optional_sources", lambda *_: frozenset()),
    "R4 no value of a row that is not there": replaced(
        changes.ChangedRow, "_with_row", lambda _self, _block, _number, _item, value: value
    ),
    "R5 no NULL in a key": replaced(checks, "has_key", lambda _: True),
    "R6 stable outputs only": replaced(changes, "stable_output", lambda _change, _block, value: value),
    "R6 no column that a grouping set leaves empty": replaced(changes, "always_grouped", lambda _c, _b, value: value),
    "R7 all rows of a partial key": replaced(checks, "is_touched", whole_keys_only),
    "R8 no circles": replaced(verdicts, "break_circles", lambda _: None),
    "R9 IN without NULLs": replaced(changes.ChangedRow, "_has_no_nulls", lambda *_: True),
    "R10 of one type, equal is the same": replaced(catalog, "EXACT", catalog.EXACT | {1700}),
    "R11 nothing decided by chance": replaced(live, "decided_by_chance", lambda *_: False),
    "R12 whatever is computed is read": both(replaced(blocks, "LATE", ()), replaced(live, "_relations", lambda _: ())),
}

"""Live marts end equal to their queries, whatever is changed; and each rule is needed for that.

VITRINA_ROUNDS makes it longer.
"""

import os
import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests import livefuzz
from tests.livefuzz import Chase, Key, World, follow_all, prepare, shapes
from tests.support import Lab
from vitrina.meta.db import Connection
from vitrina.sql.live import catalog, changes, paths, verdicts

ROUNDS = int(os.environ.get("VITRINA_ROUNDS", "4"))
TICKS = 24
SHAPES = {shape.name: shape for shape in shapes()}


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with Lab.open("vitrina_template") as lab:
        prepare(lab)
        yield lab


@pytest.fixture(scope="module")
def reader(lab: Lab) -> Iterator[Connection]:
    with lab.connections.read_warehouse() as reader:
        reader.conn.execute("SET search_path = pg_catalog, public")
        yield reader.conn


def chase(lab: Lab, reader: Connection, seed: int, *names: str) -> Chase:
    chosen = [SHAPES[name] for name in names] if names else list(SHAPES.values())
    return Chase(World(lab.db, random.Random(seed)), follow_all(reader, lab.connections.reading, chosen))


def test_every_shape_ends_equal_at_once_and_lagging_behind(lab: Lab, reader: Connection) -> None:
    all_of_them = chase(lab, reader, 0)
    for _ in range(max(1, ROUNDS // 4)):
        all_of_them.run(3 * TICKS)
    assert len(all_of_them.followers) > 150
    assert sum(follower.kept for follower in all_of_them.followers) > 7 * len(all_of_them.followers)


def whole_keys_only(key: Key, part: tuple[int, ...], wanted: set[Key]) -> bool:
    return len(part) == len(key) and key in wanted


def replaced(target: Any, name: str, value: Any) -> Callable[[pytest.MonkeyPatch], None]:
    return lambda monkeypatch: monkeypatch.setattr(target, name, value)


MUTATIONS: dict[str, tuple[Callable[[pytest.MonkeyPatch], None], str]] = {
    "R1 old and new images": (replaced(livefuzz, "which_images", lambda: "NOT vitrina_old"), "group of one table"),
    "R2 strict on both sides": (
        replaced(changes, "is_strict_enough", lambda *_: True),
        "join through coalesce of a nullable table",
    ),
    "R3 ON from the nullable side only": (
        replaced(changes, "usable_from", lambda _, left, right: left or right),
        "key coalesced over a left join",
    ),
    "R4 the key without a nullable source": (
        replaced(paths, "optional_sources", lambda *_: frozenset()),
        "full join on something that is no key",
    ),
    "R5 no NULL in a key": (replaced(livefuzz, "has_key", lambda _: True), "one partition"),
    "R6 stable outputs only": (
        replaced(changes, "stable_output", lambda _change, _block, value: value),
        "window off the key",
    ),
    "R7 all rows of a partial key": (replaced(livefuzz, "is_dirty", whole_keys_only), "key finer than the window"),
    "R8 no circles": (replaced(verdicts, "break_circles", lambda _: None), "key glued from two tables"),
    "R9 IN without NULLs": (
        replaced(changes.ChangedRow, "_has_no_nulls", lambda *_: True),
        "not in, with nulls",
    ),
    "R10 of one type, equal is the same": (
        replaced(catalog, "EXACT", catalog.EXACT | {1700}),
        "key computed from a grouped number",
    ),
}


@pytest.mark.parametrize("rule", MUTATIONS)
def test_without_the_rule_a_mart_goes_wrong_and_with_it_not(lab: Lab, reader: Connection, rule: str) -> None:
    mutate, name = MUTATIONS[rule]
    with pytest.MonkeyPatch.context() as monkeypatch:
        mutate(monkeypatch)
        seed = next(seed for seed in range(60) if goes_wrong(chase(lab, reader, seed, name, "one table")))
    assert not goes_wrong(chase(lab, reader, seed, name, "one table"))


def goes_wrong(marts: Chase) -> bool:
    try:
        marts.run(TICKS)
    except AssertionError as error:
        return "keys differ" in str(error)
    return False

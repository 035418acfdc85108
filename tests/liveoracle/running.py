"""Query after query, each in the worlds of one state, until a miss."""

import random
import sys
from collections.abc import Iterator
from dataclasses import replace

from tests.liveoracle.author import THEMES, Author
from tests.liveoracle.checks import Miss, Oracle
from tests.liveoracle.parts import Query
from tests.liveoracle.shrink import shrink
from tests.liveoracle.worlds import Universe
from vitrina.meta.db import Connection

DEPTHS = (0, 1, 1, 2, 2, 3)  # of queries without a theme
LONGEST = 1_500  # a CTE with a UNION, named four times, is a hundred queries to judge
TIED = 0.15  # the share of queries in which rows may tie


def prepare(conn: Connection, states: int = 40, chains: int = 40) -> Oracle:
    """An oracle in an empty database."""
    universe = Universe(random.Random(7))
    universe.make(states, chains)
    universe.store(conn)
    conn.execute("SET jit = off")
    return Oracle(conn, universe)


def draw(number: int, about: str = "") -> tuple[Query, random.Random]:
    """The query of a number, of some theme unless one is named, and what is left of its chance."""
    rng = random.Random(number)
    theme = about or rng.choice([*THEMES, "outer", "outer", *[""] * 4])
    depth = THEMES[theme] if theme else rng.choice(DEPTHS)
    author = Author(rng, depth, rng.random() < TIED, theme)
    while len((query := author.query()).select) > LONGEST:
        pass
    return query, rng


def run(oracle: Oracle, queries: int, seed: int, about: str = "") -> Iterator[Miss]:
    """The misses among so many queries, of every theme or one."""
    for number in range(seed, seed + queries):
        if (number - seed) % 1000 == 999:
            print(oracle.tally, file=sys.stderr, flush=True)
        query, rng = draw(number, about)
        state = rng.randrange(len(oracle.universe.states))
        if miss := oracle.check(query, state):
            yield replace(miss, seed=number)


def shrunk(oracle: Oracle, miss: Miss) -> Miss:
    """The same miss by a smaller query."""
    state = [start for start, _ in oracle.universe.of_state].index(miss.world.start)
    small = shrink(miss.query, lambda other: oracle.check(other, state) is not None)
    return replace(oracle.check(small, state) or miss, seed=miss.seed)


def told(universe: Universe, miss: Miss) -> str:
    """A miss, for people."""
    starts = [start for start, _ in universe.of_state]
    state = universe.states[starts.index(miss.world.start)] if miss.world.start in starts else {}
    lines = [f"seed {miss.seed}, key {', '.join(miss.query.key)}", miss.query.select]
    lines += [f"{table}: {rows}" for table, rows in state.items()]
    lines += [f"{table}: {old} becomes {new}" for table, old, new in miss.world.changes]
    return "\n    ".join([*lines, f"missed {miss.key}: {miss.before} becomes {miss.after}"])

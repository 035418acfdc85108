"""Small states of three tables, and what one row more, less or other makes of them.

A *version* is the content of one table, a *world* a version of each. A query is run in many worlds by one statement:
instead of the table it reads the rows of the version that the world names.
"""

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from psycopg import sql

from vitrina.meta.db import Connection

Row = tuple[Any, ...]
Change = tuple[str, Row | None, Row | None]  # table, old row, new row

COLUMNS = ["id", "x", "y"]
NUMBERS: Sequence[Any] = (1, 2, 3)
ALIKE: Sequence[Any] = ("1.0", "1.00", "2")  # numeric: two of them are equal and not the same
SHUFFLES = 6
VIEWS = {
    "grouped": "SELECT x AS id, count(*)::int AS x, max(y) AS y FROM o.b AS v GROUP BY x",
    "latest": "SELECT DISTINCT ON (v.x) v.x AS id, v.y AS x, v.id AS y FROM o.a AS v ORDER BY v.x, v.y, v.id",
    "merged": "SELECT x AS id, v.y AS x, w.y AS y FROM o.a AS v FULL JOIN o.b AS w USING (x)",
    "keyed": "SELECT v.id, v.x, count(w.x)::int AS y FROM o.a AS v LEFT JOIN o.b AS w ON w.id = v.x GROUP BY v.id",
    "joined": "SELECT v.id, w.x, v.y FROM o.a AS v LEFT JOIN o.b AS w ON w.id = v.x",
}
# A version of a table has no primary key by which to group.
IN_WORLDS = {**VIEWS, "keyed": VIEWS["keyed"] + ", v.x"}
SCHEMA = f"""
CREATE SCHEMA o;
CREATE TABLE o.a (id int PRIMARY KEY, x int, y int);
CREATE TABLE o.b (id int NOT NULL, x int NOT NULL, y int);
CREATE TABLE o.c (id int, x int, y numeric);
{"".join(f"CREATE VIEW o.{name} AS {text};" for name, text in VIEWS.items())}
CREATE SCHEMA w;
CREATE TABLE w.a (v int, id int, x int, y int);
CREATE TABLE w.b (v int, id int, x int, y int);
CREATE TABLE w.c (v int, id int, x int, y numeric);
CREATE TABLE w.images_a (world int, old boolean, id int, x int, y int);
CREATE TABLE w.images_b (world int, old boolean, id int, x int, y int);
CREATE TABLE w.images_c (world int, old boolean, id int, x int, y numeric);
CREATE TABLE w.worlds (world int PRIMARY KEY, a int, b int, c int);
"""
INDEXES = "".join(f"CREATE INDEX ON w.{t} (v); CREATE INDEX ON w.images_{t} (world);" for t in "abc") + "ANALYZE;"


@dataclass(frozen=True)
class Domain:
    """What a table's rows may be."""

    columns: tuple[Sequence[Any], ...]
    unique: bool = False  # by its first column

    def rows(self) -> Iterator[Row]:
        """Every row there can be."""
        first, second, third = self.columns
        return ((i, x, y) for i in first for x in second for y in third)


DOMAINS = {
    "a": Domain((NUMBERS, (*NUMBERS, None), (*NUMBERS, None)), unique=True),
    "b": Domain((NUMBERS, NUMBERS, (*NUMBERS, None))),
    "c": Domain(((*NUMBERS, None), (*NUMBERS, None), (*ALIKE, None))),
}
State = Mapping[str, tuple[Row, ...]]


@dataclass(frozen=True)
class World:
    """A state that came from another by some changes."""

    number: int
    start: int  # the world that it came from
    changes: tuple[Change, ...]


@dataclass
class Universe:
    """All worlds, by the state that they start from."""

    rng: random.Random
    states: list[State] = field(default_factory=list)
    worlds: list[World] = field(default_factory=list)
    of_state: list[tuple[int, list[World]]] = field(default_factory=list)  # the start, and what follows from it
    shuffled: list[list[int]] = field(default_factory=list)  # of each state: the same rows in another order
    _versions: dict[tuple[str, tuple[Row, ...]], int] = field(default_factory=dict)
    _rows: list[tuple[int, int, int, int]] = field(default_factory=list)

    def make(self, states: int, chains: int) -> None:
        """Draw states; of each, every one-row change, and some chains of two to four."""
        for _ in range(states):
            state = self._draw()
            start = self._add(state, -1, ())
            found = [self._follow(state, start, (change,)) for change in changes_of(state)]
            found += [self._chain(state, start) for _ in range(chains)]
            self.states.append(state)
            self.of_state.append((start, found))
            self.shuffled.append([self._add(self._shuffle(state), start, ()) for _ in range(SHUFFLES)])

    def store(self, conn: Connection) -> None:
        """Tables and worlds into an empty database."""
        conn.execute(SCHEMA.encode())
        for table in DOMAINS:
            rows = [(version, *row) for (t, rows), version in self._versions.items() if t == table for row in rows]
            self._copy(conn, f"w.{table}", rows)
        self._copy(conn, "w.worlds", self._rows)
        for table in DOMAINS:
            images = [
                (world.number, old, *row)
                for world in self.worlds
                for changed, *pair in world.changes
                for old, row in zip((True, False), pair, strict=True)
                if changed == table and row
            ]
            self._copy(conn, f"w.images_{table}", images)
        conn.execute(INDEXES.encode())

    def _draw(self) -> State:
        drawn: dict[str, tuple[Row, ...]] = {}
        for table, domain in DOMAINS.items():
            rows = [tuple(self.rng.choice(values) for values in domain.columns) for _ in range(self.rng.randint(1, 4))]
            kept = {row[0]: row for row in rows}.values() if domain.unique else rows
            drawn[table] = tuple(kept)
        return drawn

    def _shuffle(self, state: State) -> State:
        return {table: tuple(self.rng.sample(rows, len(rows))) for table, rows in state.items()}

    def _chain(self, state: State, start: int) -> World:
        done: list[Change] = []
        now = state
        for _ in range(self.rng.randint(2, 4)):
            change = self._one_of(list(changes_of(now)))
            now = applied(now, change)
            done.append(change)
        return self._follow(state, start, tuple(done))

    def _one_of(self, changes: Sequence[Change]) -> Change:
        """As often a row that goes or changes as one that comes."""
        old = [change for change in changes if change[1] is not None]
        return self.rng.choice(old if old and self.rng.random() < 0.7 else changes)

    def _follow(self, state: State, start: int, changes: tuple[Change, ...]) -> World:
        for change in changes:
            state = applied(state, change)
        number = self._add(state, start, changes)
        return self.worlds[number]

    def _add(self, state: State, start: int, changes: tuple[Change, ...]) -> int:
        number = len(self.worlds)
        versions = [self._versions.setdefault((t, state[t]), len(self._versions)) for t in DOMAINS]
        self._rows.append((number, versions[0], versions[1], versions[2]))
        self.worlds.append(World(number, start if start >= 0 else number, changes))
        return number

    def _copy(self, conn: Connection, table: str, rows: Sequence[Row]) -> None:
        with conn.cursor().copy(sql.SQL("COPY {} FROM STDIN").format(sql.Identifier(*table.split(".")))) as copy:
            for row in rows:
                copy.write_row(row)


def changes_of(state: State) -> Iterator[Change]:
    """Every row that may come, every row that may go, and every row with another value in one column."""
    for table, domain in DOMAINS.items():
        present = state[table]
        taken = {row[0] for row in present} if domain.unique else set()
        yield from ((table, None, row) for row in domain.rows() if row[0] not in taken)
        for old in dict.fromkeys(present):
            yield (table, old, None)
            for at, values in enumerate(domain.columns):
                for value in values:
                    new = (*old[:at], value, *old[at + 1 :])
                    if new != old and not (at == 0 and value in taken):
                        yield (table, old, new)


def applied(state: State, change: Change) -> State:
    """The state after a change; a changed row goes to the end, as in a heap."""
    table, old, new = change
    rows = list(state[table])
    if old is not None:
        rows.remove(old)
    if new is not None:
        rows.append(new)
    return {**state, table: tuple(rows)}

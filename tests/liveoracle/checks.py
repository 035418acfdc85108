"""One query, all worlds of a state: are the keys that really change among those that the impact queries name?"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from psycopg import Error, sql
from psycopg.rows import tuple_row

from tests.liveoracle.parts import Query
from tests.liveoracle.worlds import COLUMNS, DOMAINS, IN_WORLDS, Universe, World
from vitrina.domain.errors import ConfigError
from vitrina.meta.db import Connection
from vitrina.sql.live import Occurrence, judge_tree
from vitrina.sql.live.blocks import read_variants
from vitrina.sql.live.catalog import Catalog, look_up
from vitrina.sql.live.nodes import Node, parse_tree
from vitrina.sql.tree import rewritten_tree

TABLE = re.compile(r"(?:\bONLY )?\bo\.(\w+)\b|(?:\bONLY )?\"o\"\.\"(\w+)\"")
OID = re.compile(r":(relid|funcid|\w*fnoid|opno|\w*type|typeId)\s+(\d+)")
ZEROS = re.compile(r"\.0+\b")  # 1.0 and 1.00 are one value: which of them stands for both is left open
VERSION = re.compile(r"FROM w\.(\w)")
Key = tuple[Any, ...]
Result = dict[Key, Counter[str]]
Touched = set[tuple[tuple[int, ...], Key]]  # a part of the key, by the numbers of its columns, and its values


@dataclass(frozen=True)
class Miss:
    """A key that changed and that no impact query named."""

    query: Query
    world: World
    key: Key
    before: list[str]
    after: list[str]
    seed: int = -1


@dataclass
class Tally:
    """What was tried."""

    queries: int = 0
    told: int = 0  # queries of which some change does not refresh everything
    failed: int = 0  # the server refuses them, or they fail on some row
    changes: int = 0
    verdicts: Counter[str] = field(default_factory=Counter)


@dataclass
class Oracle:
    """Checks queries in the worlds of a universe."""

    conn: Connection
    universe: Universe
    tally: Tally = field(default_factory=Tally)
    _known: Catalog | None = field(default=None, init=False)
    _looked_up: set[tuple[str, str]] = field(default_factory=set, init=False)

    def check(self, query: Query, state: int) -> Miss | None:
        """The first miss of a query in the worlds that follow from a state."""
        self.tally.queries += 1
        try:
            with self.conn.transaction():
                occurrences = self.judge(query)
            return self.compare(query, occurrences, state)
        except (Error, ConfigError):
            self.tally.failed += 1
            return None

    def judge(self, query: Query) -> list[Occurrence]:
        """The verdicts, as the product derives them; what oids mean is looked up once for each set of them."""
        text = rewritten_tree(self.conn, query.select)
        tree = parse_tree(text)
        catalog = self._catalog(text, tree)
        return judge_tree(tree, read_variants(tree, catalog), catalog, query.key)

    def _catalog(self, text: str, tree: Node) -> Catalog:
        """What oids mean, looked up when a tree has new ones."""
        named = set(OID.findall(text))
        if self._known is None or not named <= self._looked_up:
            self._known = merged(self._known, look_up(self.conn, tree))
            self._looked_up |= named
        return self._known

    def compare(self, query: Query, occurrences: Sequence[Occurrence], state: int) -> Miss | None:
        whole = {o.table for o in occurrences if o.verdict == "everything"}
        self.tally.verdicts.update(o.verdict for o in occurrences)
        start, worlds = self.universe.of_state[state]
        read = set(VERSION.findall(in_worlds(query.select)))
        changed = {world.number: {table for table, _, _ in world.changes} for world in worlds}
        told = [world for world in worlds if not whole & {f"o.{table}" for table in changed[world.number]}]
        followed = [world for world in told if read & changed[world.number]]
        if not followed or all(o.verdict == "everything" for o in occurrences):
            return None
        self.tally.told += 1
        if query.tied:
            return self._check_shuffled(query, state)
        self.tally.changes += len(followed)
        results = self._results(query, [start, *(world.number for world in followed)])
        touched = self._touched(occurrences, query.key, [world.number for world in followed])
        return next(
            (
                miss
                for world in followed
                if (miss := missed(query, world, results[start], results[world.number], touched[world.number]))
            ),
            None,
        )

    def _check_shuffled(self, query: Query, state: int) -> Miss | None:
        """Whether the same rows in another order give other keys (R11)."""
        start, _ = self.universe.of_state[state]
        shuffled = self.universe.shuffled[state]
        results = self._results(query, [start, *shuffled])
        counted = {world: {key: images.total() for key, images in result.items()} for world, result in results.items()}
        for world in shuffled:
            differing = counted[world].items() ^ counted[start].items()
            if differing:
                key, _ = next(iter(differing))
                before, after = (shown(results[at], key) for at in (start, world))
                return Miss(query, self.universe.worlds[world], key, before, after)
        return None

    def _results(self, query: Query, worlds: Sequence[int]) -> Mapping[int, Result]:
        keys = sql.SQL(", ").join(as_key("q", name) for name in query.key)
        text = sql.SQL(
            "SELECT zz.world, {}, q::text FROM w.worlds AS zz CROSS JOIN LATERAL ({}) AS q WHERE zz.world = ANY ({})"
        )
        found: dict[int, Result] = {world: {} for world in worlds}
        statement = text.format(keys, sql.SQL(in_worlds(query.select)), sql.Literal(list(worlds)))
        for world, *key, image in self._rows(statement):
            if has_key(key):
                found[world].setdefault(tuple(key), Counter())[ZEROS.sub("", image)] += 1
        return found

    def _touched(
        self, occurrences: Iterable[Occurrence], key: Sequence[str], worlds: Sequence[int]
    ) -> Mapping[int, Touched]:
        found: dict[int, Touched] = {world: set() for world in worlds}
        for occurrence in occurrences:
            if occurrence.verdict == "everything":
                continue
            part = tuple(key.index(name) for name in occurrence.key)
            for world, *values in self._rows(self._impact(occurrence, worlds)):
                found[world].add((part, tuple(values)))
        return found

    def _impact(self, occurrence: Occurrence, worlds: Sequence[int]) -> sql.Composed:
        name = occurrence.table.removeprefix("o.")
        images = f"SELECT {', '.join(COLUMNS)} FROM w.images_{name} WHERE world = zz.world AND {which_images()}"
        query = occurrence.impact(sql.SQL(f"({images})"))
        keys = sql.SQL(", ").join(as_key("i", name) for name in occurrence.key)
        text = sql.SQL(
            "SELECT zz.world, {} FROM w.worlds AS zz CROSS JOIN LATERAL ({}) AS i WHERE zz.world = ANY ({})"
            " AND EXISTS (SELECT FROM {} AS e WHERE e.world = zz.world)"
        )
        inner = sql.SQL(in_worlds(query.as_string(None)))
        return text.format(keys, inner, sql.Literal(list(worlds)), sql.Identifier("w", f"images_{name}"))

    def _rows(self, statement: sql.Composed) -> list[tuple[Any, ...]]:
        with self.conn.cursor(row_factory=tuple_row) as cursor:
            return cursor.execute(statement, prepare=False).fetchall()


def missed(query: Query, world: World, before: Result, after: Result, touched: Touched) -> Miss | None:
    """A key whose rows differ though nothing named it."""
    for key in before.keys() | after.keys():
        if before.get(key) != after.get(key) and not is_touched(key, touched):
            return Miss(query, world, key, shown(before, key), shown(after, key))
    return None


def shown(result: Result, key: Key) -> list[str]:
    """The rows of a key."""
    return sorted(result.get(key, Counter()).elements())


def is_touched(key: Key, touched: Touched) -> bool:
    """Whether a key is named, or a part of it: all rows with that part are read again (R7)."""
    parts = {part for part, _ in touched}
    return any((part, tuple(key[at] for at in part)) in touched for part in parts)


def which_images() -> str:
    """What the impact queries see: old and new images (R1)."""
    return "true"


def has_key(key: Sequence[Any]) -> bool:
    """Whether a row has a key at all: a mart refuses NULLs in it (R5)."""
    return None not in key


def as_key(alias: str, name: str) -> sql.Composed:
    """A key column as text, so that equal numbers are one key."""
    text = "CASE WHEN pg_typeof({0}) = 'numeric'::regtype THEN trim_scale({0}::text::numeric)::text ELSE {0}::text END"
    return sql.SQL(text).format(sql.Identifier(alias, name))


def in_worlds(text: str) -> str:
    """The query with each table as the version that the world zz names, and views written out."""
    return TABLE.sub(lambda match: _version(match[1] or match[2]), text)


def _version(name: str) -> str:
    if name in IN_WORLDS:
        return f"({in_worlds(IN_WORLDS[name])})"
    return f"(SELECT {', '.join(COLUMNS)} FROM w.{name} WHERE v = zz.{name})" if name in DOMAINS else f"o.{name}"


def merged(one: Catalog | None, other: Catalog) -> Catalog:
    """Both."""
    if one is None:
        return other
    return Catalog(
        {**one.tables, **other.tables},
        {**one.functions, **other.functions},
        {**one.operators, **other.operators},
        {**one.types, **other.types},
        one.exact | other.exact,
        other.encoding,
    )

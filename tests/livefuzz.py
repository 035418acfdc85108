"""Random small transactions over the cinema, their row images, and marts that follow them by impact queries alone."""

import random
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import psycopg
from psycopg import sql

from tests.corpora import HERE
from tests.support import Lab
from vitrina.meta.db import Connection
from vitrina.sql.live import LiveView, understand

FIXTURES = HERE / "live_fixtures.sql"
SHAPE = re.compile(r"^-- name: ([^\n]+)\n-- key: ([^\n]+)\n(.*?)(?=^-- name: |\Z)", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Shape:
    """A SELECT of the corpus, with its mart's key."""

    name: str
    key: tuple[str, ...]
    select: str


def shapes() -> list[Shape]:
    """The corpus of live marts."""
    text = (HERE / "live.sql").read_text()
    return [Shape(m[1], tuple(part.strip() for part in m[2].split(",")), m[3].strip()) for m in SHAPE.finditer(text)]


def uuids(kind: int, many: int) -> list[Any]:
    """A few ids; every table of a kind of thing draws from the same ones."""
    return [f"0000000{kind}-0000-0000-0000-00000000000{n}" for n in range(1, many + 1)]


FILMS, USERS = uuids(1, 7), uuids(2, 4)
GENRES, PEOPLE = uuids(3, 4), uuids(4, 4)
WORDS = ["a", "b", "B", "c", None]
SMALL = [1, 2, 3, 4, 5, None]
SHARES = ["1.0", "1.00", "2", None]
DAYS = ["2024-01-05", "2024-02-05", "2024-02-06"]
DOMAINS: dict[str, dict[str, Sequence[Any]]] = {
    "content.film_work": {
        "id": FILMS, "title": ["x", "y"], "rating": [1.5, 2.5, 7, None], "type": ["movie", "tv_show"],
        "created": DAYS[:1], "modified": DAYS[:1],
    },
    "content.genre": {"id": GENRES, "name": ["a", "b", "B", "c"], "created": DAYS[:1], "modified": DAYS[:1]},
    "content.person": {"id": PEOPLE, "full_name": ["a", "b"], "created": DAYS[:1], "modified": DAYS[:1]},
    "content.genre_film_work": {
        "id": uuids(5, 9), "film_work_id": FILMS, "genre_id": GENRES, "created": DAYS[:1],
    },
    "content.person_film_work": {
        "id": uuids(6, 9), "film_work_id": FILMS, "person_id": PEOPLE, "role": ["actor", "writer"], "created": DAYS[:1],
    },
    "ugc.ratings": {
        "id": uuids(7, 9), "user_id": USERS, "film_id": FILMS, "rating": [1, 3, 5, 7], "created": DAYS,
        "modified": DAYS[:1],
    },
    "ugc.reviews": {
        "id": uuids(8, 4), "user_id": USERS, "film_id": FILMS, "body": ["x", "y"], "created": DAYS[:1],
        "modified": DAYS[:1],
    },
    "ugc.likes": {"user_id": USERS, "film_id": FILMS, "created": DAYS},
    "content.studio": {"id": SMALL[:5], "name": WORDS, "country": ["a", "b", None], "parent_id": SMALL},
    "content.film_studio": {"id": SMALL[:5], "film_id": [*FILMS, None], "studio_id": SMALL, "share": SHARES},
    "content.tag": {"id": SMALL[:5], "film_id": FILMS, "name": WORDS, "weight": SHARES},
    "ugc.settings": {"id": SMALL[:4], "threshold": SMALL, "film_id": [*FILMS, None]},
    "ugc.events": {"id": SMALL[:5], "film_id": [*FILMS, None], "kind": ["play", "stop"], "n": SMALL},
}  # fmt: skip


def prepare(lab: Lab) -> None:
    """Empty tables beside the demo's, and triggers that keep the images of every changed row."""
    lab.sql(FIXTURES.read_text())
    lab.sql("CREATE SCHEMA fuzz; CREATE SEQUENCE fuzz.clock")
    lab.sql("TRUNCATE content.film_work, content.genre, content.person, ugc.ratings, ugc.reviews, ugc.likes CASCADE")
    for table in DOMAINS:
        images = image_table(table)
        lab.sql(f"CREATE TABLE {images} (vitrina_at bigint, vitrina_old boolean, LIKE {table})")
        lab.sql(f"CREATE INDEX ON {images} (vitrina_at)")
        lab.sql(
            f"""
            CREATE FUNCTION {images}_keep() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN
                IF TG_OP <> 'INSERT' THEN INSERT INTO {images} SELECT currval('fuzz.clock'), true, (OLD).*; END IF;
                IF TG_OP <> 'DELETE' THEN INSERT INTO {images} SELECT currval('fuzz.clock'), false, (NEW).*; END IF;
                RETURN NULL;
            END $$;
            CREATE TRIGGER keep AFTER INSERT OR UPDATE OR DELETE ON {table}
                FOR EACH ROW EXECUTE FUNCTION {images}_keep();
            """
        )
    lab.sql("GRANT USAGE ON SCHEMA fuzz TO vitrina_reader; GRANT SELECT ON ALL TABLES IN SCHEMA fuzz TO vitrina_reader")


def image_table(table: str) -> str:
    """Where a table's images are kept."""
    return "fuzz." + table.replace(".", "_")


@dataclass
class World:
    """The source, changed at random; one transaction is one tick of its clock."""

    db: Connection
    rng: random.Random
    now: int = 0
    changed: dict[int, set[str]] = field(default_factory=dict)  # by tick

    def fill(self) -> None:
        """Begin with most of the rows that there can be; their images are of no interest, nor are foreign keys."""
        self._advance()
        with self.db.transaction():
            self.db.execute("SET LOCAL session_replication_role = replica")
            for table in DOMAINS:
                self._insert(table, 12)

    def tick(self, tables: Sequence[str], statements: int) -> None:
        """One transaction over some tables; a statement that a constraint refuses is left out."""
        with self.db.transaction():
            self._advance()
            for table in self.rng.choices(tables, k=statements):
                self._change(table)
        found = " UNION ALL ".join(
            f"SELECT '{table}' AS name WHERE EXISTS (SELECT FROM {image_table(table)} WHERE vitrina_at = {self.now})"
            for table in tables_after(tables)
        )
        self.changed[self.now] = {row["name"] for row in self.db.execute(found.encode())}

    def _advance(self) -> None:
        row = self.db.execute("SELECT nextval('fuzz.clock') AS now").fetchone()
        assert row is not None
        self.now = row["now"]

    def _change(self, table: str) -> None:
        action = self.rng.choice([*[self._insert] * 4, *[self._update] * 5, self._delete])
        action(table)

    def _insert(self, table: str, rows: int = 1) -> None:
        domain = DOMAINS[table]
        marks = ", ".join([f"({', '.join(['%s'] * len(domain))})"] * rows)
        text = f"INSERT INTO {table} ({', '.join(domain)}) VALUES {marks} ON CONFLICT DO NOTHING"
        self._execute(text, [self.rng.choice(values) for _ in range(rows) for values in domain.values()])

    def _update(self, table: str) -> None:
        """Some columns, the id too, of the rows with some value in some column."""
        domain = DOMAINS[table]
        names = self.rng.sample(list(domain), self.rng.randint(1, min(2, len(domain))))
        values = [self.rng.choice(domain[name]) for name in names]
        where, value = self._some(table)
        text = f"UPDATE {table} SET {', '.join(f'{name} = %s' for name in names)} WHERE {where} = %s"
        self._execute(text, [*values, value])

    def _delete(self, table: str) -> None:
        where, value = self._some(table)
        self._execute(f"DELETE FROM {table} WHERE {where} = %s", [value])

    def _some(self, table: str) -> tuple[str, Any]:
        wide = [name for name, values in DOMAINS[table].items() if len(values) > 3]
        name = wide[0] if self.rng.random() < 0.8 else self.rng.choice(wide)
        return name, self.rng.choice([value for value in DOMAINS[table][name] if value is not None])

    def _execute(self, text: str, values: Sequence[Any]) -> None:
        try:
            with self.db.transaction():
                self.db.execute(text.encode(), values)
        except psycopg.IntegrityError:
            pass


def tables_after(tables: Sequence[str]) -> set[str]:
    """These tables, and those that a cascade may reach from them."""
    return {*tables, "content.genre_film_work", "content.person_film_work"}


Row = tuple[Any, ...]
Key = tuple[Any, ...]


@dataclass
class Follower:
    """A mart that follows the world by impact queries; it converges no key that they do not give."""

    shape: Shape
    view: LiveView
    conn: Connection
    mart: dict[Key, Counter[Row]] = field(default_factory=dict)
    position: int = 0
    kept: int = 0  # slices that did not refresh everything
    unchecked: bool = False

    def start(self, now: int) -> None:
        """Load it whole."""
        self.mart, self.position = self.whole(), now

    def whole(self) -> dict[Key, Counter[Row]]:
        """What the query gives now, by key; rows without a key aside."""
        found: dict[Key, Counter[Row]] = {}
        for row in self.conn.execute(self._whole):
            values = tuple(row.values())
            key, rest = values[: len(self.shape.key)], values[len(self.shape.key) :]
            if has_key(key):
                found.setdefault(key, Counter())[rest] += 1
        return found

    @property
    def _whole(self) -> bytes:
        keys = ", ".join(f"{as_key(name)} AS k{n}" for n, name in enumerate(self.shape.key))
        return f"SELECT {keys}, q::text AS image FROM (\n{self.shape.select}\n) AS q".encode()

    def follow(self, world: World, until: int) -> None:
        """Take the changes up to a tick, against the current state."""
        changed = set[str]().union(*(world.changed.get(at, set()) for at in range(self.position + 1, until + 1)))
        changed &= set(self.view.tables)
        if any(o.table in changed and o.verdict == "everything" for o in self.view.occurrences):
            self.mart = self.whole()
        elif changed:
            self._converge(self.whole(), self._touched(changed, until))
            self.kept, self.unchecked = self.kept + 1, True
        self.position = until

    def _touched(self, changed: set[str], until: int) -> Iterator[tuple[tuple[str, ...], Key]]:
        for occurrence in self.view.occurrences:
            if occurrence.table in changed:
                query = occurrence.impact(self._images(occurrence.table, until))
                names = ", ".join(as_key(name) for name in occurrence.key)
                text = sql.SQL("SELECT {} FROM ({}) AS q").format(sql.SQL(names), query)
                for row in self.conn.cursor(row_factory=psycopg.rows.tuple_row).execute(text):
                    yield occurrence.key, row

    def _images(self, table: str, until: int) -> sql.Composable:
        period = f"vitrina_at > {self.position} AND vitrina_at <= {until}"
        return sql.SQL(f"(SELECT * FROM {image_table(table)} WHERE {period} AND {which_images()})")

    def _converge(self, current: dict[Key, Counter[Row]], touched: Iterator[tuple[tuple[str, ...], Key]]) -> None:
        positions = {name: at for at, name in enumerate(self.shape.key)}
        dirty: dict[tuple[int, ...], set[Key]] = {}
        for names, key in touched:
            dirty.setdefault(tuple(positions[name] for name in names), set()).add(key)
        for key in self.mart.keys() | current.keys():
            if any(is_dirty(key, part, wanted) for part, wanted in dirty.items()):
                self.mart.pop(key, None)
                if key in current:
                    self.mart[key] = current[key]

    def assert_equal(self, note: str) -> None:
        """The mart is what the query gives, if it followed anything since it was checked."""
        if not self.unchecked:
            return
        self.unchecked, current = False, self.whole()
        wrong = {key for key in self.mart.keys() | current.keys() if self.mart.get(key) != current.get(key)}
        assert not wrong, f"{self.shape.name}: {note}: {len(wrong)} keys differ, such as {sorted(map(str, wrong))[:3]}"


def which_images() -> str:
    """What the impact queries see: old and new images (R1)."""
    return "vitrina_old IN (true, false)"


def has_key(key: Key) -> bool:
    """Whether a row has a key at all: a mart refuses NULLs in it (R5)."""
    return None not in key


def is_dirty(key: Key, part: tuple[int, ...], wanted: set[Key]) -> bool:
    """Whether a row is to be converged: all rows that share a touched part of the key are (R7)."""
    return tuple(key[at] for at in part) in wanted


def as_key(name: str) -> str:
    """A key column as text, so that equal numbers are one key."""
    number = f"CASE WHEN pg_typeof(q.{name}) = 'numeric'::regtype THEN trim_scale(q.{name}::text::numeric)::text END"
    return f"coalesce({number}, q.{name}::text)"


@dataclass
class Chase:
    """Some marts that follow one world, at once or lagging behind."""

    world: World
    followers: list[Follower]

    @property
    def rng(self) -> random.Random:
        """Chance."""
        return self.world.rng

    def run(self, ticks: int) -> None:
        """Fill the world, load the marts, then change the one and have the others follow; the end is checked."""
        self.world.fill()
        for follower in self.followers:
            follower.start(self.world.now)
        for _ in range(ticks):
            self._tick()
            self._follow(lagging=self.rng.random() < 0.5)
        self._follow(lagging=False)

    def _tick(self) -> None:
        """One transaction, mostly over the tables of one mart."""
        tables = list(self.rng.choice(self.followers).view.tables)
        some = self.rng.sample(tables, self.rng.randint(1, len(tables))) if self.rng.random() < 0.9 else list(DOMAINS)
        self.world.tick(some, self.rng.randint(1, 6))

    def _follow(self, lagging: bool) -> None:
        """Each takes all it has missed, in slices of one or more transactions; or a slice, or nothing, if lagging."""
        for follower in self.followers:
            if lagging:
                if self.rng.random() < 0.3 and follower.position < self.world.now:
                    follower.follow(self.world, follower.position + 1)
                continue
            while follower.position < self.world.now:
                follower.follow(self.world, self.rng.randint(follower.position + 1, self.world.now))
            follower.assert_equal(f"tick {self.world.now}")


def follow_all(conn: Connection, settings: Mapping[str, str], chosen: Sequence[Shape]) -> list[Follower]:
    """The shapes of which some change does not refresh everything."""
    views = [(shape, understand(conn, settings, shape.select, shape.key)) for shape in chosen]
    return [Follower(shape, view, conn) for shape, view in views if any(o.verdict == "keys" for o in view.occurrences)]

"""The demo's live marts: the cinema is captured, then changed a little, and each change watched until it arrives."""

import json
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias
from uuid import UUID, uuid4

from psycopg import sql

from vitrina.capture.installation import install
from vitrina.domain.errors import FatalError
from vitrina.domain.pipeline import WAREHOUSE
from vitrina.domain.policy import ES_TARGET_PREFIX
from vitrina.meta.db import Connection, fetch_one, translated
from vitrina.meta.repos.captures import CaptureRepo
from vitrina.settings import Settings
from vitrina.sinks.elasticsearch.client import Elastic

LINKS = ("content.genre_film_work", "content.person_film_work", "ugc.ratings")  # found by more than their key
TABLES = ("content.film_work", "content.genre", "content.person", *LINKS)
CARD, FILMS, RATINGS = LIVE = ("analytics.film_card", "es:film_dim", "es:film_rating_agg")
GENRES = ("Sci-Fi", "Science Fiction")
PATIENCE_SECONDS = 60.0
LOOK_SECONDS = 0.002

FILM = """
    SELECT f.id, f.title, count(*) OVER () AS films
    FROM content.film_work f
    JOIN content.genre_film_work fg ON fg.film_work_id = f.id
    JOIN content.genre g ON g.id = fg.genre_id
    WHERE g.name = %s ORDER BY f.title, f.id LIMIT 1
"""
IN_TABLE = """
    SELECT array_to_string(genres, ', ') AS genres, format('%%s of %%s', avg_rating, rating_count) AS rating
    FROM analytics.film_card WHERE film_id = %s
"""
RENAME = "UPDATE content.genre SET name = %(new)s WHERE name = %(old)s"
RATE = "INSERT INTO ugc.ratings (id, user_id, film_id, rating) VALUES (%(id)s, %(id)s, %(film)s, 10)"
UNRATE = "DELETE FROM ugc.ratings WHERE id = %(id)s"


@dataclass(frozen=True)
class Film:
    """The one to look at, and how many are touched with it."""

    id: UUID
    title: str
    films: int
    genre: str
    new_genre: str


@dataclass(frozen=True)
class Arrival:
    """A change that reached a mart."""

    mart: str
    before: str
    after: str
    milliseconds: float


Look: TypeAlias = Callable[[UUID], str]
"""What a mart says about a film."""


def capture_cinema(conn: Connection, role: str) -> str:
    """Capture what the live marts read, old rows told whole; again it changes nothing. By which kind."""
    level = fetch_one(conn, "SELECT current_setting('wal_level') AS level")
    found = CaptureRepo(conn).find(WAREHOUSE)
    kind = found.kind if found else "wal" if level and level["level"] == "logical" else "trigger"
    with translated():
        for table in LINKS:
            name = sql.Identifier(*table.split("."))
            if fetch_one(conn, "SELECT 1 AS x FROM pg_class WHERE oid = %s::regclass AND relreplident <> 'f'", [table]):
                conn.execute(sql.SQL("ALTER TABLE {} REPLICA IDENTITY FULL").format(name))
    if found is None or not set(TABLES) <= set(found.tables):
        install(conn, conn, WAREHOUSE, kind, TABLES, role)
    return kind


def choose_film(conn: Connection) -> Film | None:
    """The first with the genre that will be renamed; under either name, since somebody may have stopped a demo."""
    for old, new in (GENRES, GENRES[::-1]):
        row = fetch_one(conn, FILM, [old])
        if row:
            return Film(row["id"], row["title"].strip(), row["films"], old, new)
    return None


@contextmanager
def renamed_genre(conn: Connection, film: Film) -> Iterator[Callable[[], None]]:
    """Gives what renames it; afterwards it has its name again."""
    with _undone(conn, RENAME, {"old": film.new_genre, "new": film.genre}):
        yield lambda: _change(conn, RENAME, {"old": film.genre, "new": film.new_genre})


@contextmanager
def new_rating(conn: Connection, film: Film) -> Iterator[Callable[[], None]]:
    """Gives what rates the film 10; afterwards nobody has."""
    rating = {"id": uuid4(), "film": film.id}
    with _undone(conn, UNRATE, rating):
        yield lambda: _change(conn, RATE, rating)


def watch(change: Callable[[], None], film: UUID, looks: Mapping[str, Look]) -> list[Arrival]:
    """Make a change, and look at the marts until each has it: milliseconds from its commit."""
    before = {mart: look(film) for mart, look in looks.items()}
    change()
    committed, arrived = time.monotonic(), dict[str, Arrival]()
    while len(arrived) < len(looks):
        for mart in looks.keys() - arrived.keys():
            after = looks[mart](film)
            if after != before[mart]:
                arrived[mart] = Arrival(mart, before[mart], after, (time.monotonic() - committed) * 1000)
        if time.monotonic() - committed > PATIENCE_SECONDS:
            missing = ", ".join(looks.keys() - arrived.keys())
            raise FatalError(f"a change has not reached {missing} within {PATIENCE_SECONDS:.0f} s", "vitrina logs")
        time.sleep(LOOK_SECONDS)
    return [arrived[mart] for mart in looks]


def wait_until(looks: Mapping[str, Look], film: UUID, wanted: Sequence[str]) -> None:
    """Until the marts say this again."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while [look(film) for look in looks.values()] != list(wanted):
        if time.monotonic() > deadline:
            raise FatalError(f"what was undone has not reached {', '.join(looks)}", "vitrina logs")
        time.sleep(LOOK_SECONDS)


@contextmanager
def looks_at(
    conn: Connection, settings: Settings, marts: Collection[str]
) -> Iterator[tuple[dict[str, Look], dict[str, Look]]]:
    """How to look at a film's genres, and at its rating, in those of the marts that show them."""
    with ExitStack() as stack:
        found: dict[str, Look] = {CARD: partial(_in_table, conn, "genres")}
        rated: dict[str, Look] = {CARD: partial(_in_table, conn, "rating")}
        if {FILMS, RATINGS} & {*marts}:
            elastic = stack.enter_context(closing(Elastic(settings)))
            found[FILMS], rated[RATINGS] = partial(_genres, elastic), partial(_rating, elastic)
        yield _only(found, marts), _only(rated, marts)


def _only(looks: dict[str, Look], marts: Collection[str]) -> dict[str, Look]:
    return {mart: look for mart, look in looks.items() if mart in marts}


def _in_table(conn: Connection, what: str, film: UUID) -> str:
    row = fetch_one(conn, IN_TABLE, [film])
    return str(row[what]) if row else ""


def _genres(elastic: Elastic, film: UUID) -> str:
    return ", ".join(genre["name"] for genre in _document(elastic, FILMS, film).get("genres", ()))


def _rating(elastic: Elastic, film: UUID) -> str:
    found = _document(elastic, RATINGS, film)
    return f"{found.get('avg_rating', '')} of {found.get('rating_count', 0)}"


def _document(elastic: Elastic, target: str, film: UUID) -> dict[str, Any]:
    """As it is, also before a refresh; numbers as they were sent."""
    found = next(elastic.find(target.removeprefix(ES_TARGET_PREFIX), [str(film)]), None)
    return dict(json.loads(found.text, parse_float=str)) if found and found.text else {}


def _change(conn: Connection, statement: Any, params: Mapping[str, Any]) -> None:
    with translated():
        conn.execute(statement, params)


@contextmanager
def _undone(conn: Connection, statement: Any, params: Mapping[str, Any]) -> Iterator[None]:
    try:
        yield
    finally:
        _change(conn, statement, params)

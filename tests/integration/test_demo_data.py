"""The demo's cinema is the same on every load, and changes as an application's data would."""

import hashlib
import random
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any

import psycopg
import pytest

from vitrina.demo.data import load_cinema, mutate_cinema

SIZES = {
    "content.film_work": 2_000,
    "content.genre": 25,
    "content.person": 1_000,
    "content.genre_film_work": 3_108,
    "content.person_film_work": 4_088,
    "ugc.ratings": 50_000,
    "ugc.reviews": 5_000,
    "ugc.views": 25_000,
    "ugc.likes": 10_000,
    "auth.users": 5,
    "analytics.film_dim": 0,
    "analytics.film_rating_agg": 0,
}

# Of the default cinema, on any Postgres. A new value is a new demo: check what the docs show of it.
DIGEST = "347f2bf0593b500b917ceb125afd1ec2"

SCRIPT = Path(__file__).parents[2] / "sql" / "init_demo_data.sql"

Connection = psycopg.Connection[Any]


@pytest.fixture
def conn(empty_db: str) -> Iterator[Connection]:
    with psycopg.connect(empty_db, autocommit=True) as conn:
        conn.execute("SET TIME ZONE 'UTC'")
        yield conn


def rows(conn: Connection, query: str) -> list[Any]:
    return conn.execute(query.encode()).fetchall()


def sizes(conn: Connection) -> dict[str, int]:
    return {table: rows(conn, f"SELECT count(*) FROM {table}")[0][0] for table in SIZES}


def digest(conn: Connection) -> str:
    """An md5 of all rows, each table's in an order that no collation changes."""
    whole = hashlib.md5()
    for table in SIZES:
        for (line,) in rows(conn, f'SELECT t::text FROM {table} AS t ORDER BY t::text COLLATE "C"'):
            whole.update(line.encode())
    return whole.hexdigest()


def first_titles(conn: Connection, collation: str, count: int) -> list[str]:
    query = f'SELECT title FROM content.film_work ORDER BY title COLLATE "{collation}" LIMIT {count}'
    return [title for (title,) in rows(conn, query)]


def test_default_cinema_has_the_promised_sizes(conn: Connection) -> None:
    load_cinema(conn)
    assert sizes(conn) == SIZES


def test_default_cinema_is_the_same_everywhere(conn: Connection) -> None:
    conn.execute("SET TIME ZONE 'America/New_York'")
    load_cinema(conn)
    conn.execute("SET TIME ZONE 'UTC'")
    assert digest(conn) == DIGEST


def test_loading_again_changes_nothing(conn: Connection) -> None:
    load_cinema(conn, films=100, ratings=1_000)
    before = digest(conn)
    load_cinema(conn)
    assert digest(conn) == before


def test_loading_after_the_films_were_deleted_brings_them_back(conn: Connection) -> None:
    load_cinema(conn, films=100, ratings=1_000)
    before = digest(conn)
    conn.execute("DELETE FROM content.film_work")
    load_cinema(conn, films=100, ratings=1_000)
    assert digest(conn) == before


def test_the_file_alone_loads_the_default_cinema(conn: Connection) -> None:
    conn.execute(SCRIPT.read_bytes())
    assert sizes(conn) == SIZES


def test_the_documented_file_is_the_packaged_one() -> None:
    assert SCRIPT.is_symlink()
    assert SCRIPT.read_bytes() == resources.files("vitrina").joinpath("demo", "cinema.sql").read_bytes()


@pytest.mark.parametrize(("films", "ratings"), [(0, 0), (24, 1), (30, 2_000), (5_000, 700), (3_000, 120_000)])
def test_size_is_an_option(conn: Connection, films: int, ratings: int) -> None:
    load_cinema(conn, films=films, ratings=ratings)
    found = sizes(conn)
    assert (found["content.film_work"], found["ugc.ratings"]) == (max(24, films), ratings)


def test_star_films_come_first_in_any_collation(conn: Connection) -> None:
    load_cinema(conn, films=20_000, ratings=0)
    known = "SELECT collname FROM pg_collation WHERE collname IN ('C', 'en_US.utf8', 'en-US-x-icu')"
    for (collation,) in rows(conn, known):
        titles = first_titles(conn, collation, 24)
        assert all(title.strip().startswith(("Star Trek", "Star Wars")) for title in titles)


def test_star_wars_has_the_most_ratings(conn: Connection) -> None:
    load_cinema(conn)
    top = rows(
        conn,
        "SELECT title, count(*) FROM ugc.ratings JOIN content.film_work AS film ON film.id = film_id"
        " GROUP BY film.id ORDER BY count(*) DESC LIMIT 3",
    )
    assert all(title.startswith("Star Wars") and count > 250 for title, count in top)


@pytest.mark.parametrize(
    "condition",
    [
        "rating IS NULL",
        "description IS NULL",
        "title <> btrim(title)",
        "title LIKE '%\"%'",
        "title ~ '[^[:ascii:]]'",
        "NOT EXISTS (SELECT FROM ugc.ratings WHERE film_id = film.id)",
        "NOT EXISTS (SELECT FROM content.genre_film_work WHERE film_work_id = film.id)",
        "NOT EXISTS (SELECT FROM content.person_film_work WHERE film_work_id = film.id)",
    ],
)
def test_some_films_are_awkward(conn: Connection, condition: str) -> None:
    load_cinema(conn, films=500, ratings=5_000)
    assert rows(conn, f"SELECT FROM content.film_work AS film WHERE {condition} LIMIT 1")


def test_no_row_is_from_the_future(conn: Connection) -> None:
    load_cinema(conn)
    for table in ("content.film_work", "content.person", "ugc.ratings", "ugc.reviews"):
        late = f"SELECT FROM {table} WHERE modified < created OR modified >= '2026-01-01'"
        assert not rows(conn, late)


def test_mutation_inserts_updates_and_deletes_in_every_table(conn: Connection) -> None:
    load_cinema(conn, films=500, ratings=5_000)
    with conn.transaction():
        mutate_cinema(conn, random.Random(1), 2_000)
        untouched = rows(
            conn,
            "SELECT relname FROM pg_stat_xact_user_tables WHERE schemaname IN ('content', 'ugc')"
            " AND (n_tup_ins = 0 OR n_tup_del = 0 OR n_tup_upd = 0 AND relname <> 'likes')",
        )
    assert untouched == []


def test_mutation_makes_as_many_changes_as_asked(conn: Connection) -> None:
    load_cinema(conn, films=100, ratings=1_000)
    for seed in range(20):
        before = digest(conn)
        mutate_cinema(conn, random.Random(seed), 3)
        assert digest(conn) != before


def test_mutation_survives_repetition_of_a_seed(conn: Connection) -> None:
    load_cinema(conn, films=24, ratings=0)
    for _ in range(3):
        mutate_cinema(conn, random.Random(7), 300)


def test_mutation_leaves_no_link_dangling(conn: Connection) -> None:
    load_cinema(conn, films=500, ratings=5_000)
    mutate_cinema(conn, random.Random(3), 1_000)
    assert not rows(
        conn,
        "SELECT FROM content.genre_film_work"
        " LEFT JOIN content.film_work AS film ON film.id = film_work_id"
        " LEFT JOIN content.genre ON genre.id = genre_id"
        " WHERE film.id IS NULL OR genre.id IS NULL",
    )
    assert not rows(conn, "SELECT FROM ugc.ratings GROUP BY user_id, film_id HAVING count(*) > 1")

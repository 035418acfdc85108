"""The demo's cinema: load it once, then change it the way an application would."""

import random
import uuid
from importlib import resources
from typing import Any, LiteralString

import psycopg
from psycopg import sql


def load_cinema(conn: psycopg.Connection[Any], *, films: int = 2_000, ratings: int = 50_000) -> None:
    """Create the cinema's schemas and fill them, once; deterministic for a given size."""
    script = resources.files("vitrina").joinpath("demo", "cinema.sql").read_bytes()
    with conn.transaction():
        conn.execute("SELECT set_config('vitrina_demo.films', %s, true)", [str(films)])
        conn.execute("SELECT set_config('vitrina_demo.ratings', %s, true)", [str(ratings)])
        conn.execute(script)
        conn.execute("ANALYZE content.film_work, content.genre, content.person")
        conn.execute("ANALYZE content.genre_film_work, content.person_film_work")
        conn.execute("ANALYZE ugc.ratings, ugc.reviews, ugc.views, ugc.likes")


def mutate_cinema(conn: psycopg.Connection[Any], rng: random.Random, changes: int) -> None:
    """Apply `changes` random inserts, updates and deletes over all content and ugc tables.

    Each is one statement, in the caller's transaction or, under autocommit, in its own. One that
    found nothing to change is not counted.
    """
    weights = [weight for weight, _ in CHANGES]
    done = 0
    while done < changes:
        [(_, change)] = rng.choices(CHANGES, weights)
        done += conn.execute(sql.SQL(change).format(**ROWS), _arguments(rng)).rowcount > 0


def _arguments(rng: random.Random) -> dict[str, Any]:
    """What a change may need: a new row's id and values, and a point from which to look for each old row."""
    return {
        "new": _uuid(rng),
        "word": rng.choice(("Amber", "Blue", "Café", "Dawn", "Ember", "Fjørd", "Glass", "Harbour")),
        "number": rng.randrange(1_000_000),
        "stars": rng.choice((None, 1.5, 4.2, 5.0, 6.6, 7.3, 8.8, 9.1)),
        "score": rng.randint(0, 10),
        "role": rng.choice(("director", "writer", "actor")),
        **{row: _uuid(rng) for row in ROWS},
    }


def _uuid(rng: random.Random) -> uuid.UUID:
    return uuid.UUID(int=rng.getrandbits(128), version=4)


def _near(point: str, schema: str, table: str, column: str = "id") -> sql.Composed:
    """A row by its index: the next one from a random point, or else the first."""
    return sql.SQL(
        "coalesce((SELECT {column} FROM {table} WHERE {column} >= {point} ORDER BY {column} LIMIT 1),"
        " (SELECT {column} FROM {table} ORDER BY {column} LIMIT 1))"
    ).format(column=sql.Identifier(column), table=sql.Identifier(schema, table), point=sql.Placeholder(point))


ROWS = {
    "film": _near("film", "content", "film_work"),
    "genre": _near("genre", "content", "genre"),
    "person": _near("person", "content", "person"),
    "film_genre": _near("film_genre", "content", "genre_film_work"),
    "credit": _near("credit", "content", "person_film_work"),
    "rating": _near("rating", "ugc", "ratings"),
    "review": _near("review", "ugc", "reviews"),
    "view": _near("view", "ugc", "views"),
    "fan": _near("fan", "ugc", "likes", "user_id"),
    "user": sql.SQL("md5('user' || mod(%(number)s, 2000))::uuid"),  # one of the first 2000
}

# How often each change is made, relative to the others, and its statement.
CHANGES: tuple[tuple[float, LiteralString], ...] = (
    # A new film, with a genre and three ratings at once.
    (
        4,
        """
        WITH film AS (
            INSERT INTO content.film_work (id, title, rating, type)
            VALUES (%(new)s, 'The ' || %(word)s || ' of ' || %(number)s, %(stars)s, 'movie')
            ON CONFLICT DO NOTHING RETURNING id
        ), link AS (
            INSERT INTO content.genre_film_work (id, film_work_id, genre_id)
            SELECT film.id, film.id, genre.id FROM film, content.genre WHERE genre.id = {genre}
            ON CONFLICT DO NOTHING
        )
        INSERT INTO ugc.ratings (id, user_id, film_id, rating)
        SELECT md5(film.id::text || n)::uuid, md5('user' || n)::uuid, film.id, mod(%(score)s + n, 11)
        FROM film, generate_series(1, 3) AS n
        ON CONFLICT DO NOTHING
        """,
    ),
    (4, "UPDATE content.film_work SET title = title || ' ' || %(word)s, modified = now() WHERE id = {film}"),
    (4, "UPDATE content.film_work SET rating = %(stars)s, modified = now() WHERE id = {film}"),
    (1, "DELETE FROM content.film_work WHERE id = {film}"),  # and its links; its ratings outlive it
    # Genres: seldom, as one touches many films.
    (
        0.5,
        "INSERT INTO content.genre (id, name) VALUES (%(new)s, %(word)s || ' ' || %(number)s) ON CONFLICT DO NOTHING",
    ),
    (
        0.5,
        "UPDATE content.genre SET name = %(word)s || ' ' || %(number)s, modified = now()"
        " WHERE id = {genre}"
        " AND NOT EXISTS (SELECT FROM content.genre WHERE name = %(word)s || ' ' || %(number)s)",
    ),
    (0.1, "DELETE FROM content.genre WHERE id = {genre}"),
    (
        3,
        "INSERT INTO content.genre_film_work (id, film_work_id, genre_id)"
        " SELECT %(new)s, film.id, genre.id FROM content.film_work AS film, content.genre"
        " WHERE film.id = {film} AND genre.id = {genre} ON CONFLICT DO NOTHING",
    ),
    # A link moved to another genre, then one moved to another film.
    (
        3,
        "UPDATE content.genre_film_work AS link SET genre_id = {genre} WHERE id = {film_genre}"
        " AND NOT EXISTS (SELECT FROM content.genre_film_work AS other"
        " WHERE other.film_work_id = link.film_work_id AND other.genre_id = {genre})",
    ),
    (
        2,
        "UPDATE content.genre_film_work AS link SET film_work_id = {film} WHERE id = {film_genre}"
        " AND NOT EXISTS (SELECT FROM content.genre_film_work AS other"
        " WHERE other.film_work_id = {film} AND other.genre_id = link.genre_id)",
    ),
    (2, "DELETE FROM content.genre_film_work WHERE id = {film_genre}"),
    # People.
    (
        2,
        "INSERT INTO content.person (id, full_name) VALUES (%(new)s, %(word)s || ' Novák') ON CONFLICT DO NOTHING",
    ),
    (2, "UPDATE content.person SET full_name = %(word)s || ' Smith', modified = now() WHERE id = {person}"),
    (1, "DELETE FROM content.person WHERE id = {person}"),
    (
        3,
        "INSERT INTO content.person_film_work (id, film_work_id, person_id, role)"
        " SELECT %(new)s, film.id, person.id, %(role)s FROM content.film_work AS film, content.person"
        " WHERE film.id = {film} AND person.id = {person} ON CONFLICT DO NOTHING",
    ),
    (
        2,
        "UPDATE content.person_film_work AS link SET person_id = {person} WHERE id = {credit}"
        " AND NOT EXISTS (SELECT FROM content.person_film_work AS other WHERE other.role = link.role"
        " AND other.film_work_id = link.film_work_id AND other.person_id = {person})",
    ),
    (2, "DELETE FROM content.person_film_work WHERE id = {credit}"),
    # Users.
    (
        8,
        "INSERT INTO ugc.ratings (id, user_id, film_id, rating)"
        " SELECT %(new)s, {user}, id, %(score)s FROM content.film_work WHERE id = {film}"
        " ON CONFLICT DO NOTHING",
    ),
    (8, "UPDATE ugc.ratings SET rating = %(score)s, modified = now() WHERE id = {rating}"),
    (
        2,
        "UPDATE ugc.ratings AS mine SET film_id = film.id, modified = now() FROM content.film_work AS film"
        " WHERE mine.id = {rating} AND film.id = {film} AND NOT EXISTS (SELECT FROM ugc.ratings AS other"
        " WHERE other.user_id = mine.user_id AND other.film_id = film.id)",
    ),
    (4, "DELETE FROM ugc.ratings WHERE id = {rating}"),
    (
        2,
        "INSERT INTO ugc.reviews (id, user_id, film_id, body)"
        " SELECT %(new)s, {user}, id, %(word)s || '!' FROM content.film_work WHERE id = {film}"
        " ON CONFLICT DO NOTHING",
    ),
    (2, "UPDATE ugc.reviews SET likes = likes + 1, modified = now() WHERE id = {review}"),
    (1, "DELETE FROM ugc.reviews WHERE id = {review}"),
    (
        4,
        "INSERT INTO ugc.views (id, user_id, film_id, seconds_watched)"
        " SELECT %(new)s, {user}, id, mod(%(number)s, 7200) FROM content.film_work WHERE id = {film}"
        " ON CONFLICT DO NOTHING",
    ),
    (2, "UPDATE ugc.views SET seconds_watched = seconds_watched + 60 WHERE id = {view}"),
    (1, "DELETE FROM ugc.views WHERE id = {view}"),
    (
        3,
        "INSERT INTO ugc.likes (user_id, film_id) SELECT {user}, id FROM content.film_work WHERE id = {film}"
        " ON CONFLICT DO NOTHING",
    ),
    (
        2,
        "DELETE FROM ugc.likes WHERE user_id = {fan}"
        " AND film_id = (SELECT film_id FROM ugc.likes WHERE user_id = {fan} ORDER BY film_id LIMIT 1)",
    ),
)

"""Reading a query for some keys: every way gives the same rows, and one key never costs a whole table."""

import json
import random
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from psycopg import sql

from tests.livefuzz import FIXTURES, Shape, World, prepare, shapes
from tests.support import Lab
from vitrina.engine.query import QueryText
from vitrina.sources.postgres.reader import PostgresReader
from vitrina.sql.live import understand
from vitrina.sql.live.recompute import Recompute, Way, choose_recompute, ways

SHAPES = {shape.name: shape for shape in shapes()}
FILL = """
    INSERT INTO content.film_work (id, title, type, rating)
        SELECT md5('f' || n)::uuid, 'film ' || n, CASE n % 3 WHEN 0 THEN 'tv_show' ELSE 'movie' END, n % 10
        FROM generate_series(1, 6000) n;
    INSERT INTO content.genre_film_work (id, film_work_id, genre_id)
        SELECT md5('l' || n)::uuid, md5('f' || n)::uuid, g.id
        FROM generate_series(1, 6000) n
        JOIN (SELECT id, row_number() OVER () AS m FROM content.genre) g ON g.m = 1 + n % 20;
    INSERT INTO ugc.ratings (id, user_id, film_id, rating)
        SELECT md5('r' || n)::uuid, md5('u' || n % 1999)::uuid, md5('f' || n % 6000)::uuid, n % 11
        FROM generate_series(1, 24000) n;
    INSERT INTO ugc.likes (user_id, film_id)
        SELECT md5('u' || n % 2000)::uuid, md5('f' || n)::uuid FROM generate_series(1, 6000) n;
    INSERT INTO content.tag SELECT n + 10, md5('f' || n)::uuid, 'tag', 1 FROM generate_series(1, 6000) n;
    CREATE INDEX ON content.tag (film_id);
    ANALYZE content.film_work; ANALYZE content.genre_film_work; ANALYZE ugc.ratings; ANALYZE ugc.likes;
    ANALYZE content.tag;
"""
BIG = {"film_work", "genre_film_work", "ratings", "likes", "tag"}


@pytest.fixture(scope="module")
def small() -> Iterator[Lab]:
    with Lab.open("vitrina_template") as lab:
        prepare(lab)
        World(lab.db, random.Random(1)).fill()
        yield lab


@pytest.fixture(scope="module")
def large() -> Iterator[Lab]:
    with Lab.open("vitrina_template") as lab:
        lab.sql(FIXTURES.read_text())
        lab.sql(FILL)
        yield lab


def ways_of(reader: PostgresReader, shape: Shape) -> list[Way]:
    view = understand(reader.conn, reader.settings, shape.select, shape.key)
    return ways(shape.select, reader.describe(shape.select), shape.key, view.ties)


def arguments(rows: Sequence[dict[str, Any]], key: Sequence[str]) -> list[str | None]:
    """Keys as the one argument: an array literal for each column."""
    return ["{" + ",".join(json.dumps(str(row[name])) for row in rows) + "}" for name in key]


def images(reader: PostgresReader, query: sql.Composable, args: Sequence[str | None] = ()) -> list[str]:
    found = sql.SQL("SELECT w::text AS image FROM ({}) AS w").format(query)
    return sorted(row["image"] for row in reader.fetch(found, args))


def keyed(reader: PostgresReader, shape: Shape, key: Sequence[str]) -> list[dict[str, Any]]:
    """A few keys that the query gives, as text."""
    names = sql.SQL(", ").join(sql.SQL("q.{0}::text AS {0}").format(sql.Identifier(name)) for name in key)
    given = sql.SQL(" AND ").join(sql.SQL("q.{} IS NOT NULL").format(sql.Identifier(name)) for name in key)
    text = "SELECT DISTINCT {} FROM (\n{}\n) AS q WHERE {} ORDER BY 1 LIMIT 2"
    return reader.fetch(sql.SQL(text).format(names, sql.SQL(shape.select), given))


def test_every_way_gives_the_rows_of_the_keys_and_no_others(small: Lab) -> None:
    compared = 0
    with small.connections.read_warehouse() as reader:
        for number, shape in enumerate(SHAPES.values()):
            ties = understand(reader.conn, reader.settings, shape.select, shape.key).ties
            if number % 4 and not ties:
                continue
            columns = tuple(reader.describe(shape.select))
            for key in dict.fromkeys([shape.key, shape.key[:1]]):
                args = arguments(keyed(reader, shape, key), key)
                expected = images(reader, QueryText(shape.select, columns, key).by_keys(), args)
                for way in ways(shape.select, columns, key, ties)[1:]:
                    assert (shape.name, way.name, images(reader, way.query, args)) == (shape.name, way.name, expected)
                    compared += bool(expected)
    assert compared > 60


def choose(reader: PostgresReader, shape: Shape) -> Recompute:
    """As a follower would: real keys, one and many."""
    keys = reader.fetch(
        sql.SQL("SELECT q.{0}::text AS {0} FROM (\n{1}\n) AS q LIMIT 300").format(
            sql.Identifier(shape.key[0]), sql.SQL(shape.select)
        )
    )
    samples = {size: arguments(keys[-size:], shape.key) for size in (1, 300)}
    whole = sql.SQL("SELECT * FROM (\n{}\n) AS q").format(sql.SQL(shape.select))
    return choose_recompute(lambda q, a: reader.cost(q, a)[0], ways_of(reader, shape), whole, samples)


def scanned(plan: dict[str, Any]) -> set[str]:
    """The tables that a plan reads from end to end."""
    own = {plan["Relation Name"]} if plan["Node Type"] == "Seq Scan" else set()
    return own.union(*(scanned(below) for below in plan.get("Plans", [])))


PUSHED = [
    "one table", "left join filtered in on", "right join", "group of one table", "film card", "film card with people",
    "grouped subquery joined", "two grouped subqueries joined", "grouped subquery over a join", "cte", "view",
    "view joined", "view of views", "scalar subquery", "scalar subquery with limit", "nested correlated subqueries",
    "exists", "not exists", "in", "in grouped", "lateral", "left lateral with limit", "union", "union grouped outside",
    "intersect", "distinct on", "distinct on joined", "window by the key", "window joined", "full join using",
    "left join of a union", "semi join of a view", "nested joins", "anti join by left join", "array subquery",
]  # fmt: skip


@pytest.mark.parametrize("name", PUSHED)
def test_one_key_scans_no_big_table(large: Lab, name: str) -> None:
    with large.connections.read_warehouse() as reader:
        shape, found = SHAPES[name], choose(reader, SHAPES[name])
        key = reader.fetch(sql.SQL("SELECT md5('f7')::uuid::text AS id"))
        plan = reader.plan(found.way(1).query, arguments([{shape.key[0]: key[0]["id"]}], shape.key))
        assert found.reason is None
        assert (found.way(1).name, scanned(plan) & BIG) == (found.way(1).name, set())


def test_a_grouped_subquery_that_is_joined_is_restricted_inside_for_many_keys(
    large: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vitrina.sql.live.recompute.SMALL", 100.0)
    with large.connections.read_warehouse() as reader:
        found = choose(reader, SHAPES["grouped subquery joined"])
        assert (found.way(1).name, found.way(300).name) == ("each", "inside")


def test_what_is_not_pushed_down_is_not_compared_key_by_key(large: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vitrina.sql.live.recompute.SMALL", 100.0)
    with large.connections.read_warehouse() as reader:
        found = choose(reader, SHAPES["full join using"])
        assert {found.way(1).name, found.way(300).name} <= {"each", "among"}
        assert found.way(1).name == "each"


@pytest.mark.parametrize("name", ["key by date", "group of groups", "except"])
def test_what_cannot_be_read_by_key_says_so(large: Lab, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr("vitrina.sql.live.recompute.SMALL", 100.0)
    with large.connections.read_warehouse() as reader:
        assert "every change means a full comparison" in str(choose(reader, SHAPES[name]).reason)

"""Live marts under writers that do not wait for them, on real captures: equal after every follow.

Shapes of the corpus, drawn at random, whose rows always have a key and look the same however they are read.
VITRINA_ROUNDS makes it longer, and takes all shapes.
"""

import os
import random
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from threading import Thread

import psycopg
import pytest

from tests.elastic import open_search
from tests.livefuzz import DOMAINS, FIXTURES, Shape, World, shapes
from tests.living import Living, living, living_elsewhere
from tests.support import Lab
from vitrina import Row, transform
from vitrina.domain.pipeline import Pipeline
from vitrina.meta.db import connect
from vitrina.sql.live import understand

ROUNDS = int(os.environ.get("VITRINA_ROUNDS", "0"))
EMPTY = "TRUNCATE content.film_work, content.genre, content.person, ugc.ratings, ugc.reviews, ugc.likes CASCADE"
LOOSE = {  # some states of the tables give these a row without a key, or a key twice
    "full join using, then a join", "left join using", "union of different types", "partitioned table", "one partition",
    "functionally dependent key", "join alias", "key by a subquery", "partitioned table joined",
    "grouped by a subquery beside the key", "key is a number", "key computed from a grouped number",
    "distinct numbers as text", "except of numbers as text", "full join on, key coalesced", "full join on two columns",
    "circle through two tables", "key coalesced over a nullable subquery",
    "key coalesced over a left join of another value", "key by nullif",
}  # fmt: skip
SHAPES = {shape.name: shape for shape in shapes()}
EVERYWHERE = ("film card", "grouped subquery joined", "in", "key finer than the window", "except", "full join using")
TITLES = """
    SELECT f.id AS film_id, f.title, (SELECT count(*) FROM ugc.ratings r WHERE r.film_id = f.id) AS n
    FROM content.film_work f"""
SEED = random.randrange(10**6)


@transform("live_shout")
def shout(rows: Sequence[Row]) -> Iterator[Row]:
    """Louder, and without those that were rated twice."""
    for row in rows:
        if row["n"] != 2:
            yield row | {"title": row["title"].upper()}


class Application(World):
    """Somebody who changes the tables, in transactions that overlap with those of others."""

    def work(self, transactions: int) -> None:
        """So many; some are rolled back, some are open for a while, some end in a deadlock."""
        for _ in range(transactions):
            with suppress(psycopg.errors.DeadlockDetected, psycopg.Rollback), self.db.transaction():
                for table in self.rng.choices(list(DOMAINS), k=self.rng.randint(1, 5)):
                    self._change(table)
                if self.rng.random() < 0.3:
                    time.sleep(self.rng.random() / 50)
                if self.rng.random() < 0.1:
                    raise psycopg.Rollback


@contextmanager
def writing(conninfo: str, seed: int, transactions: int) -> Iterator[None]:
    """Three of them at work."""

    def work(number: int) -> None:
        with connect(conninfo, "application") as conn:
            conn.execute("SET deadlock_timeout = '20ms'")
            Application(conn, random.Random(seed + number)).work(transactions)

    threads = [Thread(target=work, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        for thread in threads:
            thread.join()


@contextmanager
def cinema(lab: Lab, kind: str) -> Iterator[Living]:
    """Small tables, under capture."""
    lab.sql(FIXTURES.read_text())
    lab.sql(EMPTY)
    with living(lab, kind, tuple(DOMAINS)) as live:
        yield live


def steady(lab: Lab) -> list[Shape]:
    """The shapes that a mart can be held to."""
    with lab.connections.read_warehouse() as reader:
        meant = [(shape, understand(reader.conn, reader.settings, shape.select, shape.key)) for shape in shapes()]
    return [shape for shape, view in meant if not view.warnings and shape.name not in LOOSE]


def add_marts(live: Living, chosen: Sequence[Shape]) -> list[Pipeline]:
    """One for each, in batches so small that they do not always suffice."""
    return [
        live.add(shape.select, shape.key, name=shape.name, target_table=f"analytics.m{number}", batch_size=3)
        for number, shape in enumerate(chosen)
    ]


def follow_writers(live: Living, marts: Sequence[Pipeline], rounds: int) -> Iterator[str]:
    """Follow while others write, and once more when they have ended; there it must be equal."""
    conninfo = live.captured.conn.info.dsn
    live.lab.configure(max_delete_rows=10**6)
    for round_ in range(rounds):
        with writing(conninfo, SEED + 10 * round_, 12):
            live.follow(*marts, allow_deletes=True)
        live.follow(*marts, allow_deletes=True)
        yield f"seed {SEED}, round {round_}"


@pytest.mark.long
@pytest.mark.parametrize("kind", ["wal", "trigger"])
def test_marts_of_many_shapes_end_equal_after_every_follow(lab: Lab, kind: str) -> None:
    with cinema(lab, kind) as live:
        found = steady(lab)
        assert len(found) > 100
        rng = random.Random(SEED)
        rng.shuffle(found)
        marts = add_marts(live, found if ROUNDS else found[:6])
        for note in follow_writers(live, marts, max(2, ROUNDS // 10)):
            for mart in marts:
                live.assert_equal(mart, note=note)


def test_marts_of_another_database_end_equal(lab: Lab) -> None:
    lab.sql("DROP SCHEMA content, ugc CASCADE")  # nothing can be read here
    prepared = FIXTURES.read_text() + EMPTY
    with living_elsewhere(lab, "wal", tuple(DOMAINS), prepared) as live:
        marts = add_marts(live, [SHAPES[name] for name in EVERYWHERE])
        for note in follow_writers(live, marts, max(1, ROUNDS // 10)):
            for mart in marts:
                live.assert_equal(mart, note=note)


@pytest.mark.parametrize("kind", ["wal", "trigger"])
def test_marts_behind_a_transform_end_equal(lab: Lab, kind: str) -> None:
    with cinema(lab, kind) as live:
        tasks = [
            {"order_index": 1, "task_type": "SQL", "body": TITLES},
            {"order_index": 2, "task_type": "PYTHON", "body": "live_shout"},
        ]
        mart = lab.add(mode="live", key=["film_id"], tasks=tasks, batch_size=3)
        shouted = f"SELECT film_id, upper(title) AS title, n FROM ({TITLES}) AS q WHERE n <> 2"
        for note in follow_writers(live, [mart], max(2, ROUNDS // 5)):
            live.assert_equal(mart, shouted, note)
        assert lab.sql("SELECT tablename FROM pg_tables WHERE schemaname = 'etl_stage'") == []


def test_indexes_end_equal(lab: Lab, elastic: str, index_prefix: str) -> None:
    with cinema(lab, "wal") as live, open_search(lab, elastic, index_prefix) as search:
        chosen = [SHAPES[name] for name in EVERYWHERE if len(SHAPES[name].key) == 1]
        marts = [
            search.add(f"m{n}", source_query=shape.select, key=list(shape.key), mode="live", batch_size=3)
            for n, shape in enumerate(chosen)
        ]
        for note in follow_writers(live, marts, max(1, ROUNDS // 10)):
            for mart, shape in zip(marts, chosen, strict=True):
                assert search.documents(mart.name) == search.wanted(mart, shape.key[0]), f"{shape.name} {note}"

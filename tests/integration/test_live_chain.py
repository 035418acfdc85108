"""Live marts over live marts: each link follows the one before it as any captured table."""

import random
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from tests.livefuzz import World, prepare
from tests.living import Living, living
from tests.patience import is_prompt
from tests.support import Lab, wait_for
from vitrina.domain.pipeline import Pipeline
from vitrina.runner.main import Runner

BASE = ("content.film_work", "ugc.ratings")
RATED = "SELECT film_id, count(*) AS votes, sum(rating) AS stars FROM ugc.ratings GROUP BY film_id"
CARDS = """SELECT f.id AS film_id, f.title, f.type, coalesce(r.votes, 0) AS votes, coalesce(r.stars, 0) AS stars
           FROM content.film_work f LEFT JOIN {} r ON r.film_id = f.id"""
KINDS = "SELECT c.type, count(*) AS films, sum(c.votes) AS votes FROM {} c GROUP BY c.type"
LINKS = {"rated": (RATED, "film_id"), "cards": (CARDS, "film_id"), "kinds": (KINDS, "type")}
ONE_LESS = "DELETE FROM ugc.ratings WHERE id = (SELECT id FROM ugc.ratings LIMIT 1)"
WHOLE = KINDS.format(f"({CARDS.format(f'({RATED})')})")  # the end of the chain, from the tables alone


@pytest.fixture
def lab(lab: Lab) -> Lab:
    """It may read marts."""
    lab.configure(allowed_source_schemas=["content", "ugc", "analytics"])
    return lab


@pytest.fixture(params=["wal", "trigger"])
def live(lab: Lab, request: pytest.FixtureRequest) -> Iterator[Living]:
    prepare(lab)
    with living(lab, request.param, BASE) as live:
        yield live


def chain(live: Living) -> list[Pipeline]:
    """Three live marts, each over the one before it, and equal."""
    made: list[Pipeline] = []
    for name, (select, key) in LINKS.items():
        before = made[-1].target_table if made else None
        if before:
            live.lab.sql(f"ALTER TABLE {before} REPLICA IDENTITY FULL")
            live.captured.install(*live.captured.capture.tables, before)
        made.append(live.add(select.format(before), [key], name=name, target_table=f"analytics.{name}"))
        live.follow(made[-1])
    assert_equal(live, made)
    return made


def assert_equal(live: Living, made: list[Pipeline]) -> None:
    for pipeline in made:
        live.lab.assert_equal(pipeline)
    live.assert_equal(made[-1], WHOLE)


def follow(live: Living, made: list[Pipeline]) -> None:
    for pipeline in made:
        live.follow(pipeline)


def test_a_chain_ends_equal_whatever_comes_and_in_whatever_order_its_links_follow(live: Living) -> None:
    rng = random.Random(21)
    world = World(live.lab.db, rng)
    world.fill()
    made = chain(live)
    compared = 0
    for _ in range(12):
        world.tick(list(BASE), rng.randint(1, 6))
        for pipeline in rng.sample(made, rng.randint(0, 3)):
            live.follow(pipeline)
            compared += "comparing" in live.events(pipeline)
    follow(live, made)
    assert_equal(live, made)
    assert compared == 0, "each change is told by its keys"


def test_a_rebuilt_mart_is_followed_as_any_change(live: Living) -> None:
    World(live.lab.db, random.Random(1)).fill()
    made = chain(live)
    live.lab.sql("DELETE FROM analytics.rated WHERE votes > 1")
    live.follow(made[0], rebuild=True)
    follow(live, made[1:])
    assert "comparing" not in live.events(made[1])
    assert_equal(live, made)


def test_a_mart_that_is_emptied_or_given_columns_is_compared_downstream(live: Living) -> None:
    World(live.lab.db, random.Random(2)).fill()
    made = chain(live)
    live.captured.run("TRUNCATE analytics.rated")
    live.follow(made[1], allow_deletes=True)
    assert "comparing" in live.events(made[1])
    live.alter("analytics.rated", "ADD COLUMN more integer")
    follow(live, made)
    assert_equal(live, made)
    live.captured.run(
        "UPDATE ugc.ratings SET rating = 2 WHERE film_id = (SELECT min(film_id::text)::uuid FROM ugc.ratings)"
    )
    follow(live, made)
    assert "comparing" not in live.events(made[1])
    assert_equal(live, made)


def test_a_mart_that_is_dropped_stops_what_reads_it_until_it_is_made_and_captured_again(live: Living) -> None:
    World(live.lab.db, random.Random(3)).fill()
    made = chain(live)
    live.captured.run("DROP TABLE analytics.rated")
    gone = live.lab.run(made[1])
    assert (gone["status"], gone["remedy"]) == (
        "FAILED",
        "pipeline rated makes it: vitrina run rated",
    )
    live.follow(made[0])
    lost = live.lab.run(made[1])
    assert (lost["status"], "vitrina capture install" in lost["said"]) == ("FAILED", True)
    live.lab.sql("ALTER TABLE analytics.rated REPLICA IDENTITY FULL")
    live.captured.install(*live.captured.capture.tables)
    follow(live, made)
    assert_equal(live, made)


def test_the_end_of_a_chain_is_no_later_than_its_links_together(lab: Lab) -> None:
    with living(lab, "wal", BASE) as live:
        made = chain(live)
        with lab.runner():
            for _ in range(4):
                before = end_of(live, made)
                live.captured.run(ONE_LESS)
                wait_for(partial(has_come, live, made, before), 60)
                links = [live.position(pipeline) for pipeline in made]
                late = sum(link["lag_ms"] for link in links) / 1000
                assert is_prompt(seconds(lab, links) - late, 0.25)
        assert_equal(live, made)


def has_come(live: Living, made: list[Pipeline], before: Any) -> bool:
    return end_of(live, made) != before and is_equal(live, made)


def end_of(live: Living, made: list[Pipeline]) -> Any:
    return live.position(made[-1]).get("applied_at")


def is_equal(live: Living, made: list[Pipeline]) -> bool:
    try:
        assert_equal(live, made)
    except AssertionError:
        return False
    return True


def seconds(lab: Lab, links: list[dict[str, Any]]) -> float:
    """From the commit of the change at the beginning to the mart at the end."""
    query = "SELECT extract(epoch FROM %s::timestamptz - %s::timestamptz)::float8"
    return float(lab.value(query, links[-1]["applied_at"], links[0]["committed_at"]))


def test_an_upstream_that_never_ran_is_named_before_and_by_the_run(live: Living) -> None:
    live.add(RATED, ["film_id"], name="rated", target_table="analytics.rated")
    over = live.add(CARDS.format("analytics.rated"), name="cards", target_table="analytics.cards")
    live.lab.request(over)
    Runner(live.lab.connections).run_once(over.id)
    assert live.lab.last_run(over)["remedy"] == "pipeline rated makes it: vitrina run rated"

"""Chains of marts, killed at each link: live ones and those that are due one after the other end equal."""

from collections.abc import Iterator

import pytest

from tests.faults.oracle import Oracle
from tests.integration.test_live_chain import BASE, assert_equal, chain, follow
from tests.integration.test_upstream import SCHEMAS, above, mart
from tests.living import Living, living
from tests.support import Lab
from vitrina.domain.pipeline import Pipeline
from vitrina.runner.main import Runner
from vitrina.testing.faults import FORKS, Nursery, killed

FORKS.set_forkserver_preload(["tests.faults.children"])
pytestmark = pytest.mark.faults

FOLLOWING = ("live slice:1", "before checkpoint:2", "after checkpoint:2")
LOADING = ("claimed:1", "before checkpoint:2", "after checkpoint:2", "before end:1")
CHANGES = (
    "DELETE FROM ugc.ratings WHERE id IN (SELECT id FROM ugc.ratings LIMIT 3)",
    "UPDATE ugc.ratings SET rating = rating % 10 + 1 WHERE id IN (SELECT id FROM ugc.ratings ORDER BY id DESC LIMIT 5)",
    "UPDATE content.film_work SET type = CASE type WHEN 'movie' THEN 'tv_show' ELSE 'movie' END"
    " WHERE id IN (SELECT id FROM content.film_work ORDER BY random() LIMIT 2)",
)


@pytest.fixture
def lab(lab: Lab) -> Lab:
    lab.configure(allowed_source_schemas=SCHEMAS)
    return lab


@pytest.fixture
def nursery(lab: Lab) -> Iterator[Nursery]:
    nursery = Nursery(lab)
    yield nursery
    nursery.end()


@pytest.fixture
def live(lab: Lab) -> Iterator[Living]:
    with living(lab, "wal", BASE) as live:
        yield live


def change(live: Living) -> None:
    live.captured.run(*CHANGES)
    live.catch_up()


@pytest.mark.parametrize("link", [0, 1, 2])
def test_a_live_chain_ends_equal_whichever_link_is_killed_where(live: Living, nursery: Nursery, link: int) -> None:
    made = chain(live)
    oracle = Oracle(live.lab)
    oracle.watch()
    for point in FOLLOWING:
        change(live)
        for link_above in made[:link]:  # and nobody follows those below meanwhile
            live.catch_up()
            live.lab.run(link_above)
        live.catch_up()
        nursery.kill_at(made[link], killed(point))
        change(live)
        assert nursery.take_over(made[link])["status"] == "SUCCESS"
        follow(live, made)
        assert "comparing" not in live.events(made[-1])
        assert_equal(live, made)
    oracle.assert_all_well(*made)


@pytest.mark.parametrize("point", LOADING)
def test_a_chain_of_runs_ends_equal_whichever_link_is_killed(lab: Lab, nursery: Nursery, point: str) -> None:
    made = [lab.add(**mart("a"))]
    for name, before in (("b", "a"), ("c", "b")):
        lab.run(made[-1])
        made.append(lab.add(**mart(name, above(before), after="upstream")))
    lab.run(made[-1])
    for pipeline in made:
        lab.sql("DELETE FROM ugc.ratings WHERE film_id = (SELECT film_id FROM ugc.ratings LIMIT 1)")
        go_down(lab, made, nursery, pipeline, point)
        for one in made:
            lab.assert_equal(one)
        assert lab.sql("SELECT count(*) FROM analytics.c") == lab.sql("SELECT count(DISTINCT film_id) FROM ugc.ratings")


def go_down(lab: Lab, made: list[Pipeline], nursery: Nursery, victim: Pipeline, point: str) -> None:
    """The first link runs, those below come after it; whoever runs the victim is killed, and another goes on."""
    if victim != made[0]:
        lab.request(made[0])
    for pipeline in made:
        if pipeline == victim:
            nursery.kill_at(pipeline, killed(point))
            nursery.take_over(pipeline)
        else:
            Runner(lab.connections).run_once(pipeline.id)
    while Runner(lab.connections).run_once():
        pass
    assert {lab.status(pipeline) for pipeline in made} <= {"IDLE", "FOLLOWING"}

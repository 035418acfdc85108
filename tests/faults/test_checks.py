"""Checks under kill -9: wherever a runner dies, nobody sees a batch that breaks a check, and a mended mart is equal."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.elastic import Search
from tests.faults.oracle import Oracle
from tests.living import living
from tests.support import Lab
from vitrina.domain.pipeline import Pipeline
from vitrina.testing.faults import FORKS, Nursery, killed

FORKS.set_forkserver_preload(["tests.faults.children"])
pytestmark = pytest.mark.faults

LOW = {"name": "low", "condition": "rating < 100"}
QUERY = "SELECT id AS film_id, title, rating, modified FROM content.film_work"
PLACES = ("claimed:1", "before checkpoint:2", "after checkpoint:2")
# The database itself notes what a transaction commits that a check should have held back.
SEEN = """
    CREATE TABLE content.seen (rating numeric);
    GRANT INSERT ON content.seen TO PUBLIC;
    CREATE FUNCTION content.see() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        INSERT INTO content.seen VALUES (new.rating); RETURN NULL; END $$;
    CREATE CONSTRAINT TRIGGER seen AFTER INSERT OR UPDATE ON analytics.mart DEFERRABLE INITIALLY DEFERRED
        FOR EACH ROW WHEN (new.rating >= 100) EXECUTE FUNCTION content.see();
"""


@pytest.fixture
def nursery(lab: Lab) -> Iterator[Nursery]:
    nursery = Nursery(lab)
    yield nursery
    nursery.end()


def spoil(lab: Lab) -> None:
    """A good change, and a bad one in another batch."""
    lab.sql("UPDATE content.film_work SET title = title || '!', modified = clock_timestamp()")
    last = "(SELECT max(id::text)::uuid FROM content.film_work)"
    lab.sql(f"UPDATE content.film_work SET rating = 100, modified = clock_timestamp() WHERE id = {last}")


def mend(lab: Lab) -> None:
    lab.sql("UPDATE content.film_work SET rating = 1, modified = clock_timestamp() WHERE rating = 100")


def assert_blocked(lab: Lab, nursery: Nursery, pipeline: Pipeline, point: str) -> None:
    """Killed there, taken over, and then it is what the check says."""
    nursery.kill_at(pipeline, killed(point))
    run = nursery.take_over(pipeline)
    assert (run["status"], "check 'low' is broken by 1 row" in run["error"]) == ("FAILED", True), run["error"]
    assert lab.value("SELECT count(*) FROM analytics.mart WHERE rating >= 100") == 0
    assert lab.sql("SELECT * FROM content.seen") == []


@pytest.mark.parametrize("point", PLACES)
@pytest.mark.parametrize(
    "how",
    [
        pytest.param({}, id="full"),
        pytest.param({"publish": "atomic"}, id="atomic"),
        pytest.param(
            {"mode": "incremental", "incremental_key": "modified", "incremental_id_key": "film_id"}, id="cursor"
        ),
    ],
)
def test_a_blocked_batch_publishes_nothing_wherever_a_runner_dies(
    lab: Lab, nursery: Nursery, point: str, how: dict[str, Any]
) -> None:
    atomic = how.get("publish") == "atomic"
    other = {"unique": ["film_id"]} if atomic else {"not_null": ["title"]}
    checks = [LOW, {"name": "other"} | other]
    pipeline = lab.add(source_query=QUERY, key=["film_id"], batch_size=20, checks=checks, **how)
    assert lab.run(pipeline)["error"] is None
    lab.sql(SEEN)
    oracle = Oracle(lab)
    oracle.watch()
    spoil(lab)
    assert_blocked(lab, nursery, pipeline, point.replace(":2", ":1") if atomic else point)
    mend(lab)
    assert lab.run(pipeline)["error"] is None
    lab.assert_equal(pipeline)
    oracle.assert_all_well(pipeline)
    assert lab.sql("SELECT DISTINCT outcome FROM etl.etl_checks") == [("kept",)]


@pytest.mark.parametrize("point", ["claimed:1", "live slice:1", "before checkpoint:2"])
def test_a_blocked_slice_publishes_nothing_wherever_a_runner_dies(lab: Lab, nursery: Nursery, point: str) -> None:
    with living(lab, "trigger") as live:
        pipeline = live.add(QUERY, batch_size=20, checks=[LOW])
        live.follow(pipeline)
        lab.sql(SEEN)
        spoil(lab)
        live.catch_up()
        assert_blocked(lab, nursery, pipeline, point)
        mend(lab)
        live.follow(pipeline)
        live.assert_equal(pipeline)


@pytest.mark.parametrize("point", ["before send:1", "after send:1", "before shadow:3"])
def test_no_blocked_document_is_sent_wherever_a_runner_dies(search: Search, point: str) -> None:
    lab, nursery = search.lab, Nursery(search.lab)
    try:
        pipeline = search.add(batch_size=20, source_query=QUERY, checks=[LOW])
        assert lab.run(pipeline)["error"] is None
        spoil(lab)
        nursery.kill_at(pipeline, killed(point))
        run = nursery.take_over(pipeline)
        assert (run["status"], "check 'low' is broken by 1 row" in run["error"]) == ("FAILED", True)
        assert not any(document["rating"] == 100 for document in search.documents().values())
        mend(lab)
        assert lab.run(pipeline)["error"] is None
        assert search.documents() == search.wanted(pipeline)
    finally:
        nursery.end()

"""Runners of several targets that are killed or stopped while one target is away: every other mart is its query's."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.driver import ROUNDS, Driver, driving
from tests.faults.oracle import Oracle
from tests.support import Lab
from vitrina.domain.pipeline import Pipeline
from vitrina.meta.repos.pipelines import PipelineRepo
from vitrina.runner.manager import PipelineManager

pytestmark = pytest.mark.faults
TARGETS = ("analytics.one", "analytics.two")
AWAY = "es:items"
DOUBLED = "UPDATE content.items SET title = title || '!' WHERE id % 2 = 0"
THINNED = "DELETE FROM content.items WHERE id < 40"
BATCHES = "SELECT coalesce(sum(batches), 0) FROM etl.etl_runs WHERE pipeline_id = %s"
PLACES = ("shared reading=kill:1", "shared reading=kill:2", "before checkpoint=kill:2", "after checkpoint=kill:3")


@pytest.fixture
def driver(lab: Lab, tmp_path: Path) -> Iterator[Driver]:
    with driving(lab, tmp_path) as driver:
        driver.environment = {"ELASTICSEARCH_URL": "http://127.0.0.1:9", "VITRINA_ALLOWED_ES_INDEXES": "items"}
        yield driver


def add(driver: Driver) -> list[Pipeline]:
    """Two tables that nap at every batch, and an index that nobody answers for."""
    for target in TARGETS:
        driver.add(target.removeprefix("analytics."))
        driver.lab.sql("DELETE FROM etl.etl_pipelines WHERE target_table = %s", target)
    query = {"source_query": "SELECT i.id, i.title FROM content.items i", "key": ["id"], "batch_size": 20}
    driver.lab.add(name="items", target_table=None, targets=[*TARGETS, AWAY], **query)
    stored = PipelineRepo(driver.lab.db)
    return [Pipeline.parse(stored.get(f"items@{target}").config) for target in TARGETS]


def request(driver: Driver) -> None:
    """All targets at once; the one that is away waits already, perhaps."""
    with driver.lab.db.transaction():
        for target in (*TARGETS, AWAY):
            stored = PipelineRepo(driver.lab.db)
            stored.request_run(stored.get(f"items@{target}").id)


def assert_well(driver: Driver, marts: list[Pipeline]) -> None:
    """But for the one that is away: its run is neither taken over nor ended before its place answers."""
    PipelineManager(driver.lab.db).tidy()
    Oracle(driver.lab, away=[f"items@{AWAY}"]).assert_all_well(*marts)


@pytest.mark.parametrize("place", PLACES)
def test_killed_at_any_place_of_a_shared_reading_every_target_that_answers_is_equal(driver: Driver, place: str) -> None:
    marts = add(driver)
    for change in (DOUBLED, THINNED):
        request(driver)
        driver.environment["VITRINA_FAILPOINTS"] = place
        assert driver.start().wait(60) == -9
        del driver.environment["VITRINA_FAILPOINTS"]
        last = driver.start()
        driver.wait_for_end(*marts)
        driver.stop(last)
        assert_well(driver, marts)
        driver.lab.sql(change)


def test_killed_at_any_moment_every_target_that_answers_is_equal(driver: Driver) -> None:
    marts = add(driver)
    for _ in range(max(2, ROUNDS // 20)):
        driver.lab.sql("TRUNCATE analytics.one, analytics.two")
        request(driver)
        before = driver.lab.value(BATCHES, marts[0].id)
        process = driver.start()
        driver.wait_for_batches(marts[0], before + random.randint(2, 9))
        process.kill()
        process.wait()
        last = driver.start()
        driver.wait_for_end(*marts)
        assert driver.stop(last) == 0
        assert_well(driver, marts)

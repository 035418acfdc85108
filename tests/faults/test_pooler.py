"""Behind pgbouncer in transaction mode: every transaction may have another session, and all still holds."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from psycopg.conninfo import make_conninfo

from tests.contract.server import CHANGED_FILMS, running, serve
from tests.faults import rounds
from tests.faults import test_runner as scenarios
from tests.faults.driver import Driver, driving
from tests.faults.rig import rigged
from tests.faults.rounds import Loop
from tests.pooling import pool, pooled, pooling
from tests.support import Lab

pytestmark = pytest.mark.faults
LONG = pytest.mark.long
SHORT = (rounds.stop, rounds.kill_at, rounds.crash)


@pytest.fixture
def port(lab: Lab) -> Iterator[int]:
    """Of a pooler, through which the lab's runners go."""
    with pooling(lab.conninfo) as port:
        pool(lab, port)
        yield port


@pytest.fixture
def driver(lab: Lab, port: int, tmp_path: Path) -> Iterator[Driver]:
    with driving(lab, tmp_path) as driver:
        driver.environment = {"VITRINA_DIRECT_URL": make_conninfo(lab.conninfo, user="vitrina_runner")}
        yield driver


@pytest.mark.scenario(64)
@pytest.mark.parametrize(
    "scenario",
    [
        scenarios.test_a_runner_stopped_past_its_lease_is_taken_over_and_commits_nothing_when_it_goes_on,
        scenarios.test_a_runner_stopped_between_its_fence_and_its_commit_commits_nothing,
        pytest.param(scenarios.test_a_pause_survives_the_death_of_the_runner, marks=LONG),
        pytest.param(scenarios.test_sigterm_ends_the_batch_releases_the_lease_and_hands_the_pipeline_back, marks=LONG),
        pytest.param(scenarios.test_a_runner_killed_at_any_moment_is_followed_by_another, marks=LONG),
        pytest.param(scenarios.test_when_all_runners_are_killed_the_next_ones_go_on, marks=LONG),
        pytest.param(
            scenarios.test_a_pipeline_deleted_by_hand_while_it_runs_is_let_go_and_the_others_go_on, marks=LONG
        ),
    ],
    ids=lambda scenario: scenario.__name__.removeprefix("test_"),
)
def test_runners_behind_pgbouncer_survive(driver: Driver, scenario: Callable[[Driver], None]) -> None:
    scenario(driver)


@pytest.mark.scenario(64)
def test_the_api_behind_pgbouncer_starts_and_shows_runs_of_every_mode(lab: Lab, port: int) -> None:
    url = pooled(port, make_conninfo(lab.conninfo, user="vitrina_api"))
    with serve(lab, url) as api, running(lab):
        api.create("full")
        api.create("cursor", source_query=CHANGED_FILMS, mode="incremental", incremental_key="modified")
        api.create("python", type="PYTHON", python_task="normalise_title")
        for name in ("full", "cursor", "python"):
            assert api.post(f"/pipelines/{name}/run").status_code == 202
            assert api.wait_for(name, "IDLE", "FAILED", seconds=30)["status"] == "IDLE"
            assert api.get(f"/pipelines/{name}/runs")["items"][0]["rows_written"] == 60


@pytest.mark.long
@pytest.mark.scenario(64)
def test_marts_of_every_sort_survive_faults_behind_pgbouncer(elastic: str, tmp_path: Path) -> None:
    with rigged(tmp_path, elastic, is_pooled=True) as rig:
        loop = Loop(rig, seed=2)
        for number, fault in enumerate(SHORT, 1):
            loop.play(number, fault)
        loop.finish()

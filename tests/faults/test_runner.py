"""Runners that are killed, stopped, cut off or told to leave, in the middle of things."""

import random
import shutil
import signal
import tempfile
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from tests.faults.driver import LEASE, ROUNDS, Driver, driving
from tests.patience import patient, stand_still
from tests.support import BLOCKED, FAST, Lab, make_connections, make_templates
from vitrina.embedded.postgres import EmbeddedPostgres
from vitrina.meta.db import connect
from vitrina.meta.repos.pipelines import PipelineRepo

pytestmark = pytest.mark.faults
SLACK = patient(2.5)

KILLER = """
import os
from vitrina import transform

@transform("kill_the_runner")
def kill(rows):
    os.kill(os.getppid(), 9)  # transforms have a process of their own
"""


SAME = """
from vitrina import transform

@transform("same")
def same(rows):
    return rows
"""


@pytest.fixture
def driver(lab: Lab, tmp_path: Path) -> Iterator[Driver]:
    with driving(lab, tmp_path) as driver:
        yield driver


AT_THE_GATE = f"{BLOCKED} AND wait_event = 'advisory'"  # others may wait for a moment, for something else


def hold(driver: Driver) -> None:
    """From here on the fence waits for an advisory lock, which somebody must hold."""
    driver.lab.sql(
        """
        CREATE FUNCTION content.wait() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            PERFORM pg_advisory_xact_lock_shared(4711); RETURN NULL; END $$;
        CREATE TRIGGER wait AFTER UPDATE ON etl.etl_state
            FOR EACH ROW WHEN (new.seq <> old.seq) EXECUTE FUNCTION content.wait();
        """
    )


def test_a_runner_killed_at_any_moment_is_followed_by_another(driver: Driver) -> None:
    pipeline = driver.add()
    for number in range(max(2, ROUNDS // 20)):
        driver.lab.sql("TRUNCATE analytics.mart")
        driver.lab.request(pipeline)
        before = driver.lab.value("SELECT coalesce(sum(batches), 0) FROM etl.etl_runs")
        for _ in range(number % 2 + 1):
            process = driver.start()
            driver.wait_for_batches(pipeline, before + random.randint(1, 9))
            process.kill()
            process.wait()
        last = driver.start()
        driver.wait_for_end(pipeline)
        driver.assert_all_well(pipeline)
        assert driver.stop(last) == 0


@pytest.mark.scenario(1)
def test_killed_between_the_write_to_the_mart_and_its_commit_neither_is_visible(driver: Driver) -> None:
    pipeline = driver.add()
    driver.lab.request(pipeline)
    driver.environment = {"VITRINA_FAILPOINTS": "before checkpoint=kill:6"}
    assert driver.start("--once").wait(patient(60)) == -signal.SIGKILL
    batches, written = driver.lab.sql("SELECT batches, rows_written FROM etl.etl_runs")[0]
    assert driver.lab.value("SELECT count(*) FROM analytics.mart") == written == 20 * batches
    assert 0 < batches < 20
    driver.environment = {}
    driver.start()
    driver.wait(lambda: driver.lab.last_run(pipeline)["attempt"] == 2)
    driver.wait_for_end(pipeline)
    driver.assert_all_well(pipeline)
    assert driver.lab.value("SELECT sum(rows_written) FROM etl.etl_runs") == 400


@pytest.mark.scenario(8)
def test_when_all_runners_are_killed_the_next_ones_go_on(driver: Driver) -> None:
    pipelines = [driver.add(f"m{n}") for n in range(4)]
    for pipeline in pipelines:
        driver.lab.request(pipeline)
    first = [driver.start(), driver.start()]
    for pipeline in pipelines:
        driver.wait_for_batches(pipeline, 2)
    for process in first:
        process.kill()
    driver.start()
    driver.wait_for_end(*pipelines)
    driver.assert_all_well(*pipelines)
    assert driver.lab.value("SELECT max(attempt) FROM etl.etl_runs") == 2
    waited = driver.lab.value("SELECT max(r.tried_at) - min(n.started_at) FROM etl.etl_runs r, etl.etl_runners n"
                              " WHERE r.attempt = 2 AND r.runner = n.name")  # fmt: skip
    assert waited < timedelta(seconds=LEASE + 0.1 + SLACK), "lease, poll interval, and a busy machine"


@pytest.mark.scenario(3)
def test_a_runner_stopped_past_its_lease_is_taken_over_and_commits_nothing_when_it_goes_on(driver: Driver) -> None:
    pipeline, other = driver.add(), driver.add("other")
    driver.lab.request(pipeline)
    zombie = driver.start()
    driver.wait_for_batches(pipeline, 3)
    stand_still(zombie.pid)
    successor = driver.start()
    driver.wait(lambda: driver.lab.last_run(pipeline)["attempt"] == 2)
    zombie.send_signal(signal.SIGCONT)
    driver.wait_for_end(pipeline)
    driver.assert_all_well(pipeline)
    assert driver.lab.value("SELECT count(*) FROM etl.etl_run_attempts WHERE status = 'FAILED'") == 1
    driver.stop(successor)
    driver.lab.request(other)
    driver.wait_for_end(other)
    driver.assert_all_well(pipeline, other)
    assert driver.stop(zombie) == 0


@pytest.mark.scenario(58)
def test_a_runner_stopped_between_its_fence_and_its_commit_commits_nothing(driver: Driver) -> None:
    pipeline = driver.add()
    hold(driver)
    with connect(driver.lab.conninfo, "gate") as gate:
        gate.execute("SELECT pg_advisory_lock(4711)")
        driver.lab.request(pipeline)
        zombie = driver.start()
        driver.wait(lambda: driver.lab.value(AT_THE_GATE))
        stand_still(zombie.pid)
        gate.execute("SELECT pg_advisory_unlock(4711)")
    driver.start()
    driver.wait_for_end(pipeline)
    zombie.send_signal(signal.SIGCONT)
    driver.assert_all_well(pipeline)
    said = (
        "SELECT e.event, e.at, a.started_at FROM etl.etl_run_events e JOIN etl.etl_run_attempts a USING (run_id)"
        " WHERE a.attempt = 2 AND e.at < a.started_at AND e.event <> 'started'"
    )
    assert driver.lab.sql(said) == []
    assert driver.stop(zombie) == 0


@pytest.mark.scenario(14)
def test_sigterm_ends_the_batch_releases_the_lease_and_hands_the_pipeline_back(driver: Driver) -> None:
    pipeline = driver.add()
    driver.lab.request(pipeline, allow_deletes=True)
    process = driver.start()
    driver.wait_for_batches(pipeline, 2)
    assert driver.stop(process) == 0
    run = driver.lab.last_run(pipeline)
    assert (driver.lab.status(pipeline), run["status"]) == ("RUN_REQUESTED", "PAUSED")
    assert driver.lab.value("SELECT count(*) FROM analytics.mart") == run["rows_written"] == 20 * run["batches"]
    assert driver.lab.value("SELECT count(*) FROM etl.etl_leases WHERE owner IS NOT NULL") == 0
    assert driver.lab.value("SELECT count(*) FROM etl.etl_runners") == 0
    assert driver.start("--once").wait(patient(20)) == 0
    driver.assert_all_well(pipeline)


@pytest.mark.scenario(17)
def test_a_pause_survives_the_death_of_the_runner(driver: Driver) -> None:
    pipeline = driver.add()
    driver.lab.request(pipeline)
    process = driver.start()
    driver.wait_for_batches(pipeline, 2)
    stand_still(process.pid)
    PipelineRepo(driver.lab.db).request_pause(pipeline.id)
    process.kill()
    process.wait()
    driver.start()
    driver.wait_for_end(pipeline)
    assert driver.lab.status(pipeline) == "PAUSED"
    driver.lab.request(pipeline)
    driver.wait_for_end(pipeline)
    driver.assert_all_well(pipeline)


@pytest.mark.scenario(9)
def test_a_pipeline_that_kills_its_runner_three_times_ends_failed_and_the_others_run(driver: Driver) -> None:
    (driver.folder / "killer.py").write_text(KILLER)
    driver.environment = {"VITRINA_TRANSFORM_MODULES": "killer", "PYTHONPATH": str(driver.folder)}
    killer = driver.add("killer", type="PYTHON", python_task="kill_the_runner")
    other = driver.add()
    driver.lab.request(killer)
    while driver.lab.status(killer) != "FAILED":
        driver.start()
        driver.wait(lambda: driver.processes[-1].poll() is not None or driver.lab.status(killer) == "FAILED")
        assert len(driver.processes) <= 4
    assert "lost 3 times in a row" in driver.lab.last_run(killer)["said"]
    driver.lab.request(other)
    driver.wait_for_end(other)
    driver.assert_all_well(other)


@pytest.mark.scenario(20)
def test_a_pipeline_deleted_by_hand_while_it_runs_is_let_go_and_the_others_go_on(driver: Driver) -> None:
    pipeline, other = driver.add(), driver.add("other")
    driver.lab.request(pipeline)
    driver.lab.request(other)
    process = driver.start()
    driver.wait_for_batches(pipeline, 3)
    driver.lab.sql("DELETE FROM etl.etl_pipelines WHERE id = %s", pipeline.id)
    written = driver.lab.value("SELECT count(*) FROM analytics.mart")
    driver.wait_for_end(other)
    assert driver.lab.value("SELECT count(*) FROM analytics.mart") == written < 400
    driver.assert_all_well(other)
    assert driver.stop(process) == 0
    assert "lease lost" in driver.said()
    assert "Traceback" not in driver.said()


@pytest.mark.parametrize("count", [4, 2, 8] if ROUNDS else [4])
def test_many_runners_run_every_request_exactly_once(driver: Driver, count: int) -> None:
    pipelines = [driver.add(f"m{n}", batch_size=400) for n in range(20)]
    for _ in range(count):
        driver.start()
    rounds = max(2, ROUNDS // 10)
    for _ in range(rounds):
        for pipeline in pipelines:
            assert driver.lab.request(pipeline)
            driver.lab.request(pipeline)
        driver.wait_for_end(*pipelines)
    driver.assert_all_well(*pipelines)
    outcome = driver.lab.sql("SELECT status, attempt, count(*) FROM etl.etl_runs GROUP BY 1, 2")
    assert outcome == [("SUCCESS", 1, 20 * rounds)]


@pytest.mark.scenario(11, 57)
def test_the_database_restarted_in_the_middle_of_a_batch_loses_nothing_though_its_stages_are_empty() -> None:
    """A server of its own, restarted without a word while a runner writes."""
    home = Path(tempfile.mkdtemp(prefix="vitrina-crash-"))
    home.chmod(0o755)
    server = EmbeddedPostgres(home / "postgres", settings=FAST | {"fsync": "on", "full_page_writes": "on"})
    server.start()
    try:
        make_templates(server.conninfo())
        conninfo = server.conninfo("vitrina_template")
        with connect(conninfo, "lab") as db:
            lab = Lab(conninfo, db, make_connections(conninfo))
            with driving(lab, home) as driver:
                crash(driver, server)
    finally:
        server.purge()
        shutil.rmtree(home, ignore_errors=True)


def crash(driver: Driver, server: EmbeddedPostgres) -> None:
    """A mart that is being loaded, and one that is there and is converged from a stage."""
    (driver.folder / "same.py").write_text(SAME)
    driver.environment = {"VITRINA_TRANSFORM_MODULES": "same", "PYTHONPATH": str(driver.folder)}
    loaded, staged = driver.add(), driver.add("staged", type="PYTHON", python_task="same")
    driver.lab.sql("INSERT INTO analytics.staged SELECT id, 'old' FROM content.items")
    driver.lab.sql("CREATE TRIGGER naps AFTER UPDATE ON analytics.staged EXECUTE FUNCTION content.nap()")
    driver.lab.request(loaded)
    driver.lab.request(staged)
    process = driver.start()
    for count in range(3, 3 + 3 * max(1, min(2, ROUNDS)), 3):
        driver.wait_for_batches(loaded, count)
        driver.wait_for_batches(staged, count)
        assert driver.lab.value("SELECT count(*) FROM pg_class WHERE relpersistence = 'u' AND relname LIKE 's\\_%%'")
        server.restart(mode="immediate")
        driver.lab.db = connect(driver.lab.conninfo, "lab")
    driver.wait_for_end(loaded, staged)
    driver.assert_all_well(loaded, staged)
    assert driver.lab.value("SELECT sum(rows_deleted) FROM etl.etl_runs") == 0
    assert driver.lab.last_run(staged)["attempt"] > 1
    assert driver.lab.value("SELECT count(*) FROM etl.etl_runners WHERE seen_at > now() - %s * interval '1 s'", LEASE)
    assert driver.stop(process) == 0

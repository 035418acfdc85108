"""Statuses, versions and targets in the real tables: what the code says and what the triggers allow is one thing."""

import re
from collections.abc import Callable
from contextlib import suppress
from itertools import product
from uuid import uuid4

import psycopg
import pytest

from tests.support import Lab
from vitrina.domain.errors import ConfigError, LeaseLost
from vitrina.domain.lifecycle import EDITABLE_UNDER_WAY, TRANSITIONS, Status, legal_moves
from vitrina.domain.pipeline import Pipeline
from vitrina.meta.repos.following import FollowingRepo
from vitrina.meta.repos.leases import Claim, LeaseRepo
from vitrina.meta.repos.pipelines import PipelineRepo

FILMS = "SELECT f.id AS film_id, f.title FROM content.film_work f"


def leases(lab: Lab, seconds: float = 60) -> LeaseRepo:
    return LeaseRepo(lab.db, uuid4(), "somebody", seconds)


def force(lab: Lab, pipeline: Pipeline, status: Status) -> None:
    """Past the trigger, straight into a status."""
    with lab.db.transaction():
        lab.sql("SET LOCAL session_replication_role = replica")
        lab.sql("UPDATE etl.etl_pipelines SET status = %s WHERE id = %s", status, pipeline.id)


def mart(lab: Lab, **config: object) -> Pipeline:
    return lab.add(**({"source_query": FILMS, "key": ["film_id"]} | config))


def test_the_trigger_allows_exactly_the_moves_of_the_table(lab: Lab) -> None:
    pipeline = mart(lab)
    allowed = set()
    for old, new in product(Status, Status):
        force(lab, pipeline, old)
        with suppress(psycopg.errors.CheckViolation):
            lab.sql("UPDATE etl.etl_pipelines SET status = %s WHERE id = %s", new, pipeline.id)
            allowed.add((old, new))
    assert allowed == legal_moves() | {(status, status) for status in Status}


@pytest.mark.parametrize("status", Status)
def test_a_new_pipeline_rests_or_is_requested(lab: Lab, status: Status) -> None:
    insert = "INSERT INTO etl.etl_pipelines (name, status) VALUES ('by hand', %s)"
    if status in (Status.IDLE, Status.RUN_REQUESTED, Status.PAUSED):
        lab.sql(insert, status)
    else:
        with pytest.raises(psycopg.errors.CheckViolation, match=f"cannot be {status}"):
            lab.sql(insert, status)


@pytest.mark.parametrize(("name", "status"), list(product(["request_run", "request_pause"], Status)))
def test_a_request_does_what_the_table_says_or_changes_nothing(lab: Lab, name: str, status: Status) -> None:
    pipeline = mart(lab)
    force(lab, pipeline, status)
    accepted = getattr(PipelineRepo(lab.db), name)(pipeline.id)
    expected = TRANSITIONS[name].get(status)
    assert (accepted, lab.status(pipeline)) == (expected is not None, expected or status)


LEAVES: dict[str, Callable[[LeaseRepo, Claim], None]] = {
    "succeed": lambda repo, claim: repo.succeed(claim),
    "pause": lambda repo, claim: repo.pause(claim),
    "fail": lambda repo, claim: repo.fail(claim, "an error"),
    "hand_back": lambda repo, claim: repo.hand_back(claim, "a reason"),
    "wait": lambda repo, claim: repo.wait(claim, "a reason"),
}


@pytest.mark.parametrize(("name", "status"), list(product(LEAVES, Status)))
def test_a_runner_leaves_as_the_table_says_or_changes_nothing(lab: Lab, name: str, status: Status) -> None:
    pipeline, repo = mart(lab), leases(lab)
    lab.request(pipeline)
    claim = repo.claim()
    assert claim
    force(lab, pipeline, status)
    expected = TRANSITIONS[name].get(status)
    if expected:
        LEAVES[name](repo, claim)
    else:
        with pytest.raises(LeaseLost):
            LEAVES[name](repo, claim)
    assert lab.status(pipeline) == (expected or status)
    run, waits = lab.last_run(pipeline), (name, expected) == ("wait", Status.RUN_REQUESTED)
    assert (run["status"] == "RUNNING") == (expected is None or waits)
    assert (run["waiting_since"] is not None) == waits
    assert lab.value("SELECT owner IS NULL FROM etl.etl_leases") == (expected is not None)


@pytest.mark.parametrize("status", Status)
def test_a_claim_does_what_the_table_says_or_changes_nothing(lab: Lab, status: Status) -> None:
    pipeline = mart(lab)
    force(lab, pipeline, status)
    with lab.db.transaction():
        lab.sql("SET LOCAL session_replication_role = replica")
        lab.sql("UPDATE etl.etl_pipelines SET due_at = now() - interval '1 s'")
    claimed = leases(lab).claim() is not None
    expected = TRANSITIONS["claim"].get(status)
    assert (claimed, lab.status(pipeline)) == (expected is not None, expected or status)


@pytest.mark.parametrize("status", Status)
def test_a_lost_run_is_taken_over_or_buried_as_the_table_says(lab: Lab, status: Status) -> None:
    pipeline = mart(lab)
    lab.request(pipeline)
    leases(lab, 0).claim()
    force(lab, pipeline, status)
    successor = leases(lab)
    if status == Status.FOLLOWING:
        follower_is_buried(lab, pipeline)
        return
    (dead,) = successor.expired()
    taken = successor.reclaim(dead) is not None
    assert (taken, lab.status(pipeline)) == (status in TRANSITIONS["reclaim"], status)
    lab.sql("UPDATE etl.etl_leases SET owner = %s, expires_at = clock_timestamp()", dead["owner"])
    buried = successor.bury(dead, "lost")
    expected = TRANSITIONS["bury"].get(status)
    assert (buried, lab.status(pipeline)) == (expected is not None, expected or status)


def follower_is_buried(lab: Lab, pipeline: Pipeline) -> None:
    """It is no run, and others look after it."""
    lab.sql("UPDATE etl.etl_leases SET run_id = NULL")
    assert not leases(lab).expired()
    repo = FollowingRepo(lab.db, uuid4(), "somebody", 60)
    (dead,) = repo.free([])
    epoch = lab.value("SELECT epoch FROM etl.etl_state")
    assert repo.bury(dead, "lost")
    assert lab.status(pipeline) == TRANSITIONS["bury"][Status.FOLLOWING]
    assert lab.value("SELECT epoch FROM etl.etl_state") == epoch + 1
    assert (lab.last_run(pipeline)["status"], lab.last_run(pipeline)["error"]) == ("FAILED", "lost")


LIVE = {"mode": "live", "target_table": "analytics.mart"}
POSITION = "UPDATE etl.etl_state SET checkpoint = %s::jsonb"


@pytest.mark.parametrize(
    ("said", "status"),
    [
        ('{"live": {"source": "warehouse", "id": 1}}', Status.FOLLOWING),
        ('{"live": {"source": "warehouse", "id": 1, "comparing": "a view was replaced"}}', Status.IDLE),
        ("{}", Status.IDLE),
    ],
)
def test_a_live_run_that_succeeds_is_followed_if_there_is_something_to_follow_from(
    lab: Lab, said: str, status: Status
) -> None:
    pipeline, repo = mart(lab, **LIVE), leases(lab)
    lab.request(pipeline)
    claim = repo.claim()
    assert claim
    lab.sql(POSITION, said)
    repo.succeed(claim)
    assert lab.status(pipeline) == status
    assert (Status.RUNNING, status) in legal_moves()


def test_one_that_became_scheduled_while_it_was_run_is_not_followed(lab: Lab) -> None:
    pipeline, repo = mart(lab, **LIVE), leases(lab)
    lab.request(pipeline)
    claim = repo.claim()
    assert claim
    lab.sql(POSITION, '{"live": {"source": "warehouse", "id": 1}}')
    lab.sql("UPDATE etl.etl_pipelines SET schedule_interval = '1h'")
    repo.succeed(claim)
    assert lab.status(pipeline) == Status.IDLE


EDITS = {  # by SQL, as by any other way
    "batch_size = 7": Status.FOLLOWING,
    "description = 'other'": Status.FOLLOWING,
    "freshness_limit = '5m'": Status.FOLLOWING,
    "schedule_interval = '1h'": Status.IDLE,
    "enabled = false": Status.IDLE,
    "source_query = source_query || ' '": Status.RUN_REQUESTED,
    "target_table = 'analytics.other'": Status.RUN_REQUESTED,
    "key = '{title}'": Status.RUN_REQUESTED,
    "mode = 'full'": Status.RUN_REQUESTED,
}


@pytest.mark.parametrize("edit", EDITS)
def test_an_edit_of_what_the_mart_is_ends_its_following_and_asks_for_a_run(lab: Lab, edit: str) -> None:
    pipeline = mart(lab, **LIVE)
    force(lab, pipeline, Status.FOLLOWING)
    repo = FollowingRepo(lab.db, uuid4(), "somebody", 60)
    assert repo.take(pipeline.id)
    lab.sql(f"UPDATE etl.etl_pipelines SET {edit}")
    assert lab.status(pipeline) == EDITS[edit]
    assert (Status.FOLLOWING, EDITS[edit]) in legal_moves() | {(Status.FOLLOWING, Status.FOLLOWING)}
    assert repo.mine([pipeline.id]) == ({pipeline.id} if EDITS[edit] == Status.FOLLOWING else set())


def test_what_may_be_edited_under_a_run_is_what_a_follower_does_not_mind(lab: Lab) -> None:
    source = lab.value("SELECT prosrc FROM pg_proc WHERE proname = 'pipeline_versions'")
    editable = re.search(r"editable constant text\[\] := '\{(.*?)\}'", source)
    assert editable
    assert set(editable[1].split(",")) == EDITABLE_UNDER_WAY


@pytest.mark.scenario(22)
def test_run_twice_is_one_run(lab: Lab) -> None:
    pipeline = mart(lab)
    assert [lab.request(pipeline), lab.request(pipeline)] == [True, False]
    assert leases(lab).claim()
    assert not lab.request(pipeline)
    assert leases(lab).claim() is None
    assert lab.value("SELECT count(*) FROM etl.etl_runs") == 1


def test_a_disabled_pipeline_is_not_run(lab: Lab) -> None:
    pipeline = mart(lab, enabled=False)
    assert not lab.request(pipeline)
    assert lab.status(pipeline) == "IDLE"


def test_a_pipeline_disabled_after_the_request_is_not_claimed(lab: Lab) -> None:
    pipeline = mart(lab)
    lab.request(pipeline)
    lab.sql("UPDATE etl.etl_pipelines SET enabled = false")
    assert leases(lab).claim() is None


def test_run_calls_a_pause_off_and_leaves_no_options_behind(lab: Lab) -> None:
    pipeline, repo = mart(lab, schedule_interval="1h"), leases(lab)
    lab.request(pipeline, allow_deletes=True)
    claim = repo.claim()
    assert claim
    PipelineRepo(lab.db).request_pause(pipeline.id)
    assert lab.request(pipeline, restart=True, allow_deletes=True)
    assert lab.status(pipeline) == "RUNNING"
    repo.succeed(claim)
    lab.sql("UPDATE etl.etl_pipelines SET due_at = now()")
    scheduled = repo.claim()
    assert scheduled
    assert not scheduled.options.allow_deletes
    assert not scheduled.options.restart


def test_a_pause_called_off_at_the_last_moment_goes_on(lab: Lab) -> None:
    """The run has stopped already when the pause is called off: it is due again at once."""
    pipeline, repo = mart(lab), leases(lab)
    lab.request(pipeline)
    claim = repo.claim()
    assert claim
    repo.pause(claim)
    assert lab.status(pipeline) == "RUN_REQUESTED"
    assert leases(lab).claim()


def test_what_was_handed_back_keeps_its_options_but_restarts_only_once(lab: Lab) -> None:
    pipeline, repo = mart(lab), leases(lab)
    lab.request(pipeline, allow_deletes=True, restart=True)
    claim = repo.claim()
    assert claim
    repo.hand_back(claim, "a reason")
    again = repo.claim()
    assert again
    assert (again.options.allow_deletes, again.options.restart) == (True, False)


@pytest.mark.parametrize("options", ['{"restart": "perhaps"}', "[]", "null", '"restart"'])
def test_options_written_by_hand_cannot_stop_the_queue(lab: Lab, options: str) -> None:
    pipeline = mart(lab)
    with pytest.raises(psycopg.errors.CheckViolation):
        lab.sql(
            "UPDATE etl.etl_pipelines SET status = 'RUN_REQUESTED', run_options = %s WHERE id = %s",
            options,
            pipeline.id,
        )


def test_pipeline_and_tasks_edited_in_one_transaction_are_one_version(lab: Lab) -> None:
    pipeline = mart(lab)
    with lab.db.transaction():
        lab.sql("UPDATE etl.etl_pipelines SET batch_size = 7")
        lab.sql("UPDATE etl.etl_pipelines SET description = 'new'")
        for index, kind in enumerate(("SQL", "PYTHON", "PYTHON")):
            lab.sql(
                "INSERT INTO etl.etl_pipeline_tasks (pipeline_id, order_index, task_type, body)"
                " VALUES (%s, %s, %s, 'x')",
                pipeline.id,
                index,
                kind,
            )
    stored = PipelineRepo(lab.db).get("mart")
    assert (stored.version, stored.config["batch_size"], len(stored.config["tasks"])) == (2, 7, 3)
    assert lab.sql("SELECT version, config FROM etl.etl_config_versions ORDER BY 1")[-1] == (2, stored.config)


def test_an_edit_that_changes_nothing_is_no_version(lab: Lab) -> None:
    mart(lab)
    lab.sql("UPDATE etl.etl_pipelines SET batch_size = batch_size, name = name")
    assert lab.value("SELECT version FROM etl.etl_pipelines") == 1
    assert lab.value("SELECT count(*) FROM etl.etl_config_versions") == 1


def test_a_run_changes_no_version(lab: Lab) -> None:
    lab.run(mart(lab))
    assert lab.value("SELECT count(*) FROM etl.etl_config_versions") == 1


@pytest.mark.scenario(21)
def test_two_pipelines_with_one_target_are_refused(lab: Lab) -> None:
    mart(lab)
    with pytest.raises(ConfigError, match=r"analytics\.mart"):
        mart(lab, name="other")


def test_two_pipelines_of_one_name_are_refused(lab: Lab) -> None:
    mart(lab)
    with pytest.raises(ConfigError, match="mart"):
        mart(lab, target_table="analytics.other")


def test_the_target_that_counts_is_the_last_tasks(lab: Lab) -> None:
    mart(lab)
    tasks = [{"order_index": 1, "task_type": "SQL", "body": FILMS, "target_table": "analytics.mart"}]
    with pytest.raises(ConfigError, match=r"analytics\.mart"):
        lab.add(name="other", target_table="analytics.other", tasks=tasks)
    assert lab.value("SELECT count(*) FROM etl.etl_pipelines") == 1


def test_a_freed_target_can_be_taken(lab: Lab) -> None:
    first = mart(lab)
    lab.sql("UPDATE etl.etl_pipelines SET target_table = 'analytics.elsewhere' WHERE id = %s", first.id)
    assert mart(lab, name="other")

"""Requests that are no runs: claimed, renewed, given back, taken again, answered once."""

import uuid
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Event, Thread
from typing import Any

import psycopg
import pytest

from tests.faults.driver import driving
from tests.patience import patient, promptly, short_lease
from tests.support import BLOCKED, Lab, wait_for
from vitrina.domain.errors import ConfigError, LeaseLost
from vitrina.domain.pipeline import Pipeline
from vitrina.domain.request import RequestKind
from vitrina.inquiries import reconcile
from vitrina.meta.repos.requests import RequestClaim, RequestRepo
from vitrina.runner.main import Runner
from vitrina.runner.manager import PipelineManager
from vitrina.runner.requests import ANSWERS, LANES

FILMS = "SELECT f.id AS film_id, f.title, f.rating FROM content.film_work f"
KINDS = tuple(RequestKind)
ME = uuid.uuid4()


@pytest.fixture
def films(lab: Lab) -> Pipeline:
    """A pipeline that has run."""
    pipeline = lab.add(source_query=FILMS, key=["film_id"])
    lab.run(pipeline)
    return pipeline


def claim(lab: Lab, owner: uuid.UUID = ME, seconds: float = 30) -> RequestClaim | None:
    """As a runner would."""
    return RequestRepo(lab.db).claim(owner, "somebody", seconds, KINDS, 3)


def must_claim(lab: Lab, owner: uuid.UUID = ME, seconds: float = 30) -> RequestClaim:
    """When there is one."""
    found = claim(lab, owner, seconds)
    assert found is not None
    return found


def scratch(lab: Lab) -> list[str]:
    """The scratch tables there are."""
    query = "SELECT relname FROM pg_class WHERE relnamespace = 'etl_stage'::regnamespace AND relkind = 'r'"
    return [row[0] for row in lab.sql(query)]


def test_every_kind_has_its_lane() -> None:
    assert sorted(kind for lane in LANES for kind in lane) == sorted(RequestKind)


def test_kinds_of_code_and_table_agree(lab: Lab) -> None:
    for kind in RequestKind:
        pipeline = lab.add(name=kind, target_table=f"analytics.{kind}", source_query=FILMS, key=["film_id"])
        lab.ask(kind, pipeline)
    with pytest.raises(ConfigError):
        lab.ask("repair", None)


def test_the_oldest_is_claimed_first_and_only_once(lab: Lab, films: Pipeline) -> None:
    asked = [lab.ask("preview", films) for _ in range(3)]
    assert [must_claim(lab).id for _ in asked] == asked
    assert claim(lab) is None


def test_an_expired_request_is_taken_again_and_the_old_holder_answers_nothing(lab: Lab, films: Pipeline) -> None:
    lab.ask("preview", films)
    old, new = must_claim(lab, seconds=0), must_claim(lab)
    assert (old.id, old.attempt, new.attempt) == (new.id, 1, 2)
    repo = RequestRepo(lab.db)
    assert repo.renew(ME, 30, [old.token, new.token]) == {new.token}
    answers = [partial(repo.finish, old, {}), partial(repo.fail, old, "no"), partial(repo.give_back, old)]
    for answer in answers:
        with pytest.raises(LeaseLost):
            answer()
    repo.finish(new, {"rows": []})
    assert lab.get_request(new.id)["status"] == "DONE"


def test_the_third_loss_fails_it(lab: Lab, films: Pipeline) -> None:
    request_id = lab.ask("preview", films)
    for _ in range(3):
        must_claim(lab, seconds=0)
    assert claim(lab) is None
    PipelineManager(lab.db).tick()
    row = lab.get_request(request_id)
    assert (row["status"], row["error"]) == (
        "FAILED",
        "the runner was lost 3 times in a row while working on this request",
    )


def test_giving_back_costs_no_attempt(lab: Lab, films: Pipeline) -> None:
    lab.ask("preview", films)
    for _ in range(5):
        RequestRepo(lab.db).give_back(must_claim(lab))
    assert must_claim(lab).attempt == 1


def test_an_idle_runner_answers_within_a_second_while_its_slots_are_busy(lab: Lab, films: Pipeline) -> None:
    lab.configure(slots=1, poll_seconds=30)
    with psycopg.connect(lab.conninfo) as other, lab.runner():
        other.execute("LOCK TABLE content.film_work")
        lab.request(films)
        wait_for(lambda: lab.value(BLOCKED) > 0)
        config = {"name": "x", "target_table": "analytics.x", "source_query": "SELECT 1 AS one"}
        with promptly(1):
            request_id = lab.ask("preview", None, pipeline=config)
            wait_for(lambda: lab.get_request(request_id)["status"] == "DONE")
        other.rollback()
        wait_for(lambda: lab.status(films) == "IDLE")


def test_a_preview_does_not_wait_for_a_reconcile(lab: Lab, films: Pipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    go_on = Event()
    monkeypatch.setitem(ANSWERS, RequestKind.RECONCILE, lambda *_: {"waited": go_on.wait(patient(10))})
    with lab.runner():
        slow = lab.ask("reconcile", films)
        wait_for(lambda: lab.get_request(slow)["status"] == "RUNNING")
        quick = lab.ask("preview", films)
        wait_for(lambda: lab.get_request(quick)["status"] == "DONE")
        assert lab.get_request(slow)["status"] == "RUNNING"
        go_on.set()
        wait_for(lambda: lab.get_request(slow)["status"] == "DONE")


def test_a_long_request_is_renewed_while_it_works(lab: Lab, films: Pipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    lease = short_lease()
    lab.configure(lease_seconds=lease)
    monkeypatch.setitem(ANSWERS, RequestKind.RECONCILE, lambda *_: {"ended": Event().wait(2.5 * lease)})
    with lab.runner(), lab.runner():
        request_id = lab.ask("reconcile", films)
        wait_for(lambda: lab.get_request(request_id)["status"] == "DONE")
    assert lab.get_request(request_id)["attempt"] == 1


def test_a_stopping_runner_gives_its_request_up_and_another_answers(lab: Lab, films: Pipeline) -> None:
    with psycopg.connect(lab.conninfo) as other:
        other.execute("LOCK TABLE content.film_work")
        with lab.runner():
            request_id = lab.ask("reconcile", films)
            wait_for(lambda: lab.value(BLOCKED) > 0)
        row = lab.get_request(request_id)
        assert (row["status"], row["attempt"], row["owner"]) == ("REQUESTED", 0, None)
    Runner(lab.connections).answer()
    assert lab.get_request(request_id)["result"]["equal"] is True


def test_the_stage_of_a_dead_runner_is_dropped_and_that_of_a_living_one_kept(lab: Lab, films: Pipeline) -> None:
    lab.ask("reconcile", films)
    taken = must_claim(lab)
    lab.sql(f"CREATE TABLE etl_stage.s_{taken.id.hex} (n int)")
    PipelineManager(lab.db).tidy()
    assert scratch(lab) == [f"s_{taken.id.hex}"]
    lab.sql("UPDATE etl.etl_requests SET expires_at = now() - interval '1 s'")
    PipelineManager(lab.db).tidy()
    assert scratch(lab) == []


@pytest.mark.faults
def test_a_request_whose_runner_is_killed_is_taken_again(lab: Lab, films: Pipeline, tmp_path: Path) -> None:
    lab.sql("UPDATE analytics.mart SET title = 'planted'")
    with driving(lab, tmp_path) as driver:
        process = driver.start()
        request_id = lab.ask("reconcile", films)
        driver.wait(lambda: scratch(lab) == [f"k_{request_id.hex}"])
        process.kill()
        driver.start()
        driver.wait(lambda: lab.get_request(request_id)["status"] == "DONE")
    row = lab.get_request(request_id)
    assert (row["attempt"], row["result"]["different"]) == (2, 60)
    assert scratch(lab) == []


def test_a_request_never_moves_the_pipeline(lab: Lab, films: Pipeline) -> None:
    lab.sql("UPDATE etl.etl_pipelines SET enabled = false")
    before = lab.sql("SELECT status, version, due_at FROM etl.etl_pipelines")
    assert lab.reconcile(films)["equal"] is True
    assert lab.sql("SELECT status, version, due_at FROM etl.etl_pipelines") == before
    assert lab.value("SELECT count(*) FROM etl.etl_runs") == 1


def test_a_source_that_cannot_be_reached_fails_the_request_in_the_end(lab: Lab) -> None:
    lab.connections = replace(lab.connections, sources={"down": "postgresql://nobody@127.0.0.1:1/x"})
    config = {"name": "x", "source": "down", "target_table": "analytics.x", "source_query": FILMS}
    with lab.runner():
        request_id = lab.ask("preview", None, pipeline=config)
        wait_for(lambda: lab.get_request(request_id)["status"] == "FAILED")
    assert "cannot connect to Postgres" in lab.get_request(request_id)["said"]


def test_every_kind_has_an_answer_and_a_lane() -> None:
    about_pipelines = set(RequestKind) - {RequestKind.CAPTURE, RequestKind.ALERT}
    assert (set(ANSWERS), sorted(kind for lane in LANES for kind in lane)) == (about_pipelines, sorted(RequestKind))


def test_an_unexpected_error_fails_the_request_alone(
    lab: Lab, films: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    def explode(*_: Any) -> dict[str, Any]:
        raise ZeroDivisionError("boom")

    monkeypatch.setitem(ANSWERS, RequestKind.PREVIEW, explode)
    assert lab.answer("preview", films)["said"] == "ZeroDivisionError: boom"
    assert lab.reconcile(films)["equal"] is True


def test_old_answers_are_forgotten_except_the_last_report(lab: Lab, films: Pipeline) -> None:
    config = {"name": "x", "target_table": "analytics.x", "source_query": FILMS}
    lab.answer("preview", None, pipeline=config)
    reports = [lab.answer("reconcile", films)["id"] for _ in range(2)]
    lab.answer("reconcile", films, control_field="nothing")
    lab.sql("UPDATE etl.etl_requests SET finished_at = finished_at - interval '20 days'")
    PipelineManager(lab.db).tidy()
    assert [row[0] for row in lab.sql("SELECT id FROM etl.etl_requests")] == reports[1:]
    report = RequestRepo(lab.db).report(films.id, "reconcile")
    assert report is not None
    assert report["id"] == reports[1]


def test_the_latest_is_told_whatever_became_of_it(lab: Lab, films: Pipeline) -> None:
    repo = RequestRepo(lab.db)
    assert repo.latest(films.id, "reconcile") is None
    lab.answer("reconcile", films)
    failed = lab.answer("reconcile", films, sample=-1)
    latest, report = repo.latest(films.id, "reconcile"), repo.report(films.id, "reconcile")
    assert latest is not None
    assert report is not None
    assert (latest["id"], latest["status"], report["status"]) == (failed["id"], "FAILED", "DONE")
    assert latest["asked_by"] == "tester"


def test_a_request_goes_with_its_pipeline(lab: Lab, films: Pipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    started, go_on = Event(), Event()

    def wait(*_: Any) -> dict[str, Any]:
        started.set()
        return {"waited": go_on.wait(patient(10))}

    monkeypatch.setitem(ANSWERS, RequestKind.RECONCILE, wait)
    request_id = lab.ask("reconcile", films)
    answering = Thread(target=Runner(lab.connections).answer)
    answering.start()
    started.wait(patient(10))
    lab.sql("DELETE FROM etl.etl_pipelines")
    go_on.set()
    answering.join()
    assert RequestRepo(lab.db).get(request_id) is None


def test_a_cancelled_comparison_leaves_no_scratch_tables(
    lab: Lab, films: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.sql("UPDATE analytics.mart SET title = 'planted'")
    monkeypatch.setattr(reconcile, "MOMENT_SECONDS", 30)
    with lab.runner():
        request_id = lab.ask("reconcile", films)
        wait_for(lambda: scratch(lab) == [f"k_{request_id.hex}"])
    assert scratch(lab) == []
    assert lab.get_request(request_id)["status"] == "REQUESTED"

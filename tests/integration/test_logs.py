"""What a run leaves behind for people: events in the table, lines in the log, and no secret anywhere."""

import json
from dataclasses import replace
from typing import Any

import psycopg
import pytest
from structlog.testing import capture_logs

from tests.support import Lab
from vitrina import bootstrap, transform
from vitrina.domain.errors import VitrinaError
from vitrina.domain.pipeline import Pipeline
from vitrina.meta.repos.retention import Ages
from vitrina.runner.main import Runner
from vitrina.runner.manager import PipelineManager
from vitrina.settings import Settings

FILMS = "SELECT f.id AS film_id, f.title FROM content.film_work f"


@transform("test_logs_loud")
def loud(rows: Any) -> Any:
    raise ValueError("x" * 9_000)


def mart(lab: Lab, **config: Any) -> Pipeline:
    return lab.add(**({"source_query": FILMS, "key": ["film_id"], "batch_size": 25} | config))


def test_the_events_of_a_run_tell_its_story(lab: Lab) -> None:
    pipeline = mart(lab)
    lab.run(pipeline)
    events = lab.events(pipeline)
    assert [events[0]["event"], events[-1]["event"]] == ["started", "finished"]
    assert events[0]["fields"] == {"attempt": 1, "config_version": 1}
    batches = [event["fields"] for event in events if event["event"] == "loaded"]
    assert sum(fields.get("rows_written", 0) for fields in batches) == 60
    assert all(fields["ms"] > 0 for fields in batches)
    assert [event["at"] for event in events] == sorted(event["at"] for event in events)


def test_a_failed_run_says_why_in_its_events(lab: Lab) -> None:
    pipeline = mart(lab, key=["nothing"])
    run = lab.run(pipeline)
    last = lab.events(pipeline)[-1]
    assert (last["level"], last["event"], last["fields"]["error"]) == ("error", "failed", run["error"])


def test_every_line_of_a_run_names_pipeline_and_run(lab: Lab) -> None:
    pipeline = mart(lab)
    with capture_logs() as lines:
        run = lab.run(pipeline)
    said = [line for line in lines if line.get("run") == run["id"]]
    assert {"started", "loaded", "finished", "succeeded"} <= {line["event"] for line in said}
    for line in said:
        assert (line["pipeline"], line["pipeline_id"]) == ("mart", str(pipeline.id))


def test_events_are_forgotten_by_age(lab: Lab) -> None:
    pipeline = mart(lab)
    lab.run(pipeline)
    kept = len(lab.events(pipeline)) - 1
    lab.sql("UPDATE etl.etl_run_events SET at = now() - interval '2 days' WHERE event = 'started'")
    PipelineManager(lab.db, Ages(events=1)).tidy()
    assert len(lab.events(pipeline)) == kept
    assert lab.value("SELECT count(*) FROM etl.etl_runs") == 1


def test_a_long_error_is_cut_at_4000_characters(lab: Lab) -> None:
    pipeline = mart(lab, type="PYTHON", python_task="test_logs_loud")
    run = lab.run(pipeline)
    assert len(run["error"]) == 4_000
    assert "raised ValueError" in run["said"]
    assert all(len(json.dumps(event["fields"])) < 5_000 for event in lab.events(pipeline))


def test_a_password_appears_nowhere_when_the_database_cannot_be_reached(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("VITRINA_DATABASE_URL", "postgresql://somebody:planted-secret@127.0.0.1:1/nothing")
    settings = Settings(_env_file=None)  # type: ignore[call-arg]
    connections = bootstrap.connections(bootstrap.open_warehouse(settings), settings)
    with pytest.raises(VitrinaError) as caught:
        Runner(connections).run_once()
    assert "planted-secret" not in f"{caught.value} {caught.value.__cause__} {settings!r} {capfd.readouterr()}"


def test_a_password_appears_nowhere_when_a_source_cannot_be_reached(
    lab: Lab, capfd: pytest.CaptureFixture[str]
) -> None:
    pipeline = mart(lab, source="elsewhere")
    sources = {"elsewhere": "postgresql://somebody:planted-secret@127.0.0.1:1/nothing"}
    lab.connections = replace(lab.connections, sources=sources)
    run = lab.run(pipeline)
    assert "cannot connect" in run["said"]
    everything = [run["error"], lab.events(pipeline), capfd.readouterr()]
    assert "planted-secret" not in repr(everything)


def test_a_wrong_password_is_not_repeated(lab: Lab, capfd: pytest.CaptureFixture[str]) -> None:
    """The server refuses it, and says for whom; nobody says what it was."""
    pipeline = mart(lab)
    with pytest.raises(psycopg.OperationalError) as caught:
        psycopg.connect(lab.conninfo, dbname="no such database", password="planted-secret")
    assert "planted-secret" not in str(caught.value)
    assert lab.status(pipeline) == "IDLE"

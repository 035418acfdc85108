"""The client by itself: what it makes of answers, and of the runs after a request."""

import ast
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from vitrina import client as package
from vitrina.client import ClientError, Requested, RunDropped, RunFailed, RunPaused, read
from vitrina.client.finding import find
from vitrina.client.outcome import Outcome, judge
from vitrina.client.records import (
    Column,
    Finding,
    Live,
    Pipeline,
    Preview,
    Request,
    Run,
    Runner,
    Source,
    SourceAnswer,
    State,
    Status,
    Version,
)
from vitrina.client.transport import is_local
from vitrina.control.api import models
from vitrina.control.api.findings import FindingModel
from vitrina.control.api.freshness import LiveOut
from vitrina.control.api.sources import SourceOut, SourceTested

NOW = "2026-01-01T00:00:00Z"
RUN: dict[str, Any] = {"id": 1, "name": "films", "status": "SUCCESS", "attempt": 1, "started_at": NOW, "error": None}
SAME: list[tuple[type[Any], type[BaseModel], set[str]]] = [
    (Run, models.RunOut, set()),
    (Pipeline, models.PipelineOut, set()),
    (Status, models.StatusOut, set()),
    (State, models.StateOut, set()),
    (Requested, models.Requested, set()),
    (Request, models.RequestOut, set()),
    (Runner, models.RunnerOut, set()),
    (Version, models.VersionOut, set()),
    (Finding, FindingModel, set()),
    (Live, LiveOut, set()),
    (Preview, models.PreviewOut, {"steps"}),
    (Column, models.PreviewColumn, set()),
    (Source, SourceOut, set()),
    (SourceAnswer, SourceTested, {"schemas", "ways"}),
]


@pytest.mark.parametrize(("record", "model", "left_out"), SAME, ids=lambda value: getattr(value, "__name__", ""))
def test_records_have_the_fields_that_the_api_answers(
    record: type[Any], model: type[BaseModel], left_out: set[str]
) -> None:
    assert {each.name for each in fields(record)} - {"raw"} == set(model.model_fields) - left_out


@pytest.mark.parametrize(
    ("url", "local"),
    [
        ("http://localhost:8765", True),
        ("http://127.0.0.1:8765", True),
        ("http://[::1]:8765", True),
        ("http://127.evil.example", False),
        ("https://vitrina.example", False),
    ],
)
def test_this_machine_is_told_from_a_name_that_only_begins_like_it(url: str, local: bool) -> None:
    assert is_local(url) is local


def test_it_imports_nothing_but_httpx_and_itself() -> None:
    for file in Path(package.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and not node.level:
                names = [node.module or ""]
            roots = {name.partition(".")[0] for name in names}
            assert roots <= {"httpx"} | sys.stdlib_module_names, file


# ── what became of a request ─────────────────────────────────────────────────────────────────────────────────


def outcome(status: str, *runs: tuple[str, int], changed: bool = True) -> Outcome:
    """Of a request after which these runs came, oldest first, each with its attempt."""
    rows = [read(Run, RUN | {"id": 10 + n, "status": s, "attempt": a}) for n, (s, a) in enumerate(runs)]
    requested = read(Requested, {"name": "films", "changed": changed, "after_run": 9})
    last = rows[-1].raw if rows else RUN
    standing = read(Status, {"name": "films", "status": status, "enabled": True, "last_run": last})
    return judge(requested, standing, rows)


@pytest.mark.parametrize(
    ("status", "runs", "run_id", "ended"),
    [
        ("RUN_REQUESTED", [], None, False),
        ("RUNNING", [("RUNNING", 1)], 10, False),
        ("IDLE", [("SUCCESS", 1)], 10, True),
        ("RUNNING", [("FAILED", 1)], 10, True),  # and somebody else's has begun
        ("RUNNING", [("FAILED", 1), ("RUNNING", 2)], 11, False),
        ("IDLE", [("FAILED", 1), ("SUCCESS", 2), ("FAILED", 1)], 11, True),
        ("FAILED", [("FAILED", 1), ("FAILED", 2), ("FAILED", 3)], 12, True),
        ("RUNNING", [("FAILED", 1), ("RUNNING", 1)], 10, True),  # somebody else's
        ("PAUSED", [("PAUSED", 1)], 10, True),
        ("RUN_REQUESTED", [("PAUSED", 1)], 10, False),  # handed back by a runner that ends
        ("IDLE", [("PAUSED", 1), ("SUCCESS", 1)], 11, True),
    ],
)
def test_the_run_that_serves_a_request(
    status: str, runs: list[tuple[str, int]], run_id: int | None, ended: bool
) -> None:
    found = outcome(status, *runs)
    assert (found.run.id if found.run else None, found.ended) == (run_id, ended)


def test_a_joined_run_that_was_added_to_its_hour_is_that_hours() -> None:
    assert outcome("IDLE", changed=False).run == read(Run, RUN)


@pytest.mark.parametrize("status", ["PAUSED", "FAILED", "IDLE"])
def test_a_request_that_somebody_took_back(status: str) -> None:
    with pytest.raises(RunDropped, match="somebody changed that before it ran"):
        outcome(status)


@pytest.mark.parametrize(("status", "error"), [("FAILED", RunFailed), ("PAUSED", RunPaused)])
def test_what_is_no_success_is_an_exception_with_the_run(status: str, error: type[RunFailed]) -> None:
    with pytest.raises(error) as caught:
        outcome(status, (status, 1)).result()
    assert caught.value.run is not None
    assert caught.value.run.id == 10


def test_its_token_may_be_in_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "secret").write_text("vtr_of_a_file\n")
    monkeypatch.delenv("VITRINA_TOKEN", raising=False)
    monkeypatch.setenv("VITRINA_TOKEN_FILE", str(tmp_path / "secret"))
    assert find("http://127.0.0.1:9", None, tmp_path) == ("http://127.0.0.1:9", "vtr_of_a_file")
    (tmp_path / "secret").unlink()
    with pytest.raises(ClientError, match=r"VITRINA_TOKEN_FILE names .*/secret, which cannot be read"):
        find("http://127.0.0.1:9", None, tmp_path)

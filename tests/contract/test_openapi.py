"""The OpenAPI document: as committed, true to what the app answers, and good to read."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, assume, given, seed, settings
from hypothesis.strategies import integers
from schemathesis import GenerationMode
from schemathesis.checks import CHECKS, load_all_checks
from schemathesis.core.result import Ok

from tests.contract.refresh import SNAPSHOT
from tests.contract.server import PLAN, Api
from vitrina.control.services import requests

PROBLEM = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/ProblemModel"}}}


def operations(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Method, path and operation."""
    for path, item in document["paths"].items():
        for method, operation in item.items():
            yield method.upper(), path, operation


def test_the_document_is_the_committed_one(shared: Api) -> None:
    assert json.loads(SNAPSHOT.read_text()) == shared.app.openapi(), "if that is meant, run: make openapi"


def test_every_operation_has_an_id_of_its_own_a_summary_and_a_description(shared: Api) -> None:
    found = [operation for _, _, operation in operations(shared.app.openapi())]
    ids = [operation["operationId"] for operation in found]
    assert len(set(ids)) == len(ids)
    assert all(id_.isidentifier() and len(id_) < 30 for id_ in ids)
    assert all(operation["summary"] and operation["description"] for operation in found)


def test_every_body_has_an_example(shared: Api) -> None:
    document = shared.app.openapi()
    for _, path, operation in operations(document):
        for content in operation.get("requestBody", {}).get("content", {}).values():
            options = [content["schema"], *content["schema"].get("anyOf", [])]
            names = [option["$ref"].rpartition("/")[2] for option in options if "$ref" in option]
            assert "examples" in str(content) or "examples" in document["components"]["schemas"][names[0]], path


def test_every_problem_is_documented_in_the_one_shape(shared: Api) -> None:
    document = shared.app.openapi()
    assert "HTTPValidationError" not in json.dumps(document)
    for _, path, operation in operations(document):
        problems = {status: a for status, a in operation["responses"].items() if int(status) >= 400}
        if path.startswith("/api/"):
            assert problems.keys() >= {"401", "403", "422", "503"}
            assert all(answer["content"] == PROBLEM for answer in problems.values()), path
            assert ("404" in problems) == ("{" in path)
            assert ("413" in problems) == ("requestBody" in operation)


# ── schemathesis ─────────────────────────────────────────────────────────────────────────────────────────────

CHECKED = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "negative_data_rejection",
    "unsupported_method",
)
IDS: dict[str, list[Any]] = {"id": ["films", "catalog", "busy", "nothing"], "run_id": [1, 2, 999]}


@pytest.fixture
def busy(api: Api) -> Api:
    """Pipelines of every kind, so that calls reach more than 404."""
    api.create()
    api.create("busy", target_table="analytics.busy")
    api.post("/pipelines", PLAN)
    api.set_status("RUNNING", "busy")
    api.lab.sql(
        "INSERT INTO etl.etl_runs (pipeline_id, status, config_version, runner, finished_at)"
        " SELECT id, 'SUCCESS', 1, 'r', now() FROM etl.etl_pipelines"
    )
    return api


def documented() -> dict[str, Any]:
    """The operations of the committed document, by method and path."""
    loaded = schemathesis.openapi.from_path(SNAPSHOT)
    operations: list[Any] = [found.ok() for found in loaded.get_all_operations() if isinstance(found, Ok)]
    return {operation.label: operation for operation in operations}


load_all_checks()
OPERATIONS = documented()


@pytest.mark.scenario(54)
@pytest.mark.parametrize("mode", list(GenerationMode))
@pytest.mark.parametrize("label", OPERATIONS)
def test_every_answer_is_as_documented(
    busy: Api, label: str, mode: GenerationMode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requests, "WAIT_SECONDS", 0.01)
    headers = {"Authorization": f"Bearer {busy.tokens['admin']}"}
    known = {parameter.name for parameter in OPERATIONS[label].query}

    @seed(20)
    @settings(
        max_examples=10,
        database=None,
        deadline=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=OPERATIONS[label].as_strategy(generation_mode=mode), number=integers(0, 3))
    def answers(case: Any, number: int) -> None:
        if mode.is_positive:
            name_something_known(case, number)
        else:  # a parameter without a value is not sent: nothing is wrong with the request then
            assume(all(value not in ([], {}, None) for value in (case.query or {}).values()))
            assume(not case.query or not case.query.keys().isdisjoint(known))  # what nobody asked for is passed over
        response = case.call(base_url=busy.url, headers=headers)
        case.validate_response(response, checks=CHECKS.get_by_names(CHECKED))

    if mode.is_positive or OPERATIONS[label].path_parameters or OPERATIONS[label].query or OPERATIONS[label].body:
        answers()


def name_something_known(case: Any, number: int) -> None:
    """Three times in four, so that calls reach more than 404."""
    for name, known in IDS.items():
        if number < 3 and name in (case.path_parameters or {}):
            case.path_parameters[name] = known[number]

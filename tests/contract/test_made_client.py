"""The OpenAPI document is valid, and what a generator makes of it works for every route, on the real API."""

import importlib
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator

from tests.contract.refresh import SNAPSHOT
from tests.contract.server import Api, config, running
from tests.patience import wait
from tests.receiver import receiving
from vitrina.settings import Destination

GENERATOR = Path(__file__).parents[2] / "integrations" / "openapi" / ".venv" / "bin" / "openapi-python-client"
DOCUMENT = json.loads(SNAPSHOT.read_text())
OPERATIONS = {operation["operationId"]: operation for item in DOCUMENT["paths"].values() for operation in item.values()}


def test_the_document_is_valid_in_its_version() -> None:
    assert DOCUMENT["openapi"].startswith("3.1.")
    assert [error.message for error in OpenAPIV31SpecValidator(DOCUMENT).iter_errors()] == []


def test_a_body_that_may_be_left_out_is_never_null() -> None:
    bodies = [operation["requestBody"] for operation in OPERATIONS.values() if "requestBody" in operation]
    optional = [body for body in bodies if not body.get("required")]
    assert len(optional) == 5
    assert "null" not in {kind.get("type") for body in optional for kind in _options(body)}


def _options(body: dict[str, Any]) -> list[dict[str, Any]]:
    schema = body["content"]["application/json"]["schema"]
    return [schema, *schema.get("anyOf", [])]


# ── the client ───────────────────────────────────────────────────────────────────────────────────────────────

Call = Callable[..., Any]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    """The package, made of the committed document."""
    if not GENERATOR.exists():
        pytest.skip("the generator is not set up: make test-openapi")
    folder = tmp_path_factory.mktemp("made")
    (folder / "config.yaml").write_text("post_hooks: []\n")
    options = {"path": SNAPSHOT, "output-path": folder / "made_client", "config": folder / "config.yaml"}
    given = [f"--{name}={value}" for name, value in options.items()]
    command = [str(GENERATOR), "generate", "--meta=none", "--fail-on-warning", *given]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    sys.path.insert(0, str(folder))
    try:
        yield importlib.import_module("made_client")
    finally:
        sys.path.remove(str(folder))


@pytest.fixture
def call(api: Api, made: ModuleType) -> Iterator[Call]:
    """Calls an operation as the client has it; the answer is as the document says, and of its kind."""
    client = made.AuthenticatedClient(
        base_url=api.url, token=api.tokens["admin"], raise_on_unexpected_status=True, timeout=None
    )
    called: set[str] = set()

    def call(name: str, /, *expected: int, **arguments: Any) -> Any:
        called.add(name)
        tag = OPERATIONS[name]["tags"][0].replace(" ", "_")
        answer = importlib.import_module(f"made_client.api.{tag}.{name}").sync_detailed(client=client, **arguments)
        assert answer.status_code in expected, (name, answer.content)
        content = OPERATIONS[name]["responses"][str(int(answer.status_code))].get("content")
        assert (answer.parsed is not None) == (content is not None), name
        return answer.parsed

    yield call
    assert called == OPERATIONS.keys()


def test_a_client_that_is_made_of_it_calls_every_route(api: Api, call: Call, made: ModuleType) -> None:
    models = importlib.import_module("made_client.models")
    films = models.Pipeline.from_dict(config())
    call("livez", 200)
    call("readyz", 200)
    call("health", 200)
    assert "vitrina_" in call("metrics", 200)
    assert call("validate_config", 200, body=films).valid
    assert call("create_pipeline", 201, body=films).name == "films"
    assert call("create_pipeline", 409, body=films).title
    assert call("get_pipeline", 404, id="nobody").detail
    assert call("edit_pipeline", 200, id="films", body=models.PipelinePatch(batch_size=9)).config.batch_size == 9
    assert [each.version for each in call("list_versions", 200, id="films")] == [2, 1]
    assert not call("disable_pipeline", 200, id="films").config.enabled
    assert call("enable_pipeline", 200, id="films").config.enabled
    assert call("validate_pipeline", 200, id="films").valid
    api.create("busy")
    api.set_status("RUNNING", "busy")
    assert call("reload_config", 200, id="busy").version == 1
    api.create("gone")
    call("delete_pipeline", 204, id="gone")
    assert [each.name for each in call("list_pipelines", 200).items] == ["busy", "films"]
    assert call("list_sources", 200)
    assert call("get_source", 200, name="warehouse").name == "warehouse"
    assert call("test_source", 200, name="warehouse").answers
    assert call("list_captures", 200) == []
    assert {each.pipeline for each in call("get_lineage", 200)} == {"busy", "films"}
    assert call("run_pipeline", 202, id="films").changed
    assert call("pause_pipeline", 202, id="films").status == models.Status.PAUSED
    assert call("list_deliveries_to", 404, name="ops").detail
    with receiving() as receiver:
        given = {"url": receiver.url, "format": "slack"}
        api.lab.configure(alerts={"ops": Destination.model_validate(given)})
        with running(api.lab):
            _with_a_runner(api, call, models)
            _with_a_destination(call)


def _with_a_runner(api: Api, call: Call, models: ModuleType) -> None:
    assert call("run_pipeline", 202, id="films", body=models.RunBody(restart=True)).changed
    api.wait_for("films", "IDLE")
    assert call("get_status", 200, id="films").last_run.status == models.RunStatus.SUCCESS
    assert call("get_state", 200, id="films").epoch >= 1
    assert call("get_latency", 200, id="films").points == []
    run = call("list_runs", 200, id="films").items[0]
    assert call("get_run", 200, run_id=run.id).attempts
    assert '"event": "started"' in call("follow_run", 200, run_id=run.id, follow=False)
    assert call("list_runners", 200)
    assert len(call("preview_pipeline", 200, id="films", body=models.PreviewBody(limit=2)).rows) == 2
    asked = call("ask_reconcile", 200, 202, id="films").id
    assert wait(lambda: _done(call("get_request", 200, request_id=asked))).result["equal"]
    assert call("get_reconcile", 200, id="films").id == asked
    assert call("repair_pipeline", 202, id="films").changed
    api.wait_for("films", "IDLE")


def _with_a_destination(call: Call) -> None:
    assert wait(lambda: call("list_destinations", 200))[0].name == "ops"
    asked = call("test_destination", 200, 202, name="ops").id
    assert wait(lambda: _done(call("get_request", 200, request_id=asked))).result["delivered"]
    assert [each.destination for each in call("list_deliveries", 200).items] == ["ops"]
    assert [each.event for each in call("list_deliveries_to", 200, name="ops").items] == ["test"]


def _done(request: Any) -> Any:
    return request if request.status == "DONE" else None

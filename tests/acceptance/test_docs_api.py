"""docs/api.md is true: its examples are run in order against a real server, and its table has every endpoint."""

import json
import os
import re
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from tests.contract.refresh import GUIDE, TABLE, app, endpoints
from tests.contract.server import Api, running, serve
from tests.support import Lab

EXAMPLE = re.compile(r"```sh\n([^`]*)```\n```json\n([^`]*)```")


@pytest.fixture
def api(lab: Lab) -> Iterator[Api]:
    """A server and a runner."""
    with serve(lab) as api, running(lab):
        yield api


def test_the_examples_answer_as_they_say(api: Api) -> None:
    environment = os.environ | {"API": f"{api.url}/api/v1", "AUTH": f"Authorization: Bearer {api.tokens['admin']}"}
    examples = EXAMPLE.findall(GUIDE.read_text())
    assert len(examples) == 13
    for command, expected in examples:
        done = subprocess.run(
            ["bash", "-ec", command], env=environment, capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, f"{command}\n{done.stderr}"
        assert shortened(json.loads(done.stdout), json.loads(expected)) == json.loads(expected), command
    assert api.lab.value("SELECT count(*) FROM analytics.ratings_copy") == 400


def shortened(actual: Any, expected: Any) -> Any:
    """What is there of what is expected; lists in full."""
    if isinstance(expected, dict) and isinstance(actual, dict):
        return {name: shortened(actual[name], value) for name, value in expected.items() if name in actual}
    if isinstance(expected, list) and isinstance(actual, list) and len(actual) == len(expected):
        return [shortened(*pair) for pair in zip(actual, expected, strict=True)]
    return actual


def test_the_table_has_every_endpoint() -> None:
    found = TABLE.search(GUIDE.read_text())
    assert found is not None
    assert found[0] == endpoints(app()), "run: make openapi"

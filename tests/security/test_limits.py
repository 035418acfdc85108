"""How large and how deep a body, a form or a file may be: too much is a sentence, never a crash."""

import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.acceptance.client import vitrina
from tests.contract.server import Api, config
from tests.contract.test_console import sign_in
from tests.patience import promptly
from vitrina.control.api.limits import MAX_BODY
from vitrina.domain.pipeline import MAX_DEPTH

DEPTHS = (10, 50, 900, 990, 5_000, 100_000)
FORM = {"Content-Type": "application/x-www-form-urlencoded"}
BOMB = "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 40))


def nested(depth: int, opening: str, closing: str, inside: str = "1") -> str:
    return opening * depth + inside + closing * depth


@pytest.fixture
def admin(api: Api) -> Iterator[httpx.Client]:
    with sign_in(api, "admin") as client:
        yield client


@pytest.mark.scenario(54)
@pytest.mark.parametrize("field", ["mapping", "settings"])
@pytest.mark.parametrize("path", ["/pipelines", "/validate"])
def test_json_of_any_depth_is_accepted_or_refused(api: Api, path: str, field: str) -> None:
    body = json.dumps(config(target_table="es:films") | {field: "HERE"})
    for depth in DEPTHS:
        for deep in (nested(depth, '{"a":', "}"), '{"a":' + nested(depth, "[", "]") + "}"):
            content = body.replace('"HERE"', deep)
            response = api.ask("POST", path, content=content, headers={"Content-Type": "application/json"})
            assert response.status_code in (200, 201, 400, 409, 422), (depth, response.text)
            assert depth < MAX_DEPTH or response.status_code in (400, 422)


@pytest.mark.scenario(54)
@pytest.mark.parametrize("path", ["/sign-in", "/new", "/editor/check"])
def test_a_huge_form_is_refused_whether_it_says_its_length_or_not(admin: httpx.Client, path: str) -> None:
    def chunks() -> Iterator[bytes]:
        for _ in range(MAX_BODY // 100_000 + 2):
            yield b"x" * 100_000

    for content in (b"token=" + b"x" * MAX_BODY, chunks()):
        assert admin.post(path, content=content, headers=FORM).status_code == 413


@pytest.mark.scenario(54)
@pytest.mark.parametrize("field", ["mapping", "settings", "impact"])
def test_a_form_of_any_depth_is_no_error_of_ours(admin: httpx.Client, field: str) -> None:
    for depth, text in [*((depth, nested(depth, '{"a":', "}")) for depth in DEPTHS), (0, BOMB), (0, "a: &a [*a]")]:
        form = {"name": "deep", "target_table": "es:deep", field: text}
        for path in ("/new", "/editor/check", "/editor/preview"):
            assert admin.post(path, data=form).status_code in (200, 409, 422), (path, depth)


def test_a_form_of_many_fields_is_answered_in_a_moment(admin: httpx.Client) -> None:
    with promptly(10):
        assert admin.post("/selected/pause", content="&".join(["id=x"] * 200_000), headers=FORM).status_code < 500


@pytest.mark.scenario(54)
@pytest.mark.parametrize(
    "text",
    [
        *(f"name: x\nmapping: {nested(depth, '{a: ', '}')}\n" for depth in DEPTHS[:-1]),
        nested(5_000, "[", "]"),
        "name: x\nmapping:\n" + "".join("  " * n + "a:\n" for n in range(1, 1_500)),
        BOMB,
        "name: x\nmapping:\n" + "".join(f"  {line}\n" for line in BOMB.splitlines()),
        "name: &a [*a]",
        "{[a, b]: 1}",
        "{1: x, null: y}",
        "!!python/object/apply:os.system [id]",
    ],
    ids=[
        *map(str, DEPTHS[:-1]),
        "list",
        "block",
        "aliases",
        "aliases in a field",
        "itself",
        "names",
        "numbers",
        "code",
    ],
)
@pytest.mark.parametrize("command", ["validate", "plan"])
def test_a_file_of_any_depth_is_a_sentence(
    shared: Api, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, command: str
) -> None:
    monkeypatch.setenv("VITRINA_URL", shared.url)
    monkeypatch.setenv("VITRINA_TOKEN", shared.tokens["admin"])
    file = tmp_path / "deep.yaml"
    file.write_text(text)
    with promptly(10):
        said = vitrina(command, file, expect=1)
    assert len(said.out + said.err) < 10_000
    assert "Traceback" not in said.err

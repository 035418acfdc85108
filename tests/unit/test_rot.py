"""What usually rots: the wheel leaves nothing out, and no named query or setting is left over."""

import ast
import re
import zipfile
from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder

from vitrina.settings import Settings

REQUESTS = {"get", "put", "post", "delete", "head", "request", "stream", "Client", "AsyncClient"}
ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "vitrina"
CODE = "\n".join(file.read_text() for file in PACKAGE.rglob("*.py"))
QUERIES = sorted((PACKAGE / "meta" / "queries").glob("*.sql"))


def test_the_wheel_holds_every_file_of_the_package(tmp_path: Path) -> None:
    (wheel,) = WheelBuilder(str(ROOT)).build(directory=str(tmp_path))
    kept = set(zipfile.ZipFile(wheel).namelist())
    files = (file for file in PACKAGE.rglob("*") if file.is_file() and "__pycache__" not in file.parts)
    assert {f"vitrina/{file.relative_to(PACKAGE)}" for file in files} <= kept
    console = {"templates/home.html", "static/console.css", "static/vendor/editor.js", "translations/ru.json"}
    assert {f"vitrina/control/console/{name}" for name in console} <= kept


@pytest.mark.parametrize("file", QUERIES, ids=lambda file: file.stem)
def test_every_named_query_is_used(file: Path) -> None:
    names = re.findall(r"^-- name: (\w+)$", file.read_text(), flags=re.MULTILINE)
    assert [name for name in names if f'"{name}"' not in CODE] == []


def test_every_setting_is_used() -> None:
    assert [
        name for name in Settings.model_fields if f"settings.{name}" not in CODE and f"self.{name}" not in CODE
    ] == []


def test_no_request_of_a_test_gives_up_after_the_five_seconds_of_httpx() -> None:
    """A server that is busy with other tests may take longer to answer."""
    files = (file for folder in ("tests", "integrations", "bench", "tools") for file in (ROOT / folder).rglob("*.py"))
    assert [
        f"{file.relative_to(ROOT)}:{line}" for file in files if ".venv" not in file.parts for line in hasty(file)
    ] == []


def hasty(file: Path) -> list[int]:
    """The lines of its requests by httpx that say no timeout."""
    calls = [node for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Call)]
    return [call.lineno for call in calls if asks(call.func) and "timeout" not in {word.arg for word in call.keywords}]


def asks(function: ast.expr) -> bool:
    return isinstance(function, ast.Attribute) and ast.unparse(function.value) == "httpx" and function.attr in REQUESTS

"""The map of ARCHITECTURE.md, the contracts of pyproject.toml and the packages themselves say the same."""

import ast
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.copies import ROOT, copy_tree, lint_imports

CODE = ROOT / "src" / "vitrina"
CONTRACTS: list[Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
LAYERS = [
    [name.removeprefix("vitrina.") for name in layer.split(" | ")]
    for contract in CONTRACTS
    if contract["name"] == "Imports point one way"
    for layer in contract["layers"]
]
TOP = ("cli", "demo", "bootstrap", "testing")  # putting it together
WRONG_DOORS = {
    "engine/work.py": "runner.executor",
    "control/plane.py": "runner.manager",
    "domain/run.py": "meta.db",
    "engine/converge.py": "engine.full",
    "engine/full.py": "sources.postgres.reader",
    "planning.py": "sinks.search.store",
    "sinks/documents/shape.py": "sinks.table.mart",
    "sources/postgres/horizon.py": "sources.registry",
    "sources/source.py": "sources.postgres.horizon",
    "sources/registry.py": "sources.connections",
    "sources/duckdb/place.py": "sources.postgres.horizon",
    "capture/changes.py": "capture.taps",
    "client/records.py": "domain.run",
    "embedded/elasticsearch.py": "meta.db",
}


def rows() -> dict[str, str]:
    """Of the map: by package, what it may import."""
    table = (ROOT / "ARCHITECTURE.md").read_text().split("## Code map\n")[1].split("\n## ")[0]
    found: dict[str, str] = {}
    for line in re.findall(r"^\| (`.+) \|$", table, flags=re.MULTILINE):
        names, _, may = line.split(" | ")
        found |= {name.removesuffix("/").removesuffix(".py"): may for name in re.findall(r"`([^`]+)`", names)}
    return found


def test_the_contracts_hold_and_every_wall_stands(tmp_path: Path) -> None:
    told = lint_imports(copy_tree(tmp_path))
    assert told.returncode == 0, told.stdout


@pytest.mark.parametrize(("module", "wrong"), WRONG_DOORS.items(), ids=[*WRONG_DOORS])
def test_a_door_that_opens_the_wrong_way_is_noticed(tmp_path: Path, module: str, wrong: str) -> None:
    file = copy_tree(tmp_path) / "src" / "vitrina" / module
    file.write_text(file.read_text() + f"\nimport vitrina.{wrong}\n")
    told = lint_imports(tmp_path)
    assert told.returncode == 1
    name = module.removesuffix(".py").replace("/", ".")
    assert re.search(rf"vitrina\.{re.escape(name)} -> vitrina\.{re.escape(wrong)}", told.stdout), told.stdout


def test_the_map_has_every_package() -> None:
    found = {path.stem for path in CODE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert rows().keys() == found - {"__init__", "__main__", "failpoints"}


def test_the_map_says_of_each_layer_what_the_contract_does() -> None:
    told = rows()
    for layer, below in zip(LAYERS, [*LAYERS[1:], []], strict=True):
        for name in layer:
            if name in TOP:
                assert told[name] == "everything"
            else:
                beside = [f"not `{other}`" for other in layer if other != name and f"`{other}`" in told[name]]
                assert told[name] == (", ".join([*sorted(below), *beside]) or "nothing of ours"), name


def test_what_stands_beside_the_layers_has_a_contract_of_its_own() -> None:
    told = rows()
    rooms = {name for layer in LAYERS for name in layer}
    forbidden = {c["source_modules"][0]: c["forbidden_modules"] for c in CONTRACTS if c["type"] == "forbidden"}
    assert told["client"] == "nothing of ours"
    assert rooms - {"bootstrap"} <= {name.removeprefix("vitrina.") for name in forbidden["vitrina.client"]}
    assert told["embedded"] == "domain, settings"
    assert rooms - {"domain"} <= {name.removeprefix("vitrina.") for name in forbidden["vitrina.embedded"]}


GUESSWORK = {"Told", "Keeper", "Bell", "Looking", "dear", "straight", "riders"}  # names that said nothing of the thing


def test_the_words_are_twenty_at_most_and_names_that_had_to_be_guessed_stay_gone() -> None:
    table = (ROOT / "ARCHITECTURE.md").read_text().split("## Words\n")[1].split("\n## ")[0]
    assert 10 <= len(re.findall(r"^\| \*\*", table, flags=re.MULTILINE)) <= 20
    trees = (ast.walk(ast.parse(file.read_text())) for file in CODE.rglob("*.py"))
    named = {node.name for tree in trees for node in tree if isinstance(node, ast.ClassDef | ast.FunctionDef)}
    assert named & GUESSWORK == set()

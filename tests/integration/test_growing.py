"""What a new … touches, as CONTRIBUTING.md says it: each row has an example, followed in a copy and tried there."""

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.copies import ROOT, copy_tree, lint_imports, run
from tests.support import Lab

EXAMPLES = ROOT / "tests" / "growing"
WORDS = ("-m", "pytest", "-q", "--noconftest", "-n", "0", "tests/unit/test_console_words.py")
FIELD = """
import sys, yaml
from vitrina.control.api.models import PipelinePatch
from vitrina.control.console.fields import form_fields, read
from vitrina.domain.pipeline import Pipeline
from vitrina.files import dump_yaml
from vitrina.meta import migrate
from vitrina.meta.db import connect
from vitrina.meta.repos.editing import EditingRepo
from vitrina.meta.repos.pipelines import PipelineRepo

pipeline = Pipeline.parse(yaml.safe_load(
    "{name: films, source_query: SELECT 1 AS id, target_table: analytics.films, key: [id], steward: Anna}"
))
assert "steward: Anna" in dump_yaml(pipeline.model_dump(mode="json"))
assert "steward" in PipelinePatch.model_json_schema()["properties"]
assert [f.value for f in form_fields(pipeline.model_dump()) if f.name == "steward"] == ["Anna"]
assert read({"steward": ["Boris"]})[0]["steward"] == "Boris"
migrate.upgrade(sys.argv[1])
with connect(sys.argv[1], "growing") as conn:
    PipelineRepo(conn).add(pipeline)
    with conn.transaction():
        EditingRepo(conn).replace(pipeline.model_copy(update={"steward": "Boris"}))
    stored = PipelineRepo(conn).get("films")
    assert (stored.config["steward"], stored.version) == ("Boris", 2), stored
"""
MODE = """
import sys
from vitrina.control.api.models import PipelinePatch
from vitrina.domain.pipeline import Pipeline, resolve
from vitrina.engine import once
from vitrina.meta import migrate
from vitrina.meta.db import connect
from vitrina.meta.repos.pipelines import PipelineRepo

pipeline = Pipeline(name="films", source_query="SELECT 1 AS id", target_table="analytics.films", mode="once")
assert resolve(pipeline).mode == PipelinePatch(mode="once").mode == "once"
migrate.upgrade(sys.argv[1])
with connect(sys.argv[1], "growing") as conn:
    PipelineRepo(conn).add(pipeline)
    assert PipelineRepo(conn).get("films").config["mode"] == "once"
"""
ENDPOINT = """
from vitrina.control.api import system
assert "/transforms" in {route.path for route in system.router.routes}
assert system.list_transforms() == []
"""
PAGE = """
from types import SimpleNamespace
from vitrina.control.console.app import create_console
from vitrina.control.console.render import _environment
from vitrina.control.console.transforms import router
from vitrina.settings import Settings
template = _environment("ru").get_template("transforms.html")
html = "".join(template.blocks["main"](template.new_context({"names": ["titles"]})))
assert "<h1>Преобразования</h1>" in html and "titles" in html, html
create_console(SimpleNamespace(settings=Settings()))
assert [route.path for route in router.routes] == ["/transforms"]
"""
SINK = """
import sys
from pathlib import Path
import pytest
from vitrina.sinks.shelf.sink import FileSink
from vitrina.sinks.registry import resolve_sink
from vitrina.stores import Batch, Superseded
from vitrina.testing import Lab, Mart, SinkConformance

assert isinstance(resolve_sink("shelf:mart"), FileSink)
with Lab.at(sys.argv[1], home=Path(sys.argv[2]), allowed_other_targets=["shelf:*"]) as lab:
    mart = Mart(lab, "shelf:mart")
    SinkConformance().test_inserts_updates_and_deletes_arrive_and_nothing_else_is_sent(mart)
    with mart.opened() as store:
        [name] = store.served()
        with pytest.raises(Superseded):
            store.write(name, Batch(1, b'"1"\\n\\n', 1), 0)
    assert len(mart.rows(["id"])) == 12
"""
SOURCE = """
import sys
from dataclasses import replace
from pathlib import Path
from pydantic import SecretStr
from vitrina.control.services.validation import Validation
from vitrina.sources.csv.reader import CSV
from vitrina.sources.registry import kind_of
from vitrina.testing import Lab

url = "csv://" + sys.argv[2]
assert kind_of(url) is CSV
films = Path(sys.argv[2], "films.csv")
with Lab.at(sys.argv[1], sources={"shelf": SecretStr(url)}) as lab:
    lab.connections = replace(lab.connections, sources={"shelf": url})
    pipeline = lab.add(source="shelf", source_query="SELECT * FROM films", key=["id"])
    for text, counts, rows in (
        ('id,title\\n1,Alien\\n2,"Brazil, 1985"\\n', (2, 0), [("1", "Alien"), ("2", "Brazil, 1985")]),
        ('id,title\\n2,\\n3,Clue\\n', (2, 1), [("2", None), ("3", "Clue")]),
    ):
        films.write_text(text)
        run = lab.run(pipeline, allow_deletes=True)
        assert (run["error"], run["rows_written"], run["rows_deleted"]) == (None, *counts), run
        assert lab.sql("SELECT id, title FROM analytics.mart ORDER BY id") == rows
    said = [(finding.level, finding.message) for finding in Validation(lab.connections).of(pipeline)]
    assert any("gives id text, title text" in message for _, message in said), said
    assert "error" not in dict(said), said
    other = lab.add(name="other", source="shelf", source_query="SELECT 1", key=["id"], target_table="analytics.other")
    assert "cannot answer this query" in lab.run(other)["error"]
"""


@dataclass(frozen=True)
class Row:
    """One of the table: at most so many files, and so many lines in files that were there."""

    files: int
    lines: int
    example: str


def rows() -> dict[str, Row]:
    table = (ROOT / "CONTRIBUTING.md").read_text().split("## What a new … touches\n")[1].split("\n## ")[0]
    cells = [line.strip("| ").split(" | ") for line in table.splitlines() if "tests/growing/" in line]
    return {what: Row(int(files), int(lines), example.strip("`")) for what, files, lines, _, example in cells}


def touched(patch: str) -> tuple[int, int]:
    """Files, and lines of those that existed."""
    parts = re.split(r"^diff --git .*\n", patch, flags=re.MULTILINE)[1:]
    known = [part for part in parts if not part.startswith("new file")]
    return len(parts), sum(len(re.findall(r"^[+-](?!\+\+|--)", part, flags=re.MULTILINE)) for part in known)


def grown(tree: Path, name: str) -> Path:
    """A copy in which the example was followed; the contracts still hold."""
    copy_tree(tree, "docs", "tests")
    subprocess.run(["git", "apply", "-C1", str(EXAMPLES / f"{name}.patch")], cwd=tree, check=True)
    told = lint_imports(tree)
    assert told.returncode == 0, told.stdout
    return tree


def tried(tree: Path, *arguments: str) -> None:
    told = run(tree, "python", *arguments)
    assert told.returncode == 0, told.stdout + told.stderr


def test_every_row_has_an_example_and_every_example_a_row() -> None:
    assert {row.example for row in rows().values()} == {f"tests/growing/{file.name}" for file in EXAMPLES.iterdir()}


@pytest.mark.parametrize("what", rows())
def test_no_example_touches_more_than_the_table_says(what: str) -> None:
    row = rows()[what]
    files, lines = touched((ROOT / row.example).read_text())
    assert files <= row.files, (files, row)
    assert lines <= row.lines, (lines, row)


def test_a_new_field_is_in_the_model_the_api_the_form_the_files_and_the_table(tmp_path: Path, empty_db: str) -> None:
    tree = grown(tmp_path, "pipeline_field")
    tried(tree, "-c", FIELD, empty_db)
    tried(tree, *WORDS)


def test_a_new_mode_is_chosen_and_stored(tmp_path: Path, empty_db: str) -> None:
    tried(grown(tmp_path, "mode"), "-c", MODE, empty_db)


def test_a_new_endpoint_is_served(tmp_path: Path) -> None:
    tried(grown(tmp_path, "endpoint"), "-c", ENDPOINT)


def test_a_new_page_is_shown_in_both_languages(tmp_path: Path) -> None:
    tree = grown(tmp_path, "console_page")
    tried(tree, "-c", PAGE)
    tried(tree, *WORDS)


@pytest.mark.parametrize(("name", "folder"), [("sink", "sinks/shelf"), ("source", "sources/csv")])
def test_all_that_a_kind_adds_is_in_a_folder_of_its_own(name: str, folder: str) -> None:
    added = re.findall(r"^diff --git a/(.+) b/.*\nnew file", (EXAMPLES / f"{name}.patch").read_text(), re.MULTILINE)
    assert {str(Path(file).parent) for file in added} == {f"src/vitrina/{folder}"}


def test_a_new_kind_of_sink_is_found_and_keeps_a_mart(tmp_path: Path, lab: Lab) -> None:
    tried(grown(tmp_path / "tree", "sink"), "-c", SINK, lab.conninfo, str(tmp_path / "home"))


def test_a_new_kind_of_sink_that_the_contract_does_not_name_is_noticed(tmp_path: Path) -> None:
    tree = grown(tmp_path, "sink")
    contracts = tree / "pyproject.toml"
    contracts.write_text(contracts.read_text().replace("    | shelf\n", ""))
    told = lint_imports(tree)
    assert told.returncode == 1
    assert "shelf" in told.stdout


def test_a_new_kind_of_source_is_found_described_and_read(tmp_path: Path, lab: Lab) -> None:
    tried(grown(tmp_path / "tree", "source"), "-c", SOURCE, lab.conninfo, str(tmp_path))

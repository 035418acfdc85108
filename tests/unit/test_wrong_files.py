"""What is wrong with a file is said to people who write YAML: no type, no class, no phrase of a library."""

import re
from pathlib import Path
from typing import Any

import pytest

from vitrina.cli.changes import parse_all
from vitrina.client import ClientError
from vitrina.control.console.fields import read
from vitrina.domain.errors import ConfigError
from vitrina.domain.pipeline import Pipeline, Task
from vitrina.files import read_documents

VALUES = (
    *("null", "true", "5", "-1", "1.5", ".inf", "99999999999999999999", "sideways", "''", f"'{'x' * 300}'"),
    *("[]", "[a, 5, null]", "[[a]]", "{}", "{a: b}", "{5: b}", "{a: 5}", "{a: {b: [c]}}"),
    *(
        "2020-01-01",
        "2020-13-45",
        "!!binary aGVsbG8=",
        "!!set {a}",
        "!!python/none x",
        "!!int abc",
        "*nothing",
        "&a [*a]",
    ),
)
THEIRS = re.compile(
    r"Input should|String should|Field required|Extra inputs|Value error|pydantic|type=|validat"
    r"|\btuple\b|\bdict(ionary)?\b|\bstr(ing)?\b|\bint(eger)?\b|\bbool(ean)?\b|\bNone(Type)?\b|\bTrue\b|\bFalse\b"
    r"|datetime|instance of|<class|constructor|codec|Errno|literal|tag:yaml|<stream|<block|unhashable|Traceback"
)
WHOLE = {
    "nothing but a name": "films",
    "a number": "5",
    "a list": "- name: films",
    "no name": "target_table: analytics.films",
    "an indentation by a tab": "name: films\n\tmode: full",
    "a list that does not end": "name: [films",
    "a text that does not end": "name: 'films",
    "two colons": "description: films: all of them",
    "a field twice": "name: films\nname: films",
    "a field that is no text": "? [name]\n: films",
    "a document after another": "name: films\n---\nfilms",
    "nested without end": "settings: " + "[" * 60 + "]" * 60,
    "a mark of the beginning": "\ufeffname: 5",
    "no character": "name: \x07",
    "bytes": "name: f\udcff",
}


def said_of(tmp_path: Path, text: str) -> str:
    """What is wrong with a file of this text; empty if nothing."""
    file = tmp_path / "films.yaml"
    file.write_bytes(text.encode(errors="surrogateescape"))
    try:
        for document in read_documents(file):
            document.parse()
    except ConfigError as error:
        return f"{error.message} {error.remedy}".replace(str(file), "FILE")
    return ""


@pytest.mark.parametrize("field", [*Pipeline.model_fields, "task_name", "colour"])
def test_a_wrong_value_of_a_field_is_named_in_words(field: str, tmp_path: Path) -> None:
    found = [said_of(tmp_path, f"{'' if field == 'name' else 'name: films'}\n{field}: {value}") for value in VALUES]
    assert [said for said in found if THEIRS.search(said)] == []
    assert all(field in said or "is no YAML" in said for said in found if said)
    assert len([said for said in found if said]) >= 5  # of each, something is wrong


@pytest.mark.parametrize("field", Task.model_fields)
def test_a_wrong_value_in_a_task_is_found_by_its_place(field: str, tmp_path: Path) -> None:
    task = {"order_index": "1", "task_type": "SQL", "body": "SELECT 1"}
    for value in VALUES:
        fields = ", ".join(f"{name}: {given}" for name, given in (task | {field: value}).items())
        said = said_of(tmp_path, f"name: films\ntasks: [{{{fields}}}]")
        assert not THEIRS.search(said)
        assert not said or "is no YAML" in said or f"{field} of item 1 of tasks" in said, said


@pytest.mark.parametrize("text", WHOLE.values(), ids=WHOLE)
def test_a_file_that_is_no_pipeline_says_why(text: str, tmp_path: Path) -> None:
    said = said_of(tmp_path, text)
    assert said.startswith("FILE")
    assert not THEIRS.search(said), said


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({}, "name is missing"),
        ({"name": None}, "name must be text, not null"),
        ({"name": 5}, "name must be text, not 5: put it in quotes"),
        ({"name": "films", "batch_sise": 3}, "pipeline 'films': batch_sise is not known; is batch_size meant?"),
        ({"name": "films", "key": "id"}, "pipeline 'films': key must be a list, such as [a, b], not 'id'"),
        (
            {"name": "films", "mode": "sideways"},
            "pipeline 'films': mode must be full, incremental or live, not 'sideways'",
        ),
        ({"name": "films", "batch_size": 0}, "pipeline 'films': batch_size must be at least 1"),
        ({"name": "films", "key": ["a", 5]}, "pipeline 'films': item 2 of key must be text, not 5: put it in quotes"),
        ({"name": "films", "impact": {"a.b": []}}, "pipeline 'films': a.b of impact must be text, not a list"),
    ],
)
def test_what_is_wrong_is_a_sentence(values: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Pipeline.parse(values)
    assert caught.value.message == said


def test_files_that_are_wrong_are_said_together(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("key: a")
    (tmp_path / "b.yaml").write_text("name: b\nmode: sideways")
    with pytest.raises(ClientError) as caught:
        parse_all(read_documents(tmp_path))
    assert [finding["message"].rpartition("/")[2] for finding in caught.value.findings] == [
        "a.yaml: name is missing; key must be a list, such as [a, b], not 'a'",
        "b.yaml: pipeline 'b': mode must be full, incremental or live, not 'sideways'",
    ]


def test_yaml_in_a_form_is_told_in_the_same_words() -> None:
    _, wrong = read({"name": ["films"], "mapping": ["{a: !!int b}"]})
    assert [finding.message for finding in wrong] == ["is no YAML: 'b' is no whole number, line 1, column 5"]

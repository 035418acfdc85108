"""YAML: strict in, readable out, and the same when it comes back."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from vitrina.domain.errors import ConfigError
from vitrina.domain.pipeline import Pipeline
from vitrina.files import demo_pipelines, dump_pipeline, dump_yaml, pipeline_schema, read_pipelines


def dumped(**values: Any) -> str:
    """What a pipeline looks like as a file."""
    return dump_pipeline(Pipeline.parse({"name": "p", "target_table": "analytics.p"} | values).model_dump(mode="json"))


@given(st.text())
def test_any_text_comes_back(text: str) -> None:
    assert yaml.safe_load(dump_yaml({"text": text})) == {"text": text}


@pytest.mark.parametrize("query", ["SELECT 1\n", "SELECT\n\t1 AS a,  \n  2 AS b", "\n  SELECT 'é'\n\n"])
def test_a_query_is_a_block_of_text_whatever_its_spaces(query: str) -> None:
    assert "source_query: |" in dumped(source_query=query)
    assert yaml.safe_load(dumped(source_query=query))["source_query"] == query


def test_defaults_are_left_out() -> None:
    assert set(yaml.safe_load(dumped(source_query="SELECT 1"))) == {"id", "name", "source_query", "target_table"}


@pytest.mark.parametrize(
    "pipeline",
    [*demo_pipelines(), *demo_pipelines("live"), *demo_pipelines("indexes"), *demo_pipelines("chain")],
    ids=lambda p: str(p.name),
)
def test_the_demo_round_trips(pipeline: Pipeline) -> None:
    assert Pipeline.parse(yaml.safe_load(dump_pipeline(pipeline.model_dump(mode="json")))) == pipeline


def test_a_field_given_twice_is_refused(tmp_path: Path) -> None:
    (tmp_path / "p.yml").write_text("name: a\nname: b\n")
    with pytest.raises(ConfigError, match="name is given twice"):
        read_pipelines(tmp_path)


def test_an_error_names_the_file(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text("name: a\nbatch_size: none\n")
    with pytest.raises(ConfigError, match=r"p\.yaml: .*batch_size"):
        read_pipelines(tmp_path)
    (tmp_path / "p.yaml").write_text("[a, b]")
    with pytest.raises(ConfigError, match="is a mapping of fields"):
        read_pipelines(tmp_path)


def test_the_schema_knows_every_field_and_refuses_others() -> None:
    schema = pipeline_schema()
    assert set(schema["properties"]) == {*Pipeline.model_fields, "task_name"}
    assert schema["additionalProperties"] is False
    assert all("description" in field for field in schema["properties"].values())

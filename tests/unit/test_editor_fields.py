"""The editor's form is the model: every field is there, goes out and comes back the same."""

from typing import Any
from urllib.parse import parse_qs, urlencode

import pytest

from vitrina.control.console import fields
from vitrina.domain.pipeline import Pipeline

PLAN: dict[str, Any] = {
    "name": "catalog",
    "key": ["film_id", "day"],
    "enabled": False,
    "batch_size": 7,
    "mode": "incremental",
    "incremental_key": "modified",
    "tasks": [
        {"order_index": 1, "task_type": "SQL", "body": "SELECT 1 AS film_id,\n       2 AS day"},
        {"order_index": 2, "task_type": "PYTHON", "body": "add_decade", "target_table": "analytics.catalog"},
    ],
}


def sent(values: dict[str, Any]) -> dict[str, list[str]]:
    """The form as a browser sends it."""
    shown = {f.name: f.value for f in fields.form_fields(values) if f.kind != "switch" or f.value}
    return parse_qs(urlencode(shown), keep_blank_values=True)


def test_every_field_of_the_model_is_in_the_form() -> None:
    assert {f.name for f in fields.form_fields({})} == Pipeline.model_fields.keys() - set(fields.NEVER)


@pytest.mark.parametrize("values", [PLAN, {"name": "a", "source_query": "SELECT '%' AS x -- µ\n"}])
def test_what_is_shown_comes_back_the_same(values: dict[str, Any]) -> None:
    config = Pipeline.parse(values).model_dump(mode="json")
    read, wrong = fields.read(sent(config))
    again = Pipeline.parse({"id": config["id"]} | {k: v for k, v in read.items() if v is not None})
    assert wrong == []
    assert again.model_dump(mode="json") == config


@pytest.mark.parametrize("values", [PLAN, {"name": "a", "source_query": "SELECT 1 AS x\n", "schedule_interval": "1h"}])
def test_as_yaml_it_is_the_same(values: dict[str, Any]) -> None:
    config = Pipeline.parse(values).model_dump(mode="json")
    read, wrong = fields.read({"yaml": [fields.written(config)]})
    again = Pipeline.parse({"id": config["id"]} | {k: v for k, v in read.items() if v is not None})
    assert wrong == []
    assert again.model_dump(mode="json") == config
    assert read.keys() == Pipeline.model_fields.keys() - set(fields.NEVER)  # what is left out goes back to its default


@pytest.mark.parametrize("text", ["- a list", "name: [", "just words"])
def test_yaml_that_is_no_pipeline_is_said_so(text: str) -> None:
    _, wrong = fields.read({"yaml": [text]})
    assert [finding.code for finding in wrong] == ["not_yaml"]


@pytest.mark.parametrize(
    ("schedule", "zone", "rest"),
    [
        ("TZ=Europe/Moscow 0 3 * * *", "Europe/Moscow", "0 3 * * *"),
        ("CRON_TZ=Europe/Moscow 0 3 * * *", "", "CRON_TZ=Europe/Moscow 0 3 * * *"),
        ("0 3 * * *", "", "0 3 * * *"),
        ("5m", "", "5m"),
    ],
)
def test_the_zone_of_a_cron_line_is_a_field_of_its_own(schedule: str, zone: str, rest: str) -> None:
    [field] = [f for f in fields.form_fields({"schedule_interval": schedule}) if f.name == "schedule_interval"]
    assert field.zoned == (zone, rest)
    read, _ = fields.read({"schedule_interval": [rest], "zone": [zone]})
    assert read["schedule_interval"] == schedule


def test_a_duration_takes_no_zone() -> None:
    assert fields.read({"schedule_interval": ["5m"], "zone": ["Europe/Moscow"]})[0]["schedule_interval"] == "5m"


def test_what_can_be_chosen_from_is_a_list_with_what_stands_there() -> None:
    lists = {"python_task": ["add_decade"], "source": ["warehouse", "far"]}
    shown = {f.name: f for f in fields.form_fields({"python_task": "gone"}, lists)}
    assert shown["python_task"].choices == ("", "add_decade", "gone")
    assert shown["source"].choices == ("warehouse", "far")


def test_a_transform_makes_the_type_and_every_field_has_a_heading() -> None:
    assert fields.read({"python_task": ["x"]})[0]["type"] == "PYTHON"
    assert fields.read({"python_task": [""]})[0]["type"] == "SQL"
    groups = fields.grouped(fields.form_fields({}))
    assert [f.name for g in groups for f in g.fields if g.title == "More"] == []


def test_what_cannot_be_read_is_named_and_kept_as_it_was_typed() -> None:
    form = sent({"name": "a"}) | {"tasks": ["- {"], "batch_size": ["many"]}
    _, wrong = fields.read(form)
    assert sorted(finding.where for finding in wrong) == ["batch_size", "tasks"]
    typed = {f.name: f.value for f in fields.shown(form)}
    assert (typed["tasks"], typed["batch_size"]) == ("- {", "many")

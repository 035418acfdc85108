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
    assert {f.name for f in fields.form_fields({})} == Pipeline.model_fields.keys() - {"id"}


@pytest.mark.parametrize("values", [PLAN, {"name": "a", "source_query": "SELECT '%' AS x -- µ\n"}])
def test_what_is_shown_comes_back_the_same(values: dict[str, Any]) -> None:
    config = Pipeline.parse(values).model_dump(mode="json")
    read, wrong = fields.read(sent(config))
    again = Pipeline.parse({"id": config["id"]} | {k: v for k, v in read.items() if v is not None})
    assert wrong == []
    assert again.model_dump(mode="json") == config


def test_what_cannot_be_read_is_named_and_kept_as_it_was_typed() -> None:
    form = sent({"name": "a"}) | {"tasks": ["- {"], "batch_size": ["many"]}
    _, wrong = fields.read(form)
    assert sorted(finding.where for finding in wrong) == ["batch_size", "tasks"]
    typed = {f.name: f.value for f in fields.shown(form)}
    assert (typed["tasks"], typed["batch_size"]) == ("- {", "many")

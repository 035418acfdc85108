"""Labels: what people may write."""

import re
from pathlib import Path
from typing import Any

import pytest

from vitrina.domain.errors import ConfigError
from vitrina.domain.labels import LABEL
from vitrina.domain.pipeline import Pipeline
from vitrina.files import dump_pipeline, load_yaml
from vitrina.meta import migrations

WRITTEN = {
    "[team:search, tier:1, pii]": ("team:search", "tier:1", "pii"),
    "{team: search, tier: 1, pii: }": ("team:search", "tier:1", "pii"),
    "[team: search, tier: 1]": ("team:search", "tier:1"),
    "[команда:поиск, a:b, a:b]": ("команда:поиск", "a:b"),
    "{pii: true}": ("pii:true",),
    "[]": (),
}


@pytest.mark.parametrize(("written", "meant"), WRITTEN.items())
def test_a_list_a_mapping_and_a_slip_between_them_mean_the_same(written: str, meant: tuple[str, ...]) -> None:
    pipeline = Pipeline.parse({"name": "films", "labels": load_yaml(written)})
    assert pipeline.labels == meant
    again = load_yaml(dump_pipeline(pipeline.model_dump(mode="json", exclude={"id"})))
    assert Pipeline.parse(again).labels == meant
    assert ("labels" in again) is bool(meant)


@pytest.mark.parametrize("wrong", [["a b"], ["a,b"], [":a"], ["a:b:c"], [""], ["x" * 101], [str(n) for n in range(33)]])
def test_what_is_no_label_is_refused_by_its_name(wrong: list[Any]) -> None:
    with pytest.raises(ConfigError, match="labels must be "):
        Pipeline.parse({"name": "films", "labels": wrong})


def test_the_table_refuses_what_the_model_refuses() -> None:
    (path,) = (Path(migrations.__path__[0]) / "versions").glob("0026_*.sql")
    checked = re.findall(r"~ '\^(.+?)\$' AND", path.read_text())[0].replace("''", "'")
    assert checked.replace(r"\u0001", r"\u0000") == LABEL.pattern  # there is no NUL in a text of Postgres

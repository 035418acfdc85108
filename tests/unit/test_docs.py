"""What usually rots: the docs name every field and every setting, and nothing else."""

import re
from pathlib import Path

from vitrina.domain.pipeline import Pipeline
from vitrina.settings import Settings

PAGE = (Path(__file__).parents[2] / "docs" / "pipelines.md").read_text()


def _first_cells(section: str) -> set[str]:
    table = PAGE.split(f"## {section}\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| (`[^|]+) \|", table, flags=re.MULTILINE)
    return {name for row in rows for name in re.findall(r"`([^`]+)`", row)}


def test_every_field_of_a_pipeline_is_documented() -> None:
    assert _first_cells("Fields") - {"task_name"} == set(Pipeline.model_fields)


def test_every_setting_is_documented() -> None:
    documented = {name.lower().removesuffix("__name") for name in _first_cells("Settings")}
    assert documented == set(Settings.model_fields)

"""What usually rots: the docs name every field and every setting, and nothing else."""

import re
from pathlib import Path
from typing import get_args

import yaml

from vitrina.control.services.freshness import State
from vitrina.domain.pipeline import Pipeline, resolve
from vitrina.planning import check_impact
from vitrina.settings import Settings
from vitrina.sinks.search.types import MAPPINGS

ROOT = Path(__file__).parents[2]
DOCS, LIVE_CODE = ROOT / "docs", ROOT / "src" / "vitrina" / "sql" / "live"
PAGE = (DOCS / "pipelines.md").read_text()
SEARCH = (DOCS / "elasticsearch.md").read_text()
LIVE = (DOCS / "live.md").read_text()


def _first_cells(section: str, page: str = PAGE) -> set[str]:
    return {name for row in _rows(section, page) for name in _names(row[0])}


def _rows(section: str, page: str) -> list[list[str]]:
    table = page.split(f"## {section}\n")[1].split("\n## ")[0]
    return [row.split(" | ") for row in re.findall(r"^\| (`.+) \|$", table, flags=re.MULTILINE)]


def _names(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def test_every_field_of_a_pipeline_is_documented() -> None:
    assert _first_cells("Fields") - {"task_name"} == set(Pipeline.model_fields)


def test_every_setting_is_documented() -> None:
    documented = {name.lower().removesuffix("__name") for name in _first_cells("Settings")}
    assert documented == set(Settings.model_fields)


def test_the_page_about_elasticsearch_has_every_type_as_it_is_mapped() -> None:
    documented = {type_: _names(row[1]) for row in _rows("Types", SEARCH) for type_ in _names(row[0])}
    assert documented == {type_: [mapping["type"]] for type_, mapping in MAPPINGS.items()}


def test_the_settings_for_elasticsearch_are_real() -> None:
    names = {name.removeprefix("VITRINA_").lower() for name in _first_cells("Where it is", SEARCH)}
    assert names <= set(Settings.model_fields)
    about = {name for name in Settings.model_fields if name.startswith(("elasticsearch_", "es_"))}
    assert about - {"elasticsearch_cache"} <= names


def test_the_example_of_an_index_is_a_pipeline() -> None:
    (example,) = re.findall(r"```yaml\n(.+?)```", SEARCH, flags=re.DOTALL)
    assert resolve(Pipeline.parse(yaml.safe_load(example))).target == "es:film_dim"


def test_the_page_about_live_marts_has_every_state_and_rule() -> None:
    assert _first_cells("How fresh it is", LIVE) == set(get_args(State))
    rules = set(re.findall(r"^\| (R\d+) \|", LIVE, flags=re.MULTILINE))
    named = {rule for file in LIVE_CODE.glob("*.py") for rule in re.findall(r"\bR\d+\b", file.read_text())}
    assert rules == {f"R{number}" for number in range(1, 13)} >= named


def test_the_example_of_a_live_mart_is_a_pipeline_and_its_impact_query_fits() -> None:
    example, impact = re.findall(r"```yaml\n(.+?)```", LIVE, flags=re.DOTALL)
    plan = resolve(Pipeline.parse(yaml.safe_load(example) | yaml.safe_load(impact)))
    assert (plan.mode, plan.continuous) == ("live", True)
    assert check_impact(plan, Settings(allowed_source_schemas=["content"])) == {
        "content.genre": plan.impact["content.genre"].strip()
    }


def test_decisions_are_numbered_without_gaps_or_doubles() -> None:
    pages = sorted((DOCS / "adr").glob("*.md"))
    assert [int(page.name[:4]) for page in pages] == list(range(1, len(pages) + 1))
    assert all(page.read_text().startswith(f"# {int(page.name[:4])}. ") for page in pages)

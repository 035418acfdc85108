"""docs/guarantees.md is true: the tests it names exist, and its numbers are the ones that were last measured."""

import json
import re
from pathlib import Path
from typing import Any

from tests.models.claims import BUGS
from tests.named import named_tests

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "guarantees.md").read_text()
NAMED = set(re.findall(r"`(tests/\S+?::\w+)`", PAGE))


def kept(name: str) -> Any:
    return json.loads((DOCS / name).read_text())


def test_every_test_that_a_promise_names_exists() -> None:
    assert len(NAMED) > 40
    assert sorted(NAMED - named_tests()) == []


def test_every_promise_names_a_test() -> None:
    parts = re.split(r"^## (.+)$", PAGE, flags=re.MULTILINE)[1:]
    assert [title for title, text in zip(parts[::2], parts[1::2], strict=True) if "::test_" not in text] == []


def test_the_counts_of_the_claim_model_are_the_ones_it_printed_last() -> None:
    model = kept("models.json")
    assert (model["runners"], model["pipelines"], model["broken"]) == (3, 2, "")
    words = " ".join(PAGE.split())
    assert f"{model['states']:,} states, {model['steps']:,} steps" in words
    assert f"{model['followed_states']:,} states, {model['followed_steps']:,} steps" in words
    assert f"Each of {len(BUGS)} seeded bugs" in words
    assert {bug for bug, found in model["bugs"].items() if found["broken"]} == set(BUGS)


def test_the_table_of_mutations_is_the_one_that_was_measured_last() -> None:
    table = {
        name: set(re.findall(r"`(.+?)`", cell)) for name, cell in re.findall(r"^\| (the .+?) \| (.+) \|$", PAGE, re.M)
    }
    assert table == {row["guard"]: set(row["caught_by"]) for row in kept("mutations.json")}

"""Failpoints: every place has a name, and a name without a place is refused."""

import re
from pathlib import Path

import pytest

import vitrina
from vitrina import failpoints

SOURCES = Path(vitrina.__file__).parent


def test_every_place_is_in_the_code_and_every_one_of_the_code_is_known() -> None:
    found = {name for file in SOURCES.rglob("*.py") for name in re.findall(r'\breach\("([^"]+)"\)', file.read_text())}
    assert found == set(failpoints.PLACES)


def test_a_place_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ValueError, match="no failpoint 'nowhere'"):
        failpoints.arm("nowhere=kill")


def test_none_is_armed_unless_the_environment_says_so() -> None:
    assert failpoints.POINTS == {}

"""Every scenario has a test, and every mark stands for a scenario."""

from tests.scenarios import SCENARIOS, marked


def test_the_list_has_no_gaps() -> None:
    assert list(SCENARIOS) == list(range(1, len(SCENARIOS) + 1))


def test_every_scenario_has_a_test() -> None:
    assert {number: SCENARIOS[number] for number in SCENARIOS.keys() - marked().keys()} == {}


def test_every_mark_stands_for_a_scenario() -> None:
    assert {number: names for number, names in marked().items() if number not in SCENARIOS} == {}

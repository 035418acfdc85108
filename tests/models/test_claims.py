"""The claim protocol holds in every state that can be reached, and the search finds what would break it."""

import pytest

from tests.models.claims import BUGS, SQL, Protocol
from tests.models.search import search
from vitrina.meta.db import queries

TRACES = {  # what breaks, and the step after which it does
    "no epoch check": ("commits a batch, and run 2 holds the pipeline", "fence"),
    "same epoch": ("both hold epoch 1", "reclaim"),
    "late renewal": ("lives again, and a successor has ended its session", "expel"),
    "blind completion": ("is completed, and it was closed before", "take over"),
    "assignment without end": ("commits a batch, and run 0 holds the pipeline", "fence"),
    "no time-out": ("it can never finish the work", "reclaim"),
}


def test_every_invariant_holds_in_every_state_of_three_runners() -> None:
    found = search(Protocol(), runners=3, pipelines=1)
    assert (found.broken, found.trace) == ("", [])
    assert found.states > 1_000


@pytest.mark.long
def test_every_invariant_holds_in_every_state_of_three_runners_and_two_pipelines() -> None:
    found = search(Protocol(), runners=3, pipelines=2)
    assert (found.broken, found.trace) == ("", [])
    assert found.states > 100_000


def test_every_invariant_holds_in_every_state_of_two_runners_and_a_pipeline_that_is_followed() -> None:
    found = search(Protocol(), runners=2, pipelines=1, live=True)
    assert (found.broken, found.trace) == ("", [])
    assert found.states > 10_000


@pytest.mark.long
def test_every_invariant_holds_in_every_state_of_three_runners_and_a_pipeline_that_is_followed() -> None:
    found = search(Protocol(), runners=3, pipelines=1, live=True)
    assert (found.broken, found.trace) == ("", [])
    assert found.states > 100_000


@pytest.mark.parametrize("bug", BUGS)
def test_a_seeded_bug_is_found_with_the_way_there(bug: str) -> None:
    found = search(Protocol(bug), runners=3, pipelines=1, live=True)
    broken, last = TRACES[bug]
    assert broken in found.broken
    assert "claim" in found.trace[0]
    assert found.trace[-1].endswith(last)


def test_each_step_of_the_model_stands_for_a_statement_of_the_code() -> None:
    for step, block in SQL.items():
        file, name = block.split(".")
        assert name in queries(file), step

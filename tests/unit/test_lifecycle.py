"""The table of transitions."""

import re
from collections import defaultdict
from pathlib import Path

from vitrina.domain.lifecycle import TRANSITIONS, Status, legal_moves


def test_every_status_can_be_reached() -> None:
    assert {new for _, new in legal_moves()} == set(Status)


def test_every_status_can_be_left_by_a_request_or_by_a_runner() -> None:
    assert {old for old, _ in legal_moves()} == set(Status)


def test_only_runners_touch_what_is_running() -> None:
    requests = {new for name in ("request_run", "request_pause") for new in TRANSITIONS[name].values()}
    assert requests == {Status.RUN_REQUESTED, Status.PAUSE_REQUESTED, Status.PAUSED, Status.RUNNING}
    assert [old for old, new in TRANSITIONS["request_run"].items() if new is Status.RUNNING] == [Status.PAUSE_REQUESTED]


def test_a_run_may_be_left_from_both_statuses_in_which_it_can_be() -> None:
    """Somebody may ask for a pause, or call it off, at the very moment at which the run ends."""
    for name in ("succeed", "pause", "fail", "hand_back", "wait", "bury"):
        assert set(TRANSITIONS[name]) - {Status.FOLLOWING} == {Status.RUNNING, Status.PAUSE_REQUESTED}, name


def test_it_is_drawn_as_it_is() -> None:
    page = (Path(__file__).parents[2] / "ARCHITECTURE.md").read_text()
    drawing = page.split("stateDiagram-v2", 1)[1].split("```", 1)[0]
    drawn = {(old, new): {*names.split(", ")} for old, new, names in re.findall(r"(\w+) --> (\w+): (.+)", drawing)}
    named = defaultdict(set)
    for name, moves in TRANSITIONS.items():
        for old, new in moves.items():
            if old != new:
                named[old.value, new.value].add(name)
    assert drawn == named

"""The table of transitions."""

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

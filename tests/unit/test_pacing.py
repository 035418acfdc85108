"""How often a mart is compared whose changes may touch any key."""

from datetime import UTC, datetime, timedelta
from typing import Any

from vitrina.engine.live.pacing import COMPARISONS, Pacing

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def after(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def compared(seconds: float, *, loaded: bool = False) -> Pacing:
    pacing = Pacing({})
    pacing.compared(seconds, NOW, loaded=loaded)
    return pacing


def test_while_changes_come_comparisons_are_kept_apart_by_a_multiple_of_their_length() -> None:
    pacing = compared(6)
    for second in range(0, int(COMPARISONS * 6), 3):
        assert not pacing.may_compare(after(second), newest=second)
        pacing.rest(after(second), newest=second)
    assert pacing.may_compare(after(COMPARISONS * 6), newest=999)


def test_once_nothing_has_come_for_the_length_of_one_the_next_is_made() -> None:
    pacing = compared(6)
    pacing.rest(after(10), newest=1)
    assert pacing.position["not_before"] == after(16).isoformat()
    assert not pacing.may_compare(after(15), newest=1)
    assert pacing.may_compare(after(16), newest=1)


def test_a_change_in_between_makes_it_wait_anew_but_never_longer_than_the_pause() -> None:
    pacing = compared(6)
    pacing.rest(after(10), newest=1)
    pacing.rest(after(16), newest=2)
    assert not pacing.may_compare(after(17), newest=2)
    assert pacing.position["not_before"] == after(22).isoformat()
    pacing.rest(after(58), newest=3)
    assert pacing.position["not_before"] == after(60).isoformat()


def test_to_have_loaded_a_mart_is_no_measure_of_comparing_it() -> None:
    assert compared(600, loaded=True).may_compare(NOW, newest=1)


def test_a_position_from_before_is_understood() -> None:
    position: dict[str, Any] = {"compare_after": after(60).isoformat()}
    pacing = Pacing(position)
    assert not pacing.may_compare(NOW, newest=1)
    pacing.rest(NOW, newest=1)
    assert position["not_before"] == after(1).isoformat()


def test_the_rate_follows_what_was_worked_off_last() -> None:
    pacing = Pacing({})
    pacing.moved(1000, 1.0)
    pacing.moved(3000, 1.0)
    assert pacing.position["rate"] == 2000


def test_a_pause_that_a_clock_set_back_would_make_longer_is_over() -> None:
    pacing = compared(6)
    assert not pacing.may_compare(after(1), newest=1)
    assert pacing.may_compare(after(-3 * 3600), newest=1)

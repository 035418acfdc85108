"""How often a mart is compared whose changes may touch any key."""

from datetime import UTC, datetime, timedelta

from vitrina.domain.positions import LivePosition
from vitrina.engine.live import pacing
from vitrina.engine.live.pacing import COMPARISONS, may_compare, moved, rest

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def after(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def compared(seconds: float, *, loaded: bool = False) -> LivePosition:
    return pacing.compared(LivePosition(), seconds, NOW, loaded=loaded)


def test_while_changes_come_comparisons_are_kept_apart_by_a_multiple_of_their_length() -> None:
    position = compared(6)
    for second in range(0, int(COMPARISONS * 6), 3):
        assert not may_compare(position, after(second), newest=second)
        position = rest(position, after(second), newest=second)
    assert may_compare(position, after(COMPARISONS * 6), newest=999)


def test_once_nothing_has_come_for_the_length_of_one_the_next_is_made() -> None:
    position = compared(6)
    position = rest(position, after(10), newest=1)
    assert position.not_before == after(16)
    assert not may_compare(position, after(15), newest=1)
    assert may_compare(position, after(16), newest=1)


def test_a_change_in_between_makes_it_wait_anew_but_never_longer_than_the_pause() -> None:
    position = compared(6)
    position = rest(position, after(10), newest=1)
    position = rest(position, after(16), newest=2)
    assert not may_compare(position, after(17), newest=2)
    assert position.not_before == after(22)
    position = rest(position, after(58), newest=3)
    assert position.not_before == after(60)


def test_to_have_loaded_a_mart_is_no_measure_of_comparing_it() -> None:
    assert may_compare(compared(600, loaded=True), NOW, newest=1)


def test_a_position_from_before_is_understood() -> None:
    position = LivePosition.parse({"live": {"compare_after": after(60).isoformat()}})
    assert not may_compare(position, NOW, newest=1)
    assert rest(position, NOW, newest=1).not_before == after(1)


def test_the_rate_follows_what_was_worked_off_last() -> None:
    assert moved(moved(LivePosition(), 1000, 1.0), 3000, 1.0).rate == 2000


def test_a_pause_that_a_clock_set_back_would_make_longer_is_over() -> None:
    position = compared(6)
    assert not may_compare(position, after(1), newest=1)
    assert may_compare(position, after(-3 * 3600), newest=1)

"""What a source at two moments tells: whether it, or its clock, has gone back."""

from typing import Any

import pytest

from vitrina.sources.continuity import Place

BEFORE: dict[str, Any] = {
    "system": "7",
    "database": 16384,
    "timeline": 1,
    "lsn": "1/A0",
    "clock": "2026-01-01T12:00:00+00:00",
    "here": "2026-01-01T12:00:00+00:00",
    "set_back": 0,
}


def why(is_local: bool = False, **now: Any) -> str:
    later = {"clock": "2026-01-01T16:00:00+00:00", "here": "2026-01-01T16:00:00+00:00", "lsn": "2/A0"}
    return Place(BEFORE | later | now).why_behind(BEFORE, is_local=is_local)


@pytest.mark.parametrize(
    ("now", "said"),
    [
        ({"system": "8"}, "another server"),
        ({"database": 5}, "made anew"),
        ({"timeline": 2}, "timeline 2, and was 1"),
        ({"lsn": "1/9F"}, "its log ends at 1/9F"),
        ({"clock": "2026-01-01T11:00:00+00:00"}, "clock was set back"),
        ({"clock": "2026-01-01T13:00:00+00:00"}, "it went on by 1:00:00 in 4:00:00"),  # it passed where it was since
    ],
)
def test_a_source_or_a_clock_that_went_back_is_told(now: dict[str, Any], said: str) -> None:
    assert said in why(**now)


@pytest.mark.parametrize(
    "now",
    [
        {},
        {"clock": "2026-01-01T15:59:10+00:00"},  # two clocks are never quite the same
        {"clock": "2026-01-01T19:00:00+00:00"},  # set forward: nothing is stamped before
        {"system": None, "timeline": None, "lsn": None},  # its role may not ask
        {"clock": "2026-01-01T13:00:00+00:00", "set_back": 1},  # it was the meta-store's clock that jumped
    ],
)
def test_what_is_none_of_it_is_not(now: dict[str, Any]) -> None:
    assert why(**now) == ""


def test_of_the_meta_stores_own_clock_runners_tell() -> None:
    assert "clock was set back" in why(is_local=True, set_back=1)
    assert why(is_local=True) == ""


def test_a_checkpoint_that_knows_no_place_yet_is_trusted() -> None:
    assert Place(BEFORE).why_behind({}, is_local=False) == ""

"""What a source at two moments tells: whether it, or its clock, has gone back."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from vitrina.domain.positions import Place
from vitrina.sources.postgres.continuity import why_behind


def at(hour: int, minute: int = 0, second: int = 0) -> datetime:
    return datetime(2026, 1, 1, hour, minute, second, tzinfo=UTC)


BEFORE = Place(16384, "7", 1, "1/A0", at(12), at(12), 0)


def why(is_local: bool = False, **now: Any) -> str:
    later = replace(BEFORE, clock=at(16), here=at(16), lsn="2/A0")
    return why_behind(replace(later, **now), BEFORE, is_local=is_local)


@pytest.mark.parametrize(
    ("now", "said"),
    [
        ({"system": "8"}, "another server"),
        ({"database": 5}, "made anew"),
        ({"timeline": 2}, "timeline 2, and was 1"),
        ({"lsn": "1/9F"}, "its log ends at 1/9F"),
        ({"clock": at(11)}, "clock was set back"),
        ({"clock": at(13)}, "it went on by 1:00:00 in 4:00:00"),  # it passed where it was since
    ],
)
def test_a_source_or_a_clock_that_went_back_is_told(now: dict[str, Any], said: str) -> None:
    assert said in why(**now)


@pytest.mark.parametrize(
    "now",
    [
        {},
        {"clock": at(15, 59, 10)},  # two clocks are never quite the same
        {"clock": at(19)},  # set forward: nothing is stamped before
        {"system": None, "timeline": None, "lsn": None},  # its role may not ask
        {"clock": at(13), "set_back": 1},  # it was the meta-store's clock that jumped
    ],
)
def test_what_is_none_of_it_is_not(now: dict[str, Any]) -> None:
    assert why(**now) == ""


def test_of_the_meta_stores_own_clock_runners_tell() -> None:
    assert "clock was set back" in why(is_local=True, set_back=1)
    assert why(is_local=True) == ""


def test_a_checkpoint_that_knows_no_place_yet_is_trusted() -> None:
    assert why_behind(BEFORE, Place(), is_local=False) == ""

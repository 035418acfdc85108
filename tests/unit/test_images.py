"""Which columns the log keeps, for whom."""

import pytest

from vitrina.capture.changes import Columns
from vitrina.capture.images import suffices, together

GENRE, TWO = {"g": ["id"]}, {"g": ["id", "name"], "f": ["id"]}


@pytest.mark.parametrize(
    ("kept", "wanted", "is_enough"),
    [
        (None, None, True),
        (None, TWO, True),
        (TWO, None, False),
        (TWO, GENRE, True),
        (GENRE, TWO, False),
        (GENRE, {"f": []}, True),
        ({}, GENRE, False),
    ],
)
def test_what_is_kept_is_enough_or_not(kept: Columns | None, wanted: Columns | None, is_enough: bool) -> None:
    assert suffices(kept, wanted) == is_enough


def test_what_is_enough_for_all() -> None:
    assert together([GENRE, {"g": ["name"]}, {"f": ["id"]}]) == TWO
    assert together([{"f": []}]) == {"f": []}


def test_one_who_does_not_say_needs_everything_and_so_does_nobody() -> None:
    assert together([GENRE, None]) is None
    assert together([]) is None

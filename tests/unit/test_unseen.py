"""What has arrived in an index and is not seen by a search yet."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from vitrina.domain.positions import FullPosition, LivePosition
from vitrina.sinks.documents.unseen import Unseen
from vitrina.sinks.search.shape import REFRESH_TAKES, IndexShape

AT = datetime(2026, 11, 19, 12, tzinfo=UTC)
LATER = AT + timedelta(seconds=3)


def applied(committed: datetime) -> LivePosition:
    return LivePosition(source="w", committed_at=committed, applied_at=committed + timedelta(seconds=1))


def test_the_oldest_change_that_a_search_may_lack_is_told_until_it_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    unseen = Unseen.of(2.0, None, AT)
    first = unseen.note(applied(AT), 0.5, sent=True)
    assert isinstance(first, LivePosition)
    assert (first.unseen_from, first.unseen_until) == (AT, AT + timedelta(seconds=3.5))
    assert [first.is_unseen(AT + timedelta(seconds=n)) for n in (3, 4)] == [True, False]
    clock[0] += 1
    second = unseen.note(applied(LATER), 0, sent=True)
    assert isinstance(second, LivePosition)
    assert second.unseen_from == AT
    clock[0] += 1.5
    third = unseen.note(replace(second), 0, sent=False)
    assert isinstance(third, LivePosition)
    assert third.unseen_from == LATER
    clock[0] += 1
    last = unseen.note(third, 0, sent=False)
    assert isinstance(last, LivePosition)
    assert (last.unseen_from, last.unseen_until) == (None, None)


def test_what_is_never_shown_by_itself_stays_unseen_whoever_follows() -> None:
    unseen = Unseen.of(None, None, AT)
    for _ in range(3):
        found = unseen.note(applied(AT), 0, sent=True)
    assert isinstance(found, LivePosition)
    assert (found.unseen_from, found.unseen_until, found.is_unseen(LATER), len(unseen.arrived)) == (AT, None, True, 1)
    again = Unseen.of(None, found, LATER).note(applied(LATER), 0, sent=True)
    assert isinstance(again, LivePosition)
    assert again.unseen_from == AT


def test_whoever_goes_on_knows_what_is_not_seen_yet_and_forgets_what_is() -> None:
    before = replace(applied(AT), unseen_from=AT, unseen_until=LATER)
    for now, since in ((AT, AT), (LATER, LATER)):
        found = Unseen.of(2.0, before, now).note(applied(LATER), 0, sent=True)
        assert isinstance(found, LivePosition)
        assert found.unseen_from == since


def test_other_positions_are_as_they_were() -> None:
    assert Unseen.of(1.0, None, AT).note(FullPosition(), 0, sent=True) == FullPosition()
    assert Unseen.of(1.0, None, AT).note(None, 0, sent=True) is None


@pytest.mark.parametrize(
    ("interval", "seconds"), [(None, 1.0), ("30s", 30.0), ("500ms", 0.5), ("2m", 120.0), ("-1", None), (-1, None)]
)
def test_it_takes_as_long_as_the_index_says(interval: str | int | None, seconds: float | None) -> None:
    settings = {} if interval is None else {"refresh_interval": interval}
    shape = IndexShape((), (), (), {}, settings)
    assert shape.seen_after == (None if seconds is None else seconds + REFRESH_TAKES)

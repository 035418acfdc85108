"""How far a run is: nothing is said before it has been measured."""

from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

from vitrina.control.services.progress import measure, rate_of
from vitrina.domain.events import Measured, Said

START = datetime(2026, 1, 1, tzinfo=UTC)


def event(second: float, name: str = "loaded", **fields: Any) -> Said:
    at = START + timedelta(seconds=second)
    return {"id": 1, "level": "info", "event": name, "at": at, "fields": cast(Measured, fields)}


def test_nothing_is_known_before_anything_is_said() -> None:
    progress = measure([])
    assert (progress.phase, progress.share, progress.rate, progress.eta_seconds) == ("", None, None, None)


def test_one_batch_tells_how_far_and_not_how_fast() -> None:
    progress = measure([event(0, "started"), event(1, done=1, of=10, rows_written=100)])
    assert (progress.share, progress.rate, progress.eta_seconds) == (0.1, None, None)


def test_two_batches_tell_the_pace_and_what_is_left() -> None:
    progress = measure([event(1, done=1, of=10, rows_written=100), event(3, done=3, of=10, rows_written=400)])
    assert (progress.rate, progress.eta_seconds) == (200, 7)


def test_the_comparison_does_not_count_as_a_batch_that_was_written() -> None:
    events = [event(0, "compared", rows_read=1_000_000), event(1, "written", done=5, of=20, rows_written=5)]
    assert measure(events).rate == 5
    assert measure(events).eta_seconds is None


def test_another_phase_is_measured_anew() -> None:
    events = [event(0, "loaded", done=1, of=2), event(1, "loaded", done=2, of=2), event(9, "deleted", done=1, of=50)]
    progress = measure(events)
    assert (progress.phase, progress.done, progress.of, progress.eta_seconds) == ("deleted", 1, 50, None)


def test_only_the_last_batches_count() -> None:
    slow = [event(n * 100, done=n, of=1_000, rows_written=1) for n in range(10)]
    fast = [event(1_000 + n, done=10 + n, of=1_000, rows_written=10) for n in range(30)]
    assert measure(slow + fast).rate == pytest.approx(10)


def test_the_rate_of_a_run_is_over_all_of_it() -> None:
    run = {"rows_read": 100, "rows_written": 30, "rows_deleted": 0, "started_at": START, "finished_at": None}
    assert rate_of(run, START + timedelta(seconds=50)) == 2
    assert rate_of(run | {"rows_read": 0, "rows_written": 0}, START) is None

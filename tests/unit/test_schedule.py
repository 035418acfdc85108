"""When a pipeline is due."""

from datetime import UTC, datetime, timedelta

import pytest

from vitrina.domain.errors import ConfigError
from vitrina.domain.schedule import check_schedule, next_due

NOON = datetime(2026, 3, 28, 12, 0, tzinfo=UTC)


def due(schedule: str, now: datetime = NOON, last: datetime | None = None) -> datetime:
    return next_due(schedule, now, last).astimezone(UTC)


@pytest.mark.parametrize(
    ("schedule", "seconds"),
    [("30s", 30), ("5m", 300), ("1h", 3600), ("1d", 86400), (" 2 h ", 7200), ("366d", 31622400)],
)
def test_a_duration_counts_from_the_last_due_time(schedule: str, seconds: int) -> None:
    assert due(schedule, NOON, NOON) == NOON + timedelta(seconds=seconds)


def test_a_duration_that_never_ran_is_due_at_once() -> None:
    assert due("1h") == NOON


def test_late_runs_do_not_shift_the_grid() -> None:
    assert due("1h", NOON + timedelta(minutes=17), NOON) == NOON + timedelta(hours=1)


def test_missed_durations_are_not_made_up_one_by_one() -> None:
    assert due("1m", NOON + timedelta(minutes=90, seconds=5), NOON) == NOON + timedelta(minutes=91)


def test_a_clock_that_was_set_back_does_not_repeat_a_due_time() -> None:
    assert due("1m", NOON - timedelta(hours=1), NOON) == NOON + timedelta(minutes=1)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("*/5 * * * *", datetime(2026, 3, 28, 12, 5, tzinfo=UTC)),
        ("0 3 * * *", datetime(2026, 3, 29, 3, 0, tzinfo=UTC)),
        ("0 0 * * mon", datetime(2026, 3, 30, tzinfo=UTC)),
        ("0 0 29 2 *", datetime(2028, 2, 29, tzinfo=UTC)),
        ("TZ=Europe/Moscow 0 16 * * *", datetime(2026, 3, 28, 13, 0, tzinfo=UTC)),
        ("CRON_TZ=Asia/Tokyo 0 9 * * *", datetime(2026, 3, 29, 0, 0, tzinfo=UTC)),
    ],
)
def test_a_cron_line_names_the_next_time_after_now(line: str, expected: datetime) -> None:
    assert due(line) == expected


def test_cron_is_due_strictly_after_now_so_no_time_comes_twice() -> None:
    assert due("0 12 * * *", NOON) == NOON + timedelta(days=1)


def test_a_time_that_the_clock_skips_in_spring_still_comes_once() -> None:
    first = due("TZ=Europe/Berlin 30 2 * * *", NOON)
    second = due("TZ=Europe/Berlin 30 2 * * *", first)
    assert (first, second) == (
        datetime(2026, 3, 29, 1, 0, tzinfo=UTC),
        datetime(2026, 3, 30, 0, 30, tzinfo=UTC),
    )


def test_a_time_that_comes_twice_in_autumn_is_due_once() -> None:
    first = due("TZ=Europe/Berlin 30 2 * * *", datetime(2026, 10, 24, 12, 0, tzinfo=UTC))
    second = due("TZ=Europe/Berlin 30 2 * * *", first)
    assert second - first > timedelta(hours=23)


def test_every_minute_goes_on_through_both_changes_of_the_clock() -> None:
    for start in (datetime(2026, 3, 29, 0, 55, tzinfo=UTC), datetime(2026, 10, 25, 0, 55, tzinfo=UTC)):
        moment = start
        for minute in range(1, 80):
            moment = due("TZ=Europe/Berlin * * * * *", moment)
            assert moment == start + timedelta(minutes=minute)


@pytest.mark.parametrize(
    ("schedule", "message"),
    [
        ("", "neither a duration nor a cron line"),
        ("soon", "neither a duration nor a cron line"),
        ("5x", "neither a duration nor a cron line"),
        ("1h30m", "neither a duration nor a cron line"),
        ("-5m", "neither a duration nor a cron line"),
        ("61 * * * *", "neither a duration nor a cron line"),
        ("0 0 30 2 *", "neither a duration nor a cron line"),
        ("0s", "outside 1 second to 366 days"),
        ("367d", "outside 1 second to 366 days"),
        ("9" * 5_000 + "s", "neither a duration nor a cron line"),
        ("TZ=Europe/Atlantis * * * * *", "unknown time zone 'Europe/Atlantis'"),
        ("TZ=Europe * * * * *", "unknown time zone 'Europe'"),
        ("TZ=../../etc/passwd * * * * *", "unknown time zone"),
        ("TZ=\x00 * * * * *", "unknown time zone"),
    ],
)
def test_a_bad_schedule_is_explained(schedule: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        check_schedule(schedule)

"""When a pipeline is due: a duration (`30s`, `5m`, `1h`, `1d`) or a cron line, optionally `TZ=Europe/Moscow …`."""

import math
import re
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from vitrina.domain.errors import ConfigError
from vitrina.domain.refusals import Refusal

UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
DURATION = re.compile(r"(\d{1,9})\s*([smhd])")
ZONED = re.compile(r"(?:CRON_)?TZ=(\S+)\s+(.+)")


def next_due(schedule: str, now: datetime, last_due: datetime | None) -> datetime:
    """The first due time after the last one; what was missed meanwhile is made up for by a single run."""
    duration = DURATION.fullmatch(schedule.strip())
    if duration:
        return _next_multiple(_seconds("schedule_interval", duration), now, last_due)
    return _next_cron(schedule.strip(), now)


def check_schedule(schedule: str) -> None:
    """Raise a ConfigError that says what a schedule looks like."""
    next_due(schedule, datetime.now(ZoneInfo("UTC")), None)


def check_duration(field: str, text: str) -> None:
    """Raise a ConfigError that says what a duration looks like."""
    duration = DURATION.fullmatch(text.strip())
    if duration is None:
        raise ConfigError.of(Refusal.NO_DURATION, field=field, text=text)
    _seconds(field, duration)


def _seconds(field: str, duration: re.Match[str]) -> int:
    seconds = int(duration[1]) * UNITS[duration[2]]
    if not 1 <= seconds <= 366 * 86400:
        raise ConfigError.of(Refusal.DURATION_OUTSIDE, field=field, duration=duration[0])
    return seconds


def _next_multiple(seconds: int, now: datetime, last_due: datetime | None) -> datetime:
    if last_due is None:
        return now
    steps = max(1, math.floor((now - last_due).total_seconds() / seconds) + 1)
    return last_due + timedelta(seconds=seconds * steps)


def split_zone(schedule: str) -> tuple[str, str]:
    """The zone of a cron line, empty if it names none, and the rest."""
    zoned = ZONED.fullmatch(schedule.strip())
    return (zoned[1], zoned[2]) if zoned else ("", schedule)


def joined_zone(zone: str, schedule: str) -> str:
    """A cron line in a zone; a duration has none."""
    is_bare_cron = not DURATION.fullmatch(schedule.strip()) and not split_zone(schedule)[0]
    return f"TZ={zone} {schedule}" if zone and is_bare_cron else schedule


def _next_cron(schedule: str, now: datetime) -> datetime:
    named, line = split_zone(schedule)
    zone = named or "UTC"
    try:
        return next(CronSim(line, now.astimezone(ZoneInfo(zone))))
    except (CronSimError, StopIteration):
        raise ConfigError.of(Refusal.NO_SCHEDULE, schedule=schedule) from None
    except (KeyError, ValueError, OSError):
        raise ConfigError.of(Refusal.NO_TIME_ZONE, schedule=schedule, zone=zone) from None

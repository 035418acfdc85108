"""How often a mart is compared whose changes may touch any key, and how fast one catches up that is behind.

While its tables keep changing, comparisons are kept apart by a multiple of what one takes, with the run that begins for
it. Once nothing has come for as long as one takes, the next is made: however long the pause would still be, the mart
is equal one comparison later.
All of it is kept in the position, so that it holds across runs and can be shown. Times are the meta-store's.
"""

from dataclasses import replace
from datetime import datetime, timedelta

from vitrina.domain.positions import LivePosition, Seen

COMPARISONS = 10.0  # between two comparisons there is at least this many times the length of one, in seconds
QUIET_SECONDS = 1.0  # the tables are quiet if nothing has come for this long at least
SMOOTH = 0.5  # how much the latest slice says about how fast it goes


def compared(position: LivePosition, seconds: float, now: datetime, *, loaded: bool) -> LivePosition:
    """Everything was compared, which took so long. To have loaded an empty mart tells nothing of comparing."""
    pause = timedelta(seconds=0.0 if loaded else COMPARISONS * seconds)
    return replace(position, compare_after=now + pause, compare_seconds=round(seconds, 3), seen=None)


def may_compare(position: LivePosition, now: datetime, newest: int) -> bool:
    """Whether the pause is over, or it is quiet; `newest` is the last change of its tables."""
    after, seen = position.compare_after, position.seen
    if after is None or now >= after or _was_set_back(position, after, now):
        return True
    return seen is not None and seen.id == newest and now >= seen.at + _quiet(position)


def rest(position: LivePosition, now: datetime, newest: int) -> LivePosition:
    """Not now. It looks again when the pause is over, or when it could have become quiet."""
    seen = position.seen if position.seen and position.seen.id == newest else Seen(newest, now)
    quiet_at = max(seen.at + _quiet(position), now)
    return replace(position, seen=seen, not_before=min(position.compare_after or quiet_at, quiet_at))


def moved(position: LivePosition, changes: int, seconds: float) -> LivePosition:
    """So many changes of the log were worked off in this time."""
    rate, before = changes / max(seconds, 0.001), position.rate
    return replace(position, rate=round(rate if before is None else SMOOTH * rate + (1 - SMOOTH) * before, 1))


def _was_set_back(position: LivePosition, after: datetime, now: datetime) -> bool:
    """Whether the pause is longer than any: the clock has gone back since."""
    seconds = position.compare_seconds
    return seconds is not None and after - now > timedelta(seconds=COMPARISONS * seconds + QUIET_SECONDS)


def _quiet(position: LivePosition) -> timedelta:
    return timedelta(seconds=max(position.compare_seconds or 0.0, QUIET_SECONDS))

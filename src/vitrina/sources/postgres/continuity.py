"""Whether a cursor still means what it meant.

The source may have been restored, may have failed over to a server that lacks the last transactions, or a clock may
have been set back. Rows that come then are stamped before the checkpoint.
"""

from datetime import timedelta

from vitrina.capture.positions import parse_lsn
from vitrina.domain.positions import Place
from vitrina.domain.reasons import Reason
from vitrina.meta.db import Connection, fetch_all, queries
from vitrina.meta.repos.clock import Clock

SQL = queries("horizon")
LEEWAY = timedelta(minutes=1)  # between two clocks; more than the time between two looks
DRIFT = 1000  # and so much of the time that has passed: two clocks may differ by a part in a thousand


def take_place(conn: Connection, clock: Clock) -> Place:
    """Of a source as it is now; what its role may not ask is not known."""
    may = fetch_all(conn, SQL["may_place"])[0]["may"]
    known = fetch_all(conn, SQL["place" if may else "bare_place"])[0]
    return Place(**known, here=clock.now, set_back=clock.set_back)


def why_behind(now: Place, before: Place, *, is_local: bool) -> str:
    """Why it is not the same place later on; empty if it is, or if nothing was known before."""
    return _why_elsewhere(now, before) or _why_clock(now, before, is_local=is_local)


def _why_elsewhere(now: Place, before: Place) -> str:
    for reason, here, there in (
        (Reason.SERVER_REPLACED, now.system, before.system),
        (Reason.DATABASE_REMADE, now.database, before.database),
        (Reason.FAILED_OVER, now.timeline, before.timeline),
    ):
        if here is not None and there is not None and here != there:
            return reason.of(now=here, before=there)
    if now.lsn and before.lsn and parse_lsn(now.lsn) < parse_lsn(before.lsn):
        return Reason.LOG_SET_BACK.of(now=now.lsn, before=before.lsn)
    return ""


def _why_clock(now: Place, before: Place, *, is_local: bool) -> str:
    """By the clock itself; else by who watches it, if it is the meta-store's, or beside the meta-store's."""
    if now.clock is None or before.clock is None:
        return ""
    if now.clock < before.clock:
        return Reason.CLOCK_SET_BACK.of(now=str(now.clock), before=str(before.clock))
    watched = now.set_back == before.set_back
    if is_local or now.here is None or before.here is None:
        return "" if watched else Reason.CLOCK_SET_BACK_SINCE.of()
    passed, went_on = now.here - before.here, now.clock - before.clock
    if watched and passed - went_on > LEEWAY + passed / DRIFT:
        return Reason.CLOCK_SLOW.of(went_on=str(went_on), passed=str(passed))
    return ""

"""Whether a cursor still means what it meant.

The source may have been restored, may have failed over to a server that lacks the last transactions, or a clock may
have been set back. Rows that come then are stamped before the checkpoint.
"""

from datetime import timedelta

from vitrina.capture.positions import parse_lsn
from vitrina.domain.positions import Place
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
    for said, here, there in (
        ("the source is another server now: system identifier", now.system, before.system),
        ("the source's database was made anew: oid", now.database, before.database),
        ("the source has failed over or was restored: timeline", now.timeline, before.timeline),
    ):
        if here is not None and there is not None and here != there:
            return f"{said} {here}, and was {there}"
    if now.lsn and before.lsn and parse_lsn(now.lsn) < parse_lsn(before.lsn):
        return f"the source was set back: its log ends at {now.lsn}, and was at {before.lsn}"
    return ""


def _why_clock(now: Place, before: Place, *, is_local: bool) -> str:
    """By the clock itself; else by who watches it, if it is the meta-store's, or beside the meta-store's."""
    if now.clock is None or before.clock is None:
        return ""
    if now.clock < before.clock:
        return f"the source's clock was set back: it is {now.clock}, and was {before.clock}"
    watched = now.set_back == before.set_back
    if is_local or now.here is None or before.here is None:
        return "" if watched else "the source's clock was set back since"
    passed, went_on = now.here - before.here, now.clock - before.clock
    if watched and passed - went_on > LEEWAY + passed / DRIFT:
        return f"the source's clock was set back: it went on by {went_on} in {passed}"
    return ""

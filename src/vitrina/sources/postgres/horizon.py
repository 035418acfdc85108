"""The safe horizon of an incremental window: a row whose transaction commits late must not be skipped.

Three statements, each with a snapshot of its own, in this order: the oldest open transaction, prepared
transactions, then the data. Taken together in one statement, or in one snapshot, they lose rows.
"""

from datetime import timedelta

from vitrina.domain.errors import ConfigError
from vitrina.domain.reasons import Reason
from vitrina.domain.source_refusals import SourceRefusal
from vitrina.domain.wording import Because
from vitrina.meta.db import Connection, fetch_all, fetch_one, queries
from vitrina.meta.refusals import quoted
from vitrina.meta.services import find_service
from vitrina.sources.source import Horizon

SQL = queries("horizon")


def take_horizon(conn: Connection, margin: timedelta) -> Horizon:
    """The moment before which every transaction has ended, less the margin; in autocommit, outside any transaction.

    There is none while a transaction is prepared, or open since before the clock was set back: what it writes may be
    stamped with any time.
    """
    _check_sight(conn)
    row = fetch_one(conn, SQL["oldest"])
    assert row is not None
    if row["blind"]:
        raise _blind(conn, Reason.HIDDEN_FROM_IT.of())
    if row["untracked"]:
        raise ConfigError.of(SourceRefusal.SESSION_UNTRACKED, role=row["untracked"])
    prepared = fetch_one(conn, SQL["prepared"])
    if prepared:
        return Horizon(None, row["now"], prepared)
    if row["ahead"]:
        return Horizon(None, row["now"], row["holder"])
    holder = row["holder"] if row["at"] < row["now"] else None
    return Horizon(row["at"] - margin, row["now"], holder)


def _check_sight(conn: Connection) -> None:
    sight = fetch_all(conn, SQL["sight"])[0]
    if sight["standby"]:
        raise ConfigError.of(SourceRefusal.STANDBY_HORIZON)
    if not sight["track_activities"]:
        raise ConfigError.of(SourceRefusal.UNTRACKED)
    if not sight["sees_all"]:
        raise _blind(conn, Reason.LACKS_STATS.of())


def _blind(conn: Connection, reason: Because) -> ConfigError:
    role, who = conn.info.user, find_service(conn).administrator
    return ConfigError.of(SourceRefusal.BLIND, role=role, reason=reason, grantee=quoted(role), who=who)

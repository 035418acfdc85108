"""The safe horizon of an incremental window: a row whose transaction commits late must not be skipped.

Three statements, each with a snapshot of its own, in this order: the oldest open transaction, prepared
transactions, then the data. Taken together in one statement, or in one snapshot, they lose rows.
"""

from datetime import timedelta

from vitrina.domain.errors import ConfigError
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
        raise _blind(conn, "another session's transaction is hidden from it")
    if row["untracked"]:
        raise ConfigError(
            f"track_activities is off in a session of {row['untracked']}, so its transactions cannot be seen",
            "turn it on for that role",
        )
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
        raise ConfigError(
            "the source is a standby, which does not show the primary's open transactions", "use mode: full"
        )
    if not sight["track_activities"]:
        raise ConfigError("track_activities is off at the source, so open transactions cannot be seen", "turn it on")
    if not sight["sees_all"]:
        raise _blind(conn, "it lacks pg_read_all_stats")


def _blind(conn: Connection, reason: str) -> ConfigError:
    role, who = conn.info.user, find_service(conn).administrator
    said = f"{role}, who reads, cannot see other sessions' transactions ({reason}): the safe horizon is unknown"
    return ConfigError(said, f"GRANT pg_read_all_stats TO {quoted(role)}, as {who}; or use mode: full")

"""What both kinds ask of a source: which server it is, and what its relations look like."""

from collections.abc import Sequence

from psycopg.rows import DictRow

from vitrina.capture.changes import ContinuityLost
from vitrina.capture.positions import Snapshot, parse_lsn
from vitrina.meta.db import Connection, fetch_all, fetch_one, queries
from vitrina.meta.repos.captures import Capture

SQL = queries("capture_source")


def place(conn: Connection) -> DictRow:
    """System identifier, timeline, snapshot and position of the server."""
    row = fetch_one(conn, SQL["place"])
    assert row is not None
    return row


def check_place(conn: Connection, capture: Capture) -> None:
    """The capture's position means something here; ContinuityLost after a failover or a restore."""
    here = place(conn)
    if (here["system_identifier"], here["timeline"]) != (capture.system_identifier, capture.timeline):
        raise ContinuityLost(
            f"the source is another server now: {here['system_identifier']}, timeline {here['timeline']};"
            f" before: {capture.system_identifier}, timeline {capture.timeline}"
        )
    position = capture.position or ""
    if capture.kind == "wal":
        behind = parse_lsn(here["lsn"]) < parse_lsn(position)
    else:
        behind = Snapshot.parse(here["snapshot"]).xmax < Snapshot.parse(position).xmax
    if behind:
        raise ContinuityLost(f"the source was set back to before {position}")


def fingerprints(conn: Connection, capture: Capture, tables: Sequence[str] | None = None) -> dict[str, str]:
    """By relation, what changes when it is rewritten or altered; one that does not exist has none."""
    params = {"tables": list(capture.tables if tables is None else tables), "publication": capture.publication}
    return {row["name"]: row["print"] for row in fetch_all(conn, SQL["fingerprints"], params) if row["print"]}

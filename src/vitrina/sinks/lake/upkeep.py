"""What tables need whom no run writes just now: few files instead of many, no old snapshots, nothing that nobody knows.

    alone → files → still at rest, and nobody has run meanwhile → the pointer

All in one transaction, whose lock ends with its session: who was lost commits nothing. One that stood still and goes on
finds another epoch, or the pointer elsewhere. A table that is followed is looked after by who follows it.
"""

from dataclasses import dataclass
from uuid import UUID

from vitrina.domain.errors import VitrinaError
from vitrina.failpoints import reach
from vitrina.log import log
from vitrina.meta.db import Connection, fetch_all, fetch_one, translated
from vitrina.metrics.events import LAKE_REMOVED, LAKE_SPARED
from vitrina.settings import Settings
from vitrina.sinks.lake import catalogue
from vitrina.sinks.lake.catalogue import SQL
from vitrina.sinks.lake.extra import iceberg
from vitrina.sinks.lake.place import Place
from vitrina.sinks.lake.store import LakeStore

DAY = 86_400.0


@dataclass(frozen=True)
class Resting:
    """A table that is served, of a pipeline that no runner has; `epoch` tells whether one has had it since."""

    pipeline_id: UUID
    name: str
    target: str
    index: str
    uuid: str
    epoch: int

    def is_ours(self, conn: Connection) -> bool:
        """Whether nobody else looks after it, until the transaction ends."""
        row = fetch_one(conn, SQL["alone"], {"pipeline_id": self.pipeline_id})
        return bool(row and row["ours"])

    def still_rests(self, conn: Connection) -> bool:
        """Whether no run has begun; none does until the transaction ends."""
        params = {"pipeline_id": self.pipeline_id, "epoch": self.epoch}
        return fetch_one(conn, SQL["still_at_rest"], params) is not None


def keep_up(conn: Connection, settings: Settings) -> None:
    """One table after the other; what goes wrong with one is said, and tried again by the next turn."""
    for row in fetch_all(conn, SQL["at_rest"]):
        resting = Resting(**row)
        try:
            with translated(), conn.transaction():
                if resting.is_ours(conn):
                    _keep_up(conn, settings, resting)
        except VitrinaError as error:
            log.warning("a table of the lake is left as it is", pipeline=resting.name, reason=error.message)


def _keep_up(conn: Connection, settings: Settings, resting: Resting) -> None:
    iceberg()
    store = LakeStore(Place.of(settings), resting.pipeline_id, resting.target, None)
    store.look(conn)
    table = store.tables.get(resting.index)
    if store.serving != resting.index or table is None or table.id != resting.uuid or not table.is_ours:
        return
    with store.place.reaching():
        old, before = table.location, table.files_count
        new = table.tidied(settings.lake_snapshot_days * DAY, settings.lake_least_small)
        left = iceberg().unused(table, settings.lake_unused_seconds)
    reach("lake kept")
    if not resting.still_rests(conn):
        return
    if new:  # what nobody knows any more goes by the next turn: this one may still come to nothing
        catalogue.move(conn, store.served_at, old, new)
        _say(resting, files=table.files_count, before=before)
        LAKE_SPARED.inc(max(before - table.files_count, 0))
    elif left:
        with store.place.reaching():
            iceberg().delete(table, left)
        _say(resting, removed=len(left))
        LAKE_REMOVED.inc(len(left))


def _say(resting: Resting, **fields: int) -> None:
    log.info("a table of the lake was tidied", pipeline=resting.name, target=resting.target, **fields)

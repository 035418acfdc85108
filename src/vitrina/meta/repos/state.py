"""The checkpoint row: the fence of every batch."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from psycopg.rows import DictRow
from psycopg.types.json import Jsonb

from vitrina.domain.errors import LeaseLost
from vitrina.domain.lifecycle import Status
from vitrina.domain.positions import IncrementalPosition, Position
from vitrina.meta.db import Connection, fetch_one, queries

SQL = queries("state")


@dataclass(frozen=True)
class Checkpoint:
    """What a committed batch leaves behind for the next, in this run or another."""

    position: Position | None
    columns: dict[str, Any]
    config_hash: str | None


@dataclass(frozen=True)
class Fenced:
    """What was asked of the run meanwhile: a pause shows in the status, a reload names the version to take."""

    status: Status
    reload_version: int | None


@dataclass(frozen=True)
class StateRepo:
    """Table `etl_state`."""

    conn: Connection

    def fence(self, pipeline_id: UUID, epoch: int, seq: int, checkpoint: Checkpoint) -> Fenced:
        """Move the checkpoint if the lease is still ours; the last statement before COMMIT."""
        position = checkpoint.position
        cursor = position if isinstance(position, IncrementalPosition) else IncrementalPosition()
        params = {
            "pipeline_id": pipeline_id,
            "epoch": epoch,
            "seq": seq,
            "checkpoint": Jsonb(position.dump()) if position is not None else None,
            "value": cursor.value,  # these two for people
            "id": cursor.id,
            "columns": Jsonb(checkpoint.columns),
            "config_hash": checkpoint.config_hash,
        }
        row = fetch_one(self.conn, SQL["fence"], params)
        if row is None:
            raise LeaseLost("another runner has taken over, or the pipeline is gone: nothing of this batch is kept")
        return Fenced(Status(row["status"]), row["reload_version"])

    def is_held(self, pipeline_id: UUID, epoch: int) -> bool:
        """Whether nobody has taken over since."""
        row = self.get(pipeline_id)
        return row is not None and row["epoch"] == epoch

    def config(self, pipeline_id: UUID, version: int) -> dict[str, Any]:
        """The configuration at some version."""
        row = fetch_one(self.conn, SQL["config"], {"pipeline_id": pipeline_id, "version": version})
        return dict(row["config"]) if row else {}

    def get(self, pipeline_id: UUID) -> DictRow | None:
        """The whole row."""
        return fetch_one(self.conn, SQL["get"], {"pipeline_id": pipeline_id})

    def written(self, pipeline_id: UUID, target: str) -> dict[str, str]:
        """The columns that runs have written to a target, with their types."""
        return written_to(target, (self.get(pipeline_id) or {}).get("columns"))


def written_to(target: str, columns: Mapping[str, Any] | None) -> dict[str, str]:
    """The same, from what is stored: also under another configuration, which is what drift is."""
    known = columns or {}
    return dict(known["types"]) if known.get("target") == target else {}

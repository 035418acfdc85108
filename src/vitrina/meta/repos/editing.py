"""Editing pipelines: locked, replaced, deleted, audited, all in the caller's transaction."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from psycopg.rows import DictRow
from psycopg.types.json import Jsonb

from vitrina.domain.pipeline import Pipeline
from vitrina.meta.db import Connection, fetch_all, fetch_one, queries, translated
from vitrina.meta.repos.pipelines import REPLACE, StoredPipeline, columns
from vitrina.meta.repos.pipelines import SQL as PIPELINES

SQL = queries("editing")


@dataclass(frozen=True)
class EditingRepo:
    """Tables `etl_pipelines`, `etl_pipeline_tasks`, `etl_audit` and `etl_idempotency`, for the control plane."""

    conn: Connection

    def lock(self, which: str) -> StoredPipeline | None:
        """The pipeline, held until the transaction ends."""
        row = fetch_one(self.conn, SQL["lock"], {"which": which})
        return StoredPipeline.from_row(row) if row else None

    def replace(self, pipeline: Pipeline) -> None:
        """Write every field and task anew; a trigger makes it a version if anything changed."""
        with translated():
            self.conn.execute(REPLACE, columns(pipeline))
            self.conn.execute(SQL["drop_tasks"], {"id": pipeline.id})
            for task in pipeline.tasks:
                self.conn.execute(PIPELINES["add_task"], task.model_dump() | {"pipeline_id": pipeline.id})

    def delete(self, pipeline_id: UUID) -> bool:
        """False if it is running."""
        return fetch_one(self.conn, SQL["delete"], {"id": pipeline_id}) is not None

    def set_enabled(self, pipeline_id: UUID, enabled: bool) -> bool:
        """False if it was so already."""
        return fetch_one(self.conn, SQL["set_enabled"], {"id": pipeline_id, "enabled": enabled}) is not None

    def reload(self, pipeline_id: UUID) -> int | None:
        """Let the running run take the present version; None if it is not running."""
        row = fetch_one(self.conn, SQL["reload"], {"id": pipeline_id})
        return int(row["version"]) if row else None

    def page(self, **filters: Any) -> list[StoredPipeline]:
        """One page of the list, by name."""
        return [StoredPipeline.from_row(row) for row in fetch_all(self.conn, SQL["page"], filters)]

    def labelled(self, labels: Sequence[str]) -> list[DictRow]:
        """Which have all of these labels, by name."""
        return fetch_all(self.conn, SQL["labelled"], {"labels": list(labels)})

    def audit(self, actor: str, action: str, pipeline_id: UUID | None, details: dict[str, Any]) -> None:
        """Who did what; in the transaction of the change itself."""
        params = {"actor": actor, "action": action, "pipeline_id": pipeline_id, "details": Jsonb(details)}
        with translated():
            self.conn.execute(SQL["audit"], params)

    def audit_refusal(self, action: str, details: dict[str, Any]) -> None:
        """Somebody was not let in; of a flood of them only the first of each minute are kept."""
        with translated():
            self.conn.execute(SQL["audit_refusal"], {"action": action, "details": Jsonb(details)})

    def remember(self, key: str, pipeline_id: UUID, answer: dict[str, Any]) -> bool:
        """Keep the answer to an Idempotency-Key; False if it was used meanwhile."""
        params = {"key": key, "pipeline_id": pipeline_id, "answer": Jsonb(answer)}
        return fetch_one(self.conn, SQL["remember"], params) is not None

    def remembered(self, key: str) -> DictRow | None:
        """The answer that was given to this key within a day."""
        with translated():
            self.conn.execute(SQL["forget"])
        return fetch_one(self.conn, SQL["remembered"], {"key": key})

    def versions(self, pipeline_id: UUID, limit: int) -> list[DictRow]:
        """The configuration over time, newest first."""
        return fetch_all(self.conn, SQL["versions"], {"id": pipeline_id, "limit": limit})

    def version(self, pipeline_id: UUID, version: int) -> DictRow | None:
        """The configuration as it was; None: there was no such version, or it is forgotten."""
        return fetch_one(self.conn, SQL["version"], {"id": pipeline_id, "version": version})

    def holders(self, name: str, targets: Sequence[str], but: UUID | None) -> list[DictRow]:
        """Other pipelines that have a name already, or write to one of these targets."""
        return fetch_all(self.conn, SQL["holders"], {"name": name, "targets": list(targets), "but": but})

"""Which table of the lake a run writes. What the catalogue says changes in the very steps that say so."""

from collections.abc import Mapping

from vitrina.domain.errors import ConfigError
from vitrina.domain.mart_refusals import MartRefusal
from vitrina.engine.job import Job, StepResult
from vitrina.meta.db import Connection
from vitrina.meta.repos.indexes import Edition
from vitrina.sinks.documents.editions import Editions
from vitrina.sinks.lake import catalogue
from vitrina.sinks.lake.iceberg import LakeTable
from vitrina.sinks.lake.shape import LakeShape
from vitrina.sinks.lake.store import LakeStore
from vitrina.sinks.parquet.writer import RowWriter
from vitrina.stores import Mark

DAY = 86_400.0


class LakeEditions(Editions):
    """A table is built beside the one that is served, and takes its place by one row."""

    store: LakeStore

    def __init__(self, store: LakeStore, job: Job, writer: RowWriter, epoch: int, grace: float) -> None:
        super().__init__(store, job, writer, epoch, grace)

    @property
    def table(self) -> LakeTable:
        """That of the edition that is written."""
        table = self.store.table(self.current.index)
        assert table is not None
        return table

    @property
    def pointer(self) -> catalogue.Pointer:
        """The row of the catalogue that names its state."""
        return self.store.built_at if self.current.is_building else self.store.served_at

    @property
    def keep_seconds(self) -> float:
        """Of its snapshots; nobody reads what is being built."""
        return 0 if self.current.is_building else self.job.settings.lake_snapshot_days * DAY

    def _look(self, conn: Connection) -> StepResult:
        self.store.look(conn)
        return super()._look(conn)

    def _refuse_foreign(self, served: Mapping[str, Mark]) -> None:
        if [mark for mark in served.values() if not self._is_ours(mark)]:
            namespace, _, table = self.mart.partition(".")
            where = f"table_namespace = '{namespace}' AND table_name = '{table}'"
            raise ConfigError.of(MartRefusal.NOT_OUR_LAKE_TABLE, mart=self.mart, where=where)

    def _why_not(self, edition: Edition) -> str:
        """A table that an engine has divided, and the pipeline does not, was compared by no shadow."""
        assert isinstance(self.shape, LakeShape)
        table = self.store.table(edition.index) if edition.uuid and not self.shape.divided else None
        divided = "it is divided into parts, which an engine writes" if table and table.is_divided else ""
        return super()._why_not(edition) or divided

    def _forget(self, edition: Edition, conn: Connection) -> StepResult:
        catalogue.forget(conn, self.store.folder(edition.index))
        return super()._forget(edition, conn)

    def _created(self, uuid: str, conn: Connection) -> StepResult:
        result = super()._created(uuid, conn)
        catalogue.begin(conn, self.store.built_at, self.table.location)
        return result

    def _publish(self, conn: Connection) -> StepResult:
        """Somebody may have taken the name since the run began."""
        self.store.look(conn)
        self._refuse_foreign(self.store.served())
        catalogue.serve(conn, self.store.built_at, self.store.served_at)
        return super()._publish(conn)

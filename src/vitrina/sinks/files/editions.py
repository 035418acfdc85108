"""Which version of the files a run goes on from, or why there has to be another edition."""

from collections.abc import Mapping

from vitrina.domain.errors import ConfigError, RetryableError
from vitrina.domain.mart_refusals import MartRefusal
from vitrina.engine.job import Job, StepResult
from vitrina.meta.db import Connection
from vitrina.meta.repos.indexes import Edition
from vitrina.sinks.documents.editions import LOST, Editions
from vitrina.sinks.files.manifest import NAME
from vitrina.sinks.files.store import FilesStore
from vitrina.sinks.parquet.writer import RowWriter
from vitrina.stores import Mark


class FilesEditions(Editions):
    """Whoever switches the manifest has written down before that something is on its way. Who finds that keeps a lost
    runner from the manifest; who finds nothing leaves it as it is."""

    store: FilesStore

    def __init__(self, store: FilesStore, job: Job, writer: RowWriter, epoch: int, grace: float) -> None:
        super().__init__(store, job, writer, epoch, grace)

    def _look(self, conn: Connection) -> StepResult:
        result = super()._look(conn)
        self.store.look()
        self._refuse_unmounted()
        self.store.is_contested = any(edition.is_building or edition.in_flight for edition in self.known)
        return result

    def _refuse_unmounted(self) -> None:
        """What was written there is not written anew, on another disk perhaps, because it cannot be seen now."""
        target = self.job.plan.target
        is_written = any(edition.target == target and edition.state != "retired" for edition in self.known)
        if is_written and (missing := self.store.place.missing()):
            remedy = f"mount it, or mkdir {missing}, and the files are made anew"
            raise RetryableError(f"folder {missing} is not there, where {target} was written", remedy)

    def _why_not(self, edition: Edition) -> str:
        if why := super()._why_not(edition):
            return why
        if edition.is_building and edition.in_flight:
            return LOST
        lost = self.store.lost(edition.index)
        return f"{lost[0]} is gone, or is not as it was written" if lost else ""

    def _refuse_foreign(self, served: Mapping[str, Mark]) -> None:
        if [mark for mark in served.values() if not self._is_ours(mark)]:
            target = self.job.plan.target
            raise ConfigError.of(MartRefusal.NOT_OUR_FILES, target=target, manifest=NAME)

    def _name(self, number: int) -> str:
        return self.store.name_of(number)

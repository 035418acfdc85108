"""Which version of the files a run goes on from, or why there has to be another edition."""

from collections.abc import Iterator, Mapping

from vitrina.domain.errors import ConfigError, RetryableError
from vitrina.domain.events import Event
from vitrina.domain.mart_refusals import MartRefusal
from vitrina.engine.job import Job, Step, StepResult
from vitrina.meta.db import Connection
from vitrina.meta.repos.indexes import Edition, IndexRepo
from vitrina.sinks.documents.editions import Editions
from vitrina.sinks.files.manifest import NAME
from vitrina.sinks.files.store import FilesStore
from vitrina.sinks.parquet.writer import RowWriter
from vitrina.stores import Mark

LOST = "a run that was lost had begun it"


class FilesEditions(Editions):
    """Whoever switches the manifest has written down before that something is on its way. Who finds that keeps a lost
    runner from the manifest; who finds nothing leaves it as it is."""

    store: FilesStore

    def __init__(self, store: FilesStore, job: Job, writer: RowWriter, epoch: int, grace: float) -> None:
        super().__init__(store, job, writer, epoch, grace)

    def open(self) -> Iterator[Step]:
        """What was begun and is not gone on with is given up once nobody can serve it."""
        yield from super().open()
        begun = [edition for edition in self.known if edition.is_building and edition != self.current]
        if begun and not self.is_new:
            yield self._give_up_begun

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

    def _give_up_begun(self, conn: Connection) -> StepResult:
        """The checkpoint may be of what was begun: what is served is in doubt until a run has compared all of it."""
        repo = IndexRepo(conn, self.job.pipeline_id)
        repo.give_up_building()
        repo.advance(self.current.number, 0)
        [self.current] = [edition for edition in repo.all() if edition.number == self.current.number]
        begun = ", ".join(edition.index for edition in self.known if edition.is_building)
        return StepResult(Event.INDEX_GIVEN_UP, fields={"index": begun, "why": LOST})

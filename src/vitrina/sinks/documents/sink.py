"""A kind of marts outside of the warehouse: whatever keeps documents, behind the shadow and the delivery."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from uuid import UUID

from vitrina.domain.pipeline import Plan
from vitrina.engine.asking import Asked
from vitrina.engine.job import Job, Mode
from vitrina.engine.writer import Abilities
from vitrina.meta.db import Connection
from vitrina.meta.repos.indexes import Edition
from vitrina.neighbours import Neighbours
from vitrina.settings import Settings
from vitrina.sinks.documents.delivery import Delivery
from vitrina.sinks.documents.shape import Shape
from vitrina.sinks.documents.statements import asked_of_documents
from vitrina.sinks.documents.tidying import remove_retired
from vitrina.sinks.documents.writer import ShadowWriter
from vitrina.sinks.sink import Sink
from vitrina.sources.connections import Connections
from vitrina.sql.describe import Column
from vitrina.stores import Store

ABILITIES = Abilities(commits_with_checkpoint=False, is_compared_in_place=False, needs_shadow=True, swaps=True)


@dataclass(frozen=True)
class Visit:
    """Who opens a store, and what it needs to know of them."""

    settings: Settings
    pipeline_id: UUID
    target: str
    shape: Shape | None = None  # of the documents, for who writes them
    check: Callable[[], None] = lambda: None  # raises when the run should stop; for a store that waits
    neighbours: Neighbours | None = None  # who are told how it answers
    is_brief: bool = False  # what fails is tried again later anyway
    conn: Connection | None = None  # to the warehouse, for a kind that keeps there what it has


class DocumentSink(Sink):
    """Has a store for each mart. A kind says how to open one, and whether it is there at all."""

    abilities = ABILITIES

    def open(self, visit: Visit) -> Store:
        """The store of one mart."""
        raise NotImplementedError

    def is_there(self, settings: Settings) -> bool:
        """Whether anybody has told where it is."""
        del settings
        return True

    def shape(self, plan: Plan, output: Sequence[Column]) -> Shape:
        """Of the documents; a ConfigError if the kind cannot keep such."""
        return Shape.of(plan, output)

    def writer(self, plan: Plan, output: Sequence[Column], *, builds: bool) -> ShadowWriter:
        """Over the shadow."""
        return ShadowWriter(self.abilities, self.shape(plan, output), built=builds)

    def asked(self, plan: Plan, output: Sequence[Column]) -> Asked:
        """By the values that a document holds."""
        return asked_of_documents(output, plan.key)

    def mode(self, job: Job, make: Callable[[Job], Mode], connections: Connections, epoch: int) -> Mode:
        """The mode, with a delivery around it."""
        settings = connections.settings
        store = self.open_for(job, settings, connections.neighbours)
        return Delivery(job, writer_of(job), make, store, epoch, settings.es_grace_seconds)

    def open_for(
        self, job: Job, settings: Settings, neighbours: Neighbours | None = None, conn: Connection | None = None
    ) -> Store:
        """For a run, or for somebody who reads."""
        shape = writer_of(job).shape
        return self.open(Visit(settings, job.pipeline_id, job.plan.target, shape, job.check, neighbours, conn=conn))

    def tidy(self, conn: Connection, settings: Settings, retired: Sequence[Edition]) -> None:
        """Remove these sets."""
        if self.is_there(settings):
            visit = partial(Visit, settings, is_brief=True, conn=conn)
            remove_retired(conn, retired, lambda g: self.open(visit(pipeline_id=g.pipeline_id, target=g.target)))


def writer_of(job: Job) -> ShadowWriter:
    """That of a job whose mart is such."""
    assert isinstance(job.writer, ShadowWriter)
    return job.writer

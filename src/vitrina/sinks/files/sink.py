"""Files as a kind of marts: `s3://bucket/prefix/` and `file:///folder/`."""

from collections.abc import Callable, Sequence
from typing import Any

from vitrina.domain.pipeline import Plan
from vitrina.engine.asking import Asked
from vitrina.engine.job import Job, Mode
from vitrina.neighbours import Neighbours
from vitrina.sinks.documents.sink import DocumentSink, Visit, writer_of
from vitrina.sinks.files.extra import parquet
from vitrina.sinks.files.place import BUCKETS, Place
from vitrina.sinks.files.shape import FilesShape
from vitrina.sinks.files.store import FilesStore
from vitrina.sinks.parquet.patience import LONG, SHORT
from vitrina.sinks.parquet.statements import asked_of_rows
from vitrina.sinks.parquet.writer import RowWriter
from vitrina.sources.connections import Connections
from vitrina.sql.describe import Column


class FilesSink(DocumentSink):
    """Compared by a shadow, as documents are; written as versions of all of it."""

    def __init__(self, scheme: str) -> None:
        self.neighbour = BUCKETS if f"{scheme}:" == BUCKETS else ""

    def shape(self, plan: Plan, output: Sequence[Column]) -> FilesShape:
        """In types that Parquet has."""
        return FilesShape.of(plan, output)

    def writer(self, plan: Plan, output: Sequence[Column], *, builds: bool) -> RowWriter:
        """Over the shadow."""
        return RowWriter(self.abilities, self.shape(plan, output), built=builds)

    def asked(self, plan: Plan, output: Sequence[Column]) -> Asked:
        """By the values that are kept."""
        return asked_of_rows(self.shape(plan, output))

    def open(self, visit: Visit) -> FilesStore:
        """One mart's files, as its manifest has them."""
        parquet()
        patience = SHORT if visit.is_brief else LONG
        place = Place(visit.target, visit.settings, visit.neighbours or Neighbours(), patience)
        shape = visit.shape if isinstance(visit.shape, FilesShape) else None
        store = FilesStore(place, visit.pipeline_id, visit.target, shape, visit.settings.es_grace_seconds)
        if visit.conn:  # of who looks, and is in no run
            store.look()
        return store

    def mode(self, job: Job, make: Callable[[Job], Mode], connections: Connections, epoch: int) -> Mode:
        """The mode, with each run's rows in a version."""
        settings, writer = connections.settings, writer_of(job)
        assert isinstance(writer, RowWriter)
        store: Any = self.open_for(job, settings, connections.neighbours)
        from vitrina.sinks.files.delivery import FilesDelivery

        return FilesDelivery(job, writer, make, store, epoch, settings.lake_unused_seconds)

"""Files as a kind of marts: `s3://bucket/prefix/` and `file:///folder/`."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from vitrina.domain.errors import VitrinaError
from vitrina.domain.pipeline import Plan
from vitrina.domain.policy import allowed_folders
from vitrina.engine.asking import Asked
from vitrina.engine.job import Job, Mode
from vitrina.neighbours import Neighbours
from vitrina.settings import Settings
from vitrina.sinks.documents.sink import ABILITIES, DocumentSink, Visit, writer_of
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

    abilities = replace(ABILITIES, formats=("parquet",), streams=True, usual_batch=1_000_000)

    def __init__(self, scheme: str) -> None:
        self.scheme = f"{scheme}:"
        self.neighbour = BUCKETS if self.scheme == BUCKETS else ""

    def shape(self, plan: Plan, output: Sequence[Column]) -> FilesShape:
        """In types that Parquet has."""
        return FilesShape.of(plan, output)

    def writer(self, plan: Plan, output: Sequence[Column], *, builds: bool) -> RowWriter:
        """Over the shadow; rows are read as they are."""
        del builds
        return RowWriter(self.abilities, self.shape(plan, output), built=False)

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

    def look(self, settings: Settings, neighbours: Neighbours | None = None) -> Mapping[str, Any]:
        """Each folder in which marts are allowed, by its name."""
        return {url: _seen(url, settings, neighbours) for url in allowed_folders(settings.allowed_files, self.scheme)}

    def probe(self, settings: Settings, neighbours: Neighbours) -> None:
        """What is in them."""
        for url in allowed_folders(settings.allowed_files, self.scheme):
            look(url, settings, neighbours)

    def mode(self, job: Job, make: Callable[[Job], Mode], connections: Connections, epoch: int) -> Mode:
        """The mode, with each run's rows in a version."""
        settings, writer = connections.settings, writer_of(job)
        assert isinstance(writer, RowWriter)
        store: Any = self.open_for(job, settings, connections.neighbours)
        from vitrina.sinks.files.delivery import FilesDelivery

        return FilesDelivery(job, writer, make, store, epoch, settings.lake_unused_seconds)


def _seen(url: str, settings: Settings, neighbours: Neighbours | None) -> Mapping[str, Any]:
    started = time.monotonic()
    try:
        version = look(url, settings, neighbours)
    except VitrinaError as error:
        return {"error": error.message}
    return {"version": version, "milliseconds": round((time.monotonic() - started) * 1000, 1)}


def look(url: str, settings: Settings, neighbours: Neighbours | None = None) -> str:
    """The version of what writes there, once it has answered."""
    place = Place(url, settings, neighbours or Neighbours(), SHORT)
    with place.reaching():
        place.shelf.look()
    return str(parquet().VERSION)

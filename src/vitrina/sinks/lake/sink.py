"""A lake as a kind of marts: `lake:namespace.table`."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from vitrina.domain.errors import VitrinaError
from vitrina.domain.pipeline import Plan
from vitrina.domain.policy import LAKE_TARGET_PREFIX
from vitrina.engine.asking import Asked
from vitrina.engine.job import Job, Mode
from vitrina.engine.reading import is_inside
from vitrina.meta.db import Connection
from vitrina.neighbours import Neighbours
from vitrina.settings import Settings
from vitrina.sinks.documents.sink import ABILITIES, DocumentSink, Visit, writer_of
from vitrina.sinks.lake.extra import iceberg
from vitrina.sinks.lake.place import Place
from vitrina.sinks.lake.shape import LakeShape
from vitrina.sinks.lake.store import LakeStore
from vitrina.sinks.lake.upkeep import keep_up
from vitrina.sinks.parquet.patience import LONG, SHORT
from vitrina.sinks.parquet.statements import asked_of_rows
from vitrina.sinks.parquet.writer import RowWriter
from vitrina.sources.connections import Connections
from vitrina.sql.describe import Column


class LakeSink(DocumentSink):
    """Compared by a shadow, as documents are; but rows, shadow and position commit together."""

    neighbour = LAKE_TARGET_PREFIX
    abilities = replace(
        ABILITIES, commits_with_checkpoint=True, streams=True, takes_files=True, divides=True, usual_batch=1_000_000
    )

    def is_there(self, settings: Settings) -> bool:
        """By its address."""
        return settings.lake_url is not None

    def shape(self, plan: Plan, output: Sequence[Column]) -> LakeShape:
        """In types that Iceberg has."""
        return LakeShape.of(plan, output)

    def writer(self, plan: Plan, output: Sequence[Column], *, builds: bool) -> RowWriter:
        """Over the shadow; rows are read as they are."""
        del builds
        return RowWriter(self.abilities, self.shape(plan, output), built=False)

    def asked(self, plan: Plan, output: Sequence[Column]) -> Asked:
        """By the values that are kept."""
        return asked_of_rows(LakeShape.undivided(plan, output))

    def open(self, visit: Visit) -> LakeStore:
        """One pipeline's tables, as the catalogue has them."""
        iceberg()
        shape = visit.shape if isinstance(visit.shape, LakeShape) else None
        place = Place.of(visit.settings, visit.neighbours, SHORT if visit.is_brief else LONG)
        store = LakeStore(place, visit.pipeline_id, visit.target, shape)
        if visit.conn:
            store.conn = visit.conn
            store.look(visit.conn)
        return store

    def look(self, settings: Settings, neighbours: Neighbours | None = None) -> Mapping[str, Any]:
        """Whether it can be read here."""
        if not self.is_there(settings):
            return {}
        started = time.monotonic()
        try:
            version = look(settings, neighbours)
        except VitrinaError as error:
            return {"lake": {"error": error.message}}
        return {"lake": {"version": version, "milliseconds": round((time.monotonic() - started) * 1000, 1)}}

    def probe(self, settings: Settings, neighbours: Neighbours) -> None:
        """What is in it."""
        look(settings, neighbours)

    def keep_up(self, conn: Connection, settings: Settings) -> None:
        """Tables at rest."""
        if self.is_there(settings):
            keep_up(conn, settings)

    def mode(self, job: Job, make: Callable[[Job], Mode], connections: Connections, epoch: int) -> Mode:
        """The mode, with each step's rows in the lake."""
        settings, writer = connections.settings, writer_of(job)
        assert isinstance(writer, RowWriter)
        store = self.open_for(job, settings, connections.neighbours)
        assert isinstance(store, LakeStore)
        if is_inside(job):
            from vitrina.sinks.lake.inside import LakeInside

            return LakeInside(job, writer, store, epoch, settings.es_grace_seconds)
        from vitrina.sinks.lake.delivery import LakeDelivery

        return LakeDelivery(job, writer, make, store, epoch, settings.es_grace_seconds)


def look(settings: Settings, neighbours: Neighbours | None = None) -> str:
    """The version of what is here, once the lake has answered."""
    place, known = Place.of(settings, neighbours, SHORT), iceberg()
    with place.reaching():
        return str(known.look(place.files))

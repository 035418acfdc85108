"""A search engine as a kind of marts, which are indexes of one server that the settings name."""

import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any

from vitrina.domain.errors import VitrinaError
from vitrina.domain.pipeline import Plan
from vitrina.neighbours import Neighbours
from vitrina.settings import Settings
from vitrina.sinks.documents.sink import ABILITIES, DocumentSink, Visit
from vitrina.sinks.search.client import LITTLE_TIME, TIMEOUT, SearchClient
from vitrina.sinks.search.shape import IndexShape
from vitrina.sinks.search.store import SearchStore
from vitrina.sql.describe import Column


class SearchSink(DocumentSink):
    """A kind names its client."""

    abilities = replace(ABILITIES, is_mapped=True)
    client: type[SearchClient]

    def is_there(self, settings: Settings) -> bool:
        """By its address."""
        return self.client.access(settings).url is not None

    def shape(self, plan: Plan, output: Sequence[Column]) -> IndexShape:
        """With mapping and settings."""
        return IndexShape.of(plan, output)

    def open(self, visit: Visit) -> SearchStore:
        """One pipeline's part of the server."""
        shape = visit.shape if isinstance(visit.shape, IndexShape) else None
        client = self.client(visit.settings, LITTLE_TIME if visit.is_brief else TIMEOUT, visit.neighbours)
        return SearchStore(client, visit.pipeline_id, visit.target, shape, visit.check, visit.settings.es_senders)

    def look(self, settings: Settings, neighbours: Neighbours | None = None) -> Mapping[str, Any]:
        """Its version and how long it took to answer, or why it did not."""
        if not self.is_there(settings):
            return {}
        name, started = self.client.name.lower(), time.monotonic()
        try:
            with closing(self.client(settings, LITTLE_TIME, neighbours)) as client:
                version = client.version()
        except VitrinaError as error:
            return {name: {"error": error.message}}
        return {name: {"version": version, "milliseconds": round((time.monotonic() - started) * 1000, 1)}}

    def probe(self, settings: Settings, neighbours: Neighbours) -> None:
        """For its version."""
        with closing(self.client(settings, LITTLE_TIME, neighbours)) as client:
            client.version()

"""Elasticsearch as a kind of marts: `es:index`."""

import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any

from vitrina.domain.errors import VitrinaError
from vitrina.domain.pipeline import Plan
from vitrina.domain.policy import ES_TARGET_PREFIX
from vitrina.neighbours import Neighbours
from vitrina.settings import Settings
from vitrina.sinks.documents.sink import ABILITIES, DocumentSink, Visit
from vitrina.sinks.elasticsearch.client import LITTLE_TIME, TIMEOUT, Elastic
from vitrina.sinks.elasticsearch.shape import IndexShape
from vitrina.sinks.elasticsearch.store import ElasticStore
from vitrina.sql.describe import Column


class ElasticSink(DocumentSink):
    """One server, which the settings name."""

    abilities = replace(ABILITIES, is_mapped=True)
    neighbour = ES_TARGET_PREFIX

    def is_there(self, settings: Settings) -> bool:
        """By its address."""
        return settings.elasticsearch_url is not None

    def shape(self, plan: Plan, output: Sequence[Column]) -> IndexShape:
        """With mapping and settings."""
        return IndexShape.of(plan, output)

    def open(self, visit: Visit) -> ElasticStore:
        """One pipeline's part of the server."""
        shape = visit.shape if isinstance(visit.shape, IndexShape) else None
        elastic = Elastic(visit.settings, LITTLE_TIME if visit.is_brief else TIMEOUT, visit.neighbours)
        senders = visit.settings.es_senders
        return ElasticStore(elastic, visit.pipeline_id, visit.target, shape, visit.check, senders)

    def look(self, settings: Settings, neighbours: Neighbours | None = None) -> Mapping[str, Any]:
        """Its version and how long it took to answer, or why it did not."""
        if not self.is_there(settings):
            return {}
        started = time.monotonic()
        try:
            with closing(Elastic(settings, LITTLE_TIME, neighbours)) as elastic:
                version = elastic.version()
        except VitrinaError as error:
            return {"elasticsearch": {"error": error.message}}
        return {"elasticsearch": {"version": version, "milliseconds": round((time.monotonic() - started) * 1000, 1)}}

    def probe(self, settings: Settings, neighbours: Neighbours) -> None:
        """For its version."""
        with closing(Elastic(settings, LITTLE_TIME, neighbours)) as elastic:
            elastic.version()

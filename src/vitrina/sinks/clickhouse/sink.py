"""ClickHouse as a kind of marts: `ch:database.table`."""

import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Any

from vitrina.domain.errors import VitrinaError
from vitrina.domain.pipeline import Plan
from vitrina.domain.policy import CLICKHOUSE_TARGET_PREFIX
from vitrina.engine.asking import Asked
from vitrina.neighbours import Neighbours
from vitrina.settings import Settings
from vitrina.sinks.clickhouse.client import LITTLE_TIME, TIMEOUT, ClickHouse
from vitrina.sinks.clickhouse.shape import TypedShape, checked_type
from vitrina.sinks.clickhouse.store import ClickHouseStore
from vitrina.sinks.documents.sink import DocumentSink, Visit
from vitrina.sinks.documents.statements import asked_of_documents
from vitrina.sql.describe import Column


class ClickHouseSink(DocumentSink):
    """One server, which the settings name."""

    neighbour = CLICKHOUSE_TARGET_PREFIX

    def is_there(self, settings: Settings) -> bool:
        """By its address."""
        return settings.clickhouse_url is not None

    def shape(self, plan: Plan, output: Sequence[Column]) -> TypedShape:
        """With typed columns."""
        return TypedShape.of(plan, output)

    def asked(self, plan: Plan, output: Sequence[Column]) -> Asked:
        """By the values that its columns hold."""
        return asked_of_documents(output, plan.key, checked_type)

    def open(self, visit: Visit) -> ClickHouseStore:
        """One mart's part of the server."""
        server = ClickHouse(visit.settings, LITTLE_TIME if visit.is_brief else TIMEOUT, visit.neighbours)
        sheet = visit.shape.sheet if isinstance(visit.shape, TypedShape) else None
        return ClickHouseStore(server, visit.target.removeprefix(CLICKHOUSE_TARGET_PREFIX), sheet, visit.check)

    def look(self, settings: Settings, neighbours: Neighbours | None = None) -> Mapping[str, Any]:
        """Its version and how long it took to answer, or why it did not."""
        if not self.is_there(settings):
            return {}
        started = time.monotonic()
        try:
            with closing(ClickHouse(settings, LITTLE_TIME, neighbours)) as server:
                version = server.version()
        except VitrinaError as error:
            return {"clickhouse": {"error": error.message}}
        return {"clickhouse": {"version": version, "milliseconds": round((time.monotonic() - started) * 1000, 1)}}

    def probe(self, settings: Settings, neighbours: Neighbours) -> None:
        """For its version."""
        with closing(ClickHouse(settings, LITTLE_TIME, neighbours)) as server:
            server.version()

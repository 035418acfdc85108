"""How Elasticsearch answers, for people who look at the system."""

import time
from contextlib import closing
from typing import Any

from vitrina.domain.errors import VitrinaError
from vitrina.neighbours import Neighbours
from vitrina.settings import Settings
from vitrina.sinks.elasticsearch.client import LITTLE_TIME, Elastic


def look_at_elasticsearch(settings: Settings, neighbours: Neighbours | None = None) -> dict[str, Any]:
    """Its version and how long it took to answer, or why it did not; nothing where there is none."""
    if settings.elasticsearch_url is None:
        return {}
    started = time.monotonic()
    try:
        with closing(Elastic(settings, LITTLE_TIME, neighbours)) as elastic:
            version = elastic.version()
    except VitrinaError as error:
        return {"elasticsearch": {"error": error.message}}
    return {"elasticsearch": {"version": version, "milliseconds": round((time.monotonic() - started) * 1000, 1)}}

"""Elasticsearch for tests: one real server for all of them, or servers of their own."""

import os
from pathlib import Path

import httpx
import pytest

from vitrina.distribution import Missing
from vitrina.elastic import VERSION, EmbeddedElasticsearch
from vitrina.settings import Settings

ELASTIC = "VITRINA_TEST_ELASTIC"  # the directory of the shared one


def elastic_server(directory: Path | None = None) -> EmbeddedElasticsearch:
    """The one that all tests of this run share, or one elsewhere; VITRINA_TEST_ES_VERSION chooses the version."""
    version = os.environ.get("VITRINA_TEST_ES_VERSION") or VERSION
    cache = Settings().elasticsearch_cache
    return EmbeddedElasticsearch(directory or Path(os.environ[ELASTIC]), version=version, cache=cache)


def start_or_skip(server: EmbeddedElasticsearch) -> None:
    """Start it; where Java, Maven or the network is missing, skip, unless VITRINA_REQUIRE forbids that."""
    needed = "elasticsearch" if server.version.startswith("8.") else "es9"
    try:
        server.start()
    except Missing as error:
        if needed in os.environ.get("VITRINA_REQUIRE", "").split(","):
            pytest.fail(f"VITRINA_REQUIRE has {needed}: {error}")
        pytest.skip(str(error))


def delete_indexes(url: str, prefix: str) -> None:
    """All whose names begin so, by name: Elasticsearch deletes none by a pattern."""
    with httpx.Client(base_url=url, trust_env=False, timeout=30) as client:
        found = client.get(f"/{prefix}*", params={"expand_wildcards": "all"}).raise_for_status()
        for name in found.json():
            client.delete(f"/{name}").raise_for_status()

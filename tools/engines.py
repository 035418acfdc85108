"""`python -m tools.engines elasticsearch:9.2.0 opensearch`: the tests' search engines, at hand before a test asks.

Looks for a Java that is new enough, and fetches the server by Maven, once per machine. What cannot be had ends in one
line that says why and what helps.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from vitrina.domain.errors import VitrinaError
from vitrina.embedded import distribution
from vitrina.embedded.elasticsearch import EmbeddedElasticsearch
from vitrina.embedded.host import Account
from vitrina.embedded.opensearch import EmbeddedOpenSearch
from vitrina.embedded.search import EmbeddedSearch
from vitrina.settings import Settings


def main(arguments: Sequence[str]) -> None:
    """Each that is named, or the first one's trouble."""
    parser = argparse.ArgumentParser()
    parser.add_argument("engines", nargs="+", metavar="NAME[:VERSION]")
    parser.add_argument("--only-java", action="store_true", help="look whether there is one, and fetch nothing")
    asked = parser.parse_args(arguments)
    try:
        for engine in asked.engines:
            have(server(*engine.split(":")), asked.only_java)
    except VitrinaError as error:
        sys.exit(" ".join(str(error).split()))


def server(name: str, version: str | None = None) -> EmbeddedSearch:
    """As the tests would start it; it is not started."""
    nowhere = Path("unused")
    if name == "opensearch":
        return EmbeddedOpenSearch(nowhere, version=version)
    return EmbeddedElasticsearch(nowhere, version=version, cache=Settings().elasticsearch_cache)


def have(server: EmbeddedSearch, only_java: bool) -> None:
    """What it is made of."""
    java = distribution.find_java(server.version, Account(), server.engine)
    if not only_java:
        distribution.fetch(server.version, server.cache, java, server.engine)


if __name__ == "__main__":
    main(sys.argv[1:])

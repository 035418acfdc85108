"""OpenSearch as a kind of marts: `os:index`."""

from vitrina.domain.policy import OS_TARGET_PREFIX
from vitrina.sinks.opensearch.client import OpenSearch
from vitrina.sinks.search.sink import SearchSink


class OpenSearchSink(SearchSink):
    """One server, which the settings name."""

    neighbour = OS_TARGET_PREFIX
    client = OpenSearch

"""Elasticsearch as a kind of marts: `es:index`."""

from vitrina.domain.policy import ES_TARGET_PREFIX
from vitrina.sinks.elasticsearch.client import Elastic
from vitrina.sinks.search.sink import SearchSink


class ElasticSink(SearchSink):
    """One server, which the settings name."""

    neighbour = ES_TARGET_PREFIX
    client = Elastic

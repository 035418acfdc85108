"""What is Elasticsearch's own: how it is called, where the settings say it is, and the fields that it knows."""

from vitrina.domain.findings import Code
from vitrina.domain.policy import ES_TARGET_PREFIX
from vitrina.settings import Settings
from vitrina.sinks.search.client import Access, SearchClient

TYPES = """
    aggregate_metric_double alias annotated_text binary boolean byte completion constant_keyword counted_keyword date
    date_nanos date_range dense_vector double double_range flattened float float_range geo_point geo_shape half_float
    histogram integer integer_range ip ip_range join keyword long long_range match_only_text murmur3 nested object
    passthrough percolator point rank_feature rank_features rank_vectors scaled_float search_as_you_type semantic_text
    shape short sparse_vector text token_count unsigned_long version wildcard
"""


class Elastic(SearchClient):
    """One server of Elasticsearch, whose ways the shared client knows."""

    name = "Elasticsearch"
    prefix = ES_TARGET_PREFIX
    variable = "ELASTICSEARCH"
    remedy = "set it to http://host:9200, or start one: vitrina up --search"
    absent = Code.NO_ELASTICSEARCH
    field_types = frozenset(TYPES.split())

    @staticmethod
    def access(settings: Settings) -> Access:
        """By name and password, or by key."""
        return Access(
            settings.elasticsearch_url,
            settings.elasticsearch_username,
            settings.elasticsearch_password,
            settings.elasticsearch_api_key,
            settings.elasticsearch_ca_file,
        )

"""All that OpenSearch does otherwise than the shared client expects."""

from vitrina.domain.findings import Code
from vitrina.domain.policy import OS_TARGET_PREFIX
from vitrina.settings import Settings
from vitrina.sinks.search.client import BLOCKED, KEEP_ALIVE, Access, SearchClient

TYPES = """
    alias binary boolean byte completion constant_keyword context_aware_grouping date date_nanos date_range double
    double_range flat_object float float_range geo_point geo_shape half_float hll integer integer_range ip ip_range join
    keyword knn_vector long long_range match_only_text nested object percolator rank_feature rank_features scaled_float
    search_as_you_type semantic short sparse_vector text token_count unsigned_long version wildcard xy_point xy_shape
"""


class OpenSearch(SearchClient):
    """One server. It knows no API keys, keeps moments at another address, and stops making indexes on full disks."""

    name = "OpenSearch"
    prefix = OS_TARGET_PREFIX
    variable = "OPENSEARCH"
    remedy = "set it to http://host:9200"
    absent = Code.NO_OPENSEARCH
    field_types = frozenset(TYPES.split())
    blocks = (BLOCKED, "index_create_block_exception")

    @staticmethod
    def access(settings: Settings) -> Access:
        """By name and password."""
        return Access(
            settings.opensearch_url,
            settings.opensearch_username,
            settings.opensearch_password,
            ca_file=settings.opensearch_ca_file,
        )

    def open_moment(self, index: str) -> str:
        """By its own name for it; its search takes the same as that of others."""
        path = f"/{index}/_search/point_in_time?keep_alive={KEEP_ALIVE}"
        return str(self._ok(self._send("POST", path), f"read {index}").body["pit_id"])

    def close_moment(self, moment: str) -> None:
        """One of several that may be closed at once."""
        self._send("DELETE", "/_search/point_in_time", json={"pit_id": [moment]})

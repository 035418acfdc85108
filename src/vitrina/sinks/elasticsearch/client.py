"""What is Elasticsearch's own: how it is called, and where the settings say it is."""

from vitrina.domain.policy import ES_TARGET_PREFIX
from vitrina.settings import Settings
from vitrina.sinks.search.client import Access, SearchClient


class Elastic(SearchClient):
    """One server of Elasticsearch, whose ways the shared client knows."""

    name = "Elasticsearch"
    prefix = ES_TARGET_PREFIX
    variable = "ELASTICSEARCH"
    remedy = "set it to http://host:9200, or start one: vitrina up --search"

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

"""An OpenSearch of our own: the bare one, which knows neither users nor plugins."""

from vitrina.embedded.distribution import OPENSEARCH
from vitrina.embedded.search import EmbeddedSearch

VERSION = "3.6.0"


class EmbeddedOpenSearch(EmbeddedSearch):
    """Its launcher would end before it is known whether the server starts: so it is not asked to detach."""

    engine = OPENSEARCH
    newest = VERSION
    detaches = False

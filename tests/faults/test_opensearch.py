"""OpenSearch by the suites that every kind of mart must pass, kills included."""

from typing import Any

import pytest

from tests.elastic import OPENSEARCH, Search
from tests.sinks import IndexSink
from vitrina.testing import SinkConformance, SinkUnderFaults

pytestmark = pytest.mark.faults
engines = (OPENSEARCH,)


class TestOpenSearch(SinkConformance, SinkUnderFaults):
    test_an_older_epoch_changes_nothing: Any = None  # by pipeline, not by index: integration/test_index_generations.py

    @pytest.fixture
    def mart(self, search: Search) -> IndexSink:
        return IndexSink(search)

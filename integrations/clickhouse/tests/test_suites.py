"""What every kind of mart must pass, killed runners included, on ClickHouse's engine."""

import pytest

from tests.clickhouse import ClickMart
from vitrina.testing import SinkConformance, SinkUnderFaults


class TestClickHouse(SinkConformance, SinkUnderFaults):
    """Read by the view that its readers have."""

    @pytest.fixture
    def mart(self, click_mart: ClickMart) -> ClickMart:
        return click_mart

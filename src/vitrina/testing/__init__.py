"""What every kind of mart must pass, for whoever writes one: name this in `pytest_plugins` and subclass the suites.

    pytest_plugins = ["vitrina.testing"]                # in conftest.py

    class TestFiles(SinkConformance, SinkUnderFaults):  # in a test
        @pytest.fixture
        def mart(self, lab: Lab) -> Mart:
            return Mart(lab, "files:mart")

A real Postgres comes along, real runners are killed at named places, and what they leave is compared with the query.
"""

from vitrina.testing.conformance import SinkConformance
from vitrina.testing.faults import SinkUnderFaults
from vitrina.testing.fixtures import lab, postgres
from vitrina.testing.labs import Lab
from vitrina.testing.marts import Mart

__all__ = ["Lab", "Mart", "SinkConformance", "SinkUnderFaults", "lab", "postgres"]

import pytest

pytest.register_assert_rewrite("tests.sinks", "tests.faults.oracle", "vitrina.testing")  # before anybody imports them

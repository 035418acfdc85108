"""A server per module, whose database is swept before each test."""

from collections.abc import Iterator

import pytest

from tests.contract.server import Api, running, serve
from tests.support import Lab
from vitrina.runner.main import Runner

SWEEP = """
    TRUNCATE etl.etl_pipelines, etl.etl_audit, etl.etl_requests, etl.etl_runners RESTART IDENTITY CASCADE;
    DO $$ DECLARE mart regclass; BEGIN
        FOR mart IN SELECT oid FROM pg_class WHERE relnamespace = 'analytics'::regnamespace AND relkind = 'r' LOOP
            EXECUTE format('DROP TABLE %s', mart);
        END LOOP;
    END $$
"""


@pytest.fixture(scope="module")
def shared() -> Iterator[Api]:
    """The API on a database that the tests of a module share."""
    with Lab.open("vitrina_template") as lab, serve(lab) as api:
        yield api


@pytest.fixture
def api(shared: Api) -> Api:
    """The same, with no pipelines and no marts."""
    shared.lab.sql(SWEEP)
    return shared


@pytest.fixture
def runner(api: Api) -> Iterator[Runner]:
    """A runner beside it."""
    with running(api.lab) as runner:
        yield runner

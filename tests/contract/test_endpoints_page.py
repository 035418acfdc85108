"""docs/api.md names every endpoint; its examples are run by tests/docs."""

from tests.contract.refresh import GUIDE, TABLE, app, endpoints


def test_the_table_has_every_endpoint() -> None:
    found = TABLE.search(GUIDE.read_text())
    assert found is not None
    assert found[0] == endpoints(app()), "run: make openapi"

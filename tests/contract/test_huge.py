"""A mart of huge documents, looked at by a viewer."""

import resource

from tests.contract.server import Api
from tests.contract.test_console import sign_in

MEGABYTES = 5


def test_what_a_viewer_sees_of_huge_documents_is_cut_at_the_database(api: Api) -> None:
    """The API's process never holds them: a page's worth travels."""
    lab = api.lab
    lab.sql(
        "CREATE TABLE analytics.huge AS SELECT n AS id, repeat('x', %s) AS doc, NULL::text AS nothing"
        " FROM generate_series(1, 10) n",
        MEGABYTES << 20,
    )
    lab.sql("GRANT SELECT ON analytics.huge TO vitrina_reader")
    lab.add(name="huge", source_query="SELECT 1 AS id", key=["id"], target_table="analytics.huge")
    before = _peak()
    with sign_in(api, "viewer") as browser:
        page = browser.get("/pipelines/huge/data").text
    assert f"… ({MEGABYTES << 20} characters)" in page
    assert len(page) < 1_000_000
    assert _peak() - before < MEGABYTES << 10  # kilobytes: not even one of them


def _peak() -> int:
    """Of this process, which the server runs in."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

"""What is OpenSearch's own: beside Elasticsearch, and what is said where there is none."""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from pydantic import SecretStr

from tests.elastic import OPENSEARCH, Search, open_search
from tests.support import Lab
from vitrina.control.services.indexing import index_findings
from vitrina.domain.errors import ConfigError, RetryableError
from vitrina.domain.findings import Code, Finding
from vitrina.domain.pipeline import Pipeline, resolve
from vitrina.domain.policy import require_allowed_target
from vitrina.domain.wording import Worded
from vitrina.neighbours import Neighbours
from vitrina.runner.main import Runner
from vitrina.settings import Settings
from vitrina.sinks.opensearch.client import OpenSearch
from vitrina.sinks.registry import look_at_sinks
from vitrina.sql.describe import Column


@pytest.fixture
def both(lab: Lab, elastic: str, opensearch: str, index_prefix: str) -> Iterator[tuple[Search, Search]]:
    """One lab, with an index of the same name in each."""
    with ExitStack() as stack:
        yield (
            stack.enter_context(open_search(lab, elastic, index_prefix)),
            stack.enter_context(open_search(lab, opensearch, index_prefix, OPENSEARCH)),
        )


def test_one_query_is_kept_in_both_and_who_is_away_holds_back_nobody(both: tuple[Search, Search]) -> None:
    (elastic, opensearch), lab = both, both[0].lab
    searched, opened = (search.add(name=search.engine) for search in both)
    for search, pipeline in ((elastic, searched), (opensearch, opened)):
        assert lab.run(pipeline)["rows_written"] == 60
        assert search.documents() == search.wanted(pipeline)
    lab.sql("UPDATE content.film_work SET title = 'other' WHERE id IN (SELECT id FROM content.film_work LIMIT 7)")
    lab.sql("DELETE FROM content.film_work WHERE id IN (SELECT id FROM content.film_work OFFSET 50)")
    there = str(opensearch.http.base_url)
    opensearch.reach("http://127.0.0.1:9")
    waiting = lab.run(opened)
    assert (waiting["status"], lab.status(opened)) == ("RUNNING", "RUN_REQUESTED")
    assert "OpenSearch at http://127.0.0.1:9 does not answer" in waiting["said"]
    assert lab.run(searched)["status"] == "SUCCESS"
    assert elastic.documents() == elastic.wanted(searched)
    opensearch.reach(there)
    lab.sql("UPDATE etl.etl_pipelines SET due_at = now() WHERE status = 'RUN_REQUESTED'")
    Runner(lab.connections).run_once(opened.id)
    assert opensearch.documents() == opensearch.wanted(opened)
    assert lab.reconcile(searched)["equal"]
    assert lab.reconcile(opened)["equal"]
    found = look_at_sinks(lab.connections.settings, lab.connections.neighbours)
    assert {name: "version" in about for name, about in found.items()} == {"elasticsearch": True, "opensearch": True}


def plan(**config: Any) -> Any:
    values = {"name": "films", "source_query": "SELECT 1 AS id", "target_table": "os:films", "key": ["id"]}
    return resolve(Pipeline.parse(values | config))


def codes(settings: Settings, **config: Any) -> list[tuple[Worded, str]]:
    found: list[Finding] = list(index_findings(plan(**config), [Column("id", "integer")], settings, None))
    return [(finding.code, finding.message) for finding in found]


def test_what_can_be_known_when_it_is_saved() -> None:
    nowhere = Settings(opensearch_url=None)
    there = Settings(opensearch_url=SecretStr("http://localhost:1"))
    assert [code for code, _ in codes(nowhere)] == [Code.NO_OPENSEARCH, Code.WOULD_CREATE_INDEX]
    assert codes(there) == [(Code.WOULD_CREATE_INDEX, "would create index films with id integer")]
    assert codes(there, mapping={"id": {"type": "flat_object"}})[0][0] == Code.WOULD_CREATE_INDEX
    code, said = codes(there, mapping={"id": {"type": "flattened"}})[0]
    assert code == Code.MAPPING_TYPE_UNKNOWN
    assert "'flattened' is no type that OpenSearch comes with" in said


def test_its_indexes_have_a_setting_of_their_own() -> None:
    settings = Settings(
        allowed_es_indexes=["people"], allowed_other_targets=["os:*"], allowed_opensearch_indexes=["film_*"]
    )
    with pytest.raises(ConfigError, match="VITRINA_ALLOWED_OPENSEARCH_INDEXES allows film_"):
        require_allowed_target("os:people", settings.whitelist)
    with pytest.raises(ConfigError, match="no mart can be called so") as refused:
        require_allowed_target("os:Film_Dim", settings.whitelist)
    assert refused.value.remedy.startswith("name it os:index, of the letters a to z")
    require_allowed_target("os:film_dim", settings.whitelist)


def test_without_an_address_it_says_which_setting_is_missing() -> None:
    with pytest.raises(ConfigError, match="there is no OpenSearch: OPENSEARCH_URL is not set"):
        OpenSearch(Settings(opensearch_url=None))
    with pytest.raises(RetryableError, match="is OPENSEARCH_URL right"):
        OpenSearch(Settings(opensearch_url=SecretStr("http://127.0.0.1:9"))).version()


def test_an_address_that_cannot_be_read_is_not_quoted() -> None:
    """A password that is not escaped is taken for a port."""
    settings = Settings(opensearch_url=SecretStr("http://me:plan/ted@host:9200"))
    with pytest.raises(ConfigError, match="OPENSEARCH_URL cannot be read") as caught:
        OpenSearch(settings)
    assert "plan" not in str(caught.value)
    assert look_at_sinks(settings, Neighbours())["opensearch"] == {"error": "OPENSEARCH_URL cannot be read"}

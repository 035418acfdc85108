"""The demo's own comparison can disagree: it finds what is missing, what is too many and what is different."""

from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.elastic import Search, open_search
from tests.support import Lab
from vitrina.domain.pipeline import Pipeline, resolve
from vitrina.equality import count_different_documents
from vitrina.sinks.elasticsearch.client import Elastic

RATINGS = """
SELECT r.film_id, round(avg(r.rating), 2) AS avg_rating, count(*) AS n, max(r.modified) AS last
FROM ugc.ratings r GROUP BY r.film_id
"""


@pytest.fixture
def search(lab: Lab, elastic: str, index_prefix: str) -> Iterator[Search]:
    """A lab that may write to indexes of its own."""
    with open_search(lab, elastic, index_prefix) as search:
        yield search


def differences(search: Search, pipeline: Pipeline) -> int:
    """Between the index and its query."""
    connections, plan = search.lab.connections, resolve(pipeline)
    with connections.resolve_reader(plan.source) as reader, closing(Elastic(connections.settings)) as elastic:
        return count_different_documents(reader, plan, elastic)


def test_an_index_as_it_was_written_does_not_differ_in_a_digit(search: Search) -> None:
    pipeline = search.add(source_query=RATINGS)
    search.lab.run(pipeline)
    assert differences(search, pipeline) == 0


def test_every_kind_of_difference_counts(search: Search) -> None:
    pipeline = search.add(source_query=RATINGS)
    search.lab.run(pipeline)
    first, second = sorted(search.documents())[:2]
    index, document = search.name("films-000001"), search.documents()[first]
    search.http.delete(f"/{index}/_doc/{first}").raise_for_status()
    assert differences(search, pipeline) == 1
    search.http.put(f"/{index}/_doc/{first}", json=document | {"n": 0}).raise_for_status()
    assert differences(search, pipeline) == 2
    search.lab.sql("DELETE FROM ugc.ratings WHERE film_id = %s", second)
    assert differences(search, pipeline) == 3
    assert search.lab.run(pipeline, repair=True)["error"] is None
    assert differences(search, pipeline) == 0

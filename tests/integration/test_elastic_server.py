"""A real Elasticsearch in a directory: started, shared, killed, and what is said when it cannot be had."""

import httpx


def test_tests_share_one_server(elastic: str, index_prefix: str) -> None:
    document = httpx.put(f"{elastic}/{index_prefix}films/_doc/1", json={"title": "Alien"}, params={"refresh": "true"})
    assert document.status_code == 201
    found = httpx.get(f"{elastic}/{index_prefix}films/_search", params={"q": "title:alien"})
    assert found.json()["hits"]["total"]["value"] == 1

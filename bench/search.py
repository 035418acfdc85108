"""The server under the documents: indexes made, read back and counted; and the floor: bodies sent as bytes."""

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from http.client import HTTPConnection
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, TypeAlias
from urllib.parse import urlsplit

import httpx

Documents: TypeAlias = dict[str, dict[str, Any]]
PAGE = 5_000
NDJSON = {"Content-Type": "application/x-ndjson"}
LOADING = {"refresh_interval": "-1", "number_of_replicas": 0}  # what Vitrina sets while it loads, for everybody
OBJECT_OF_PGSYNC = {"_meta": {"type": "object", "enabled": False}}


@dataclass(frozen=True)
class Search:
    """One Elasticsearch."""

    url: str
    http: httpx.Client

    def create(self, index: str, fields: dict[str, Any]) -> None:
        """An empty index with Vitrina's mapping and settings."""
        mapping = {"dynamic": "strict", "properties": fields | OBJECT_OF_PGSYNC}
        self._ask("PUT", f"/{index}", {"settings": {"index": LOADING}, "mappings": mapping})

    def clear(self) -> None:
        """Every index away, by name: none is deleted by a pattern."""
        for name in self._ask("GET", "/_all"):
            self._ask("DELETE", f"/{name}")

    def fields(self, index: str) -> dict[str, Any]:
        """The mapping of an index, or of the one behind an alias."""
        [found] = self._ask("GET", f"/{index}/_mapping").values()
        return dict(found["mappings"]["properties"])

    def indexed(self, index: str) -> int:
        """How many documents this index was ever sent."""
        stats = self._ask("GET", f"/{index}/_stats/indexing")
        return int(stats["_all"]["primaries"]["indexing"]["index_total"])

    def settle(self) -> None:
        """Until the server has nothing left to do for what was sent before."""
        self._ask("POST", "/_all/_refresh")
        while self._ask("GET", "/_stats/merge")["_all"]["primaries"].get("merges", {}).get("current"):
            time.sleep(0.05)

    def documents(self, index: str) -> Documents:
        """Everything that searches see, by id, as one moment has it."""
        self._ask("POST", f"/{index}/_refresh")
        pit = self._ask("POST", f"/{index}/_pit?keep_alive=5m")["id"]
        found: Documents = {}
        after: list[Any] | None = None
        while True:
            query = {"size": PAGE, "pit": {"id": pit, "keep_alive": "5m"}, "sort": ["_shard_doc"]}
            hits = self._ask("POST", "/_search", query | ({"search_after": after} if after else {}))["hits"]["hits"]
            if not hits:
                self._ask("DELETE", "/_pit", {"id": pit})
                return found
            found |= {hit["_id"]: hit["_source"] for hit in hits}
            after = hits[-1]["sort"]

    def version(self) -> str:
        """Of the server."""
        [node] = self._ask("GET", "/_nodes/_local")["nodes"].values()
        return str(node["version"])

    def _ask(self, method: str, path: str, body: Any = None) -> Any:
        answer = self.http.request(method, path, json=body) if body else self.http.request(method, path)
        return parse(answer.raise_for_status().content)


def client(url: str) -> httpx.Client:
    """Without a proxy on the way to 127.0.0.1."""
    return httpx.Client(base_url=url, trust_env=False, timeout=120)


def parse(text: str | bytes) -> Any:
    """Numbers with all their digits, and 5 equal to 5.0."""
    return json.loads(text, parse_float=Decimal)


def send(url: str, index: str, bodies: Sequence[bytes], connections: int) -> float:
    """The floor: how long `_bulk` takes for bodies that were made beforehand; every answer is read."""
    waiting: SimpleQueue[bytes] = SimpleQueue()
    for body in bodies:
        waiting.put(body)
    failed: list[bytes] = []
    threads = [Thread(target=_send_all, args=(url, index, waiting, failed)) for _ in range(connections)]
    started = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = time.perf_counter() - started
    assert not failed, f"Elasticsearch refused a body of the floor: {failed[:1]!r}"
    return seconds


def _send_all(url: str, index: str, waiting: "SimpleQueue[bytes]", failed: list[bytes]) -> None:
    connection = HTTPConnection(urlsplit(url).netloc)
    while True:
        try:
            body = waiting.get_nowait()
        except Empty:
            return connection.close()
        connection.request("POST", f"/{index}/_bulk?filter_path=errors", body, NDJSON)
        answer = connection.getresponse().read()
        if answer != b'{"errors":false}':
            failed.append(answer[:500])

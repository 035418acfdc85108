"""A lab with an Elasticsearch: indexes read back whole, and compared with the query document by document."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx
from pydantic import SecretStr

from tests.support import Lab, wait_for
from vitrina.domain.pipeline import Pipeline
from vitrina.domain.policy import SINK_NAMES
from vitrina.meta.repos.pipelines import PipelineRepo
from vitrina.sinks.registry import resolve_sink
from vitrina.sinks.search.client import SearchClient
from vitrina.sinks.search.sink import SearchSink

ELASTICSEARCH, OPENSEARCH = "elasticsearch", "opensearch"
SCHEMES = {ELASTICSEARCH: "es", OPENSEARCH: "os"}
BOTH = (ELASTICSEARCH, OPENSEARCH)  # as the `engines` of a module: its tests are for each
FILMS = "SELECT id AS film_id, title, rating, type, modified FROM content.film_work"


@dataclass
class Search:
    """One test's part of the server: its indexes begin with `prefix`."""

    lab: Lab
    http: httpx.Client
    prefix: str
    engine: str = ELASTICSEARCH

    def name(self, index: str = "films") -> str:
        """Of an index of this test."""
        return self.prefix + index

    def target(self, index: str = "films") -> str:
        """For `target_table`."""
        return f"{SCHEMES[self.engine]}:{self.name(index)}"

    @property
    def server(self) -> str:
        """What it is, for people."""
        return SINK_NAMES[f"{SCHEMES[self.engine]}:"]

    def reach(self, url: str) -> None:
        """Let the lab find the server there."""
        self.lab.configure(**{f"{self.engine}_url": SecretStr(url)})

    def client(self) -> SearchClient:
        """As a runner has one."""
        sink = resolve_sink(self.target())
        assert isinstance(sink, SearchSink)
        return sink.client(self.lab.connections.settings)

    def add(self, index: str = "films", **config: Any) -> Pipeline:
        """A pipeline that keeps it."""
        values = {"name": index, "source_query": FILMS, "key": ["film_id"], "target_table": self.target(index)}
        return self.lab.add(**(values | config))

    def pipeline(self, index: str = "films") -> Pipeline:
        """As it is stored."""
        return Pipeline.parse(PipelineRepo(self.lab.db).get(index).config)

    def documents(self, index: str = "films") -> dict[str, Any]:
        """Everything that searches see, by id; numbers with all their digits."""
        name = self.name(index)
        self.http.post(f"/{name}/_refresh").raise_for_status()
        answer = self.http.post(f"/{name}/_search", json={"size": 10_000}).raise_for_status()
        hits = json.loads(answer.content, parse_float=str)["hits"]["hits"]
        return {hit["_id"]: hit["_source"] for hit in hits}

    def wanted(self, pipeline: Pipeline, id_: str = "film_id") -> dict[str, Any]:
        """What the index should hold, by the query itself."""
        self.lab.db.execute("SET timezone = 'UTC'")
        rows = self.lab.sql(f"SELECT q.{id_}::text, row_to_json(q)::text FROM ({pipeline.source_query}) AS q")
        return {key: json.loads(text, parse_float=str) for key, text in rows}

    def indexes(self, index: str = "films") -> dict[str, Any]:
        """The real indexes behind a name of ours, and those beside it."""
        return dict(self.http.get(f"/{self.name(index)}*").raise_for_status().json())

    def serves(self, index: str = "films") -> list[str]:
        """The real indexes that a search of this name sees."""
        return [name.removeprefix(self.prefix) for name in self.get(f"/{self.name(index)}")]

    def sent(self, index: str = "films") -> int:
        """How many documents were indexed or deleted in all that is behind this name."""
        total = self.get(f"/{self.name(index)}/_stats/indexing")["_all"]["primaries"]["indexing"]
        return int(total["index_total"]) + int(total["delete_total"])

    def forget_deletes(self, index: str = "films") -> None:
        """As a restart would: the versions of deletes are no longer known, as a probe shows."""
        name = self.name(index)
        self.http.put(f"/{name}/_settings", json={"index.gc_deletes": "0s"}).raise_for_status()
        probe = f"/{name}/_doc/probe?version_type=external&version="
        self.http.put(probe + "1", json={}).raise_for_status()
        self.http.delete(probe + "3").raise_for_status()
        wait_for(lambda: self._refreshed(name).put(probe + "2", json={}).status_code == 201)
        self.http.delete(f"/{name}/_doc/probe").raise_for_status()

    def _refreshed(self, name: str) -> httpx.Client:
        self.http.post(f"/{name}/_refresh").raise_for_status()
        return self.http

    def get(self, path: str) -> Any:
        """A GET of anything."""
        return self.http.get(path).raise_for_status().json()


@contextmanager
def open_search(lab: Lab, url: str, prefix: str, engine: str = ELASTICSEARCH, **settings: Any) -> Iterator[Search]:
    """Let a lab write to this test's indexes."""
    allowed = "allowed_es_indexes" if engine == ELASTICSEARCH else "allowed_opensearch_indexes"
    lab.configure(**{f"{engine}_url": SecretStr(url), allowed: [f"{prefix}*"]} | settings)
    with httpx.Client(base_url=url, trust_env=False, verify=False, timeout=60) as http:
        yield Search(lab, http, prefix, engine)

"""Talking to a search engine: a few requests, each answer read to its end, errors by what one can do about them."""

import json
import ssl
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpcore  # noqa: F401 (httpx would import it with the first client, in the middle of a run)
import httpx
from pydantic import SecretStr

from vitrina.domain.errors import ConfigError, FatalError, RetryableError
from vitrina.domain.findings import Code
from vitrina.neighbours import Neighbours
from vitrina.settings import Settings
from vitrina.sinks.search.texts import take_out
from vitrina.stores import Document

TIMEOUT = httpx.Timeout(60, connect=5)
LITTLE_TIME = httpx.Timeout(10, connect=5)  # for what can be tried again later
BUSY = {429, 502, 503, 504}  # trying again may cure it
BLOCKED = "cluster_block_exception"  # a full disk, as a rule
# An answer to a bulk is one status after the other: compressing it costs the server more than the network saves.
BULK_HEADERS = {"Content-Type": "application/x-ndjson", "Accept-Encoding": "identity"}
SCROLL_SIZE = 1_000
KEEP_ALIVE = "5m"


@dataclass(frozen=True)
class Answer:
    """A status and what came with it."""

    status: int
    body: Any

    @property
    def reason(self) -> str:
        """Why it was refused, in the server's words."""
        error = self.body.get("error", self.body) if isinstance(self.body, dict) else self.body
        if isinstance(error, dict):
            causes = error.get("root_cause") or [error]
            return f"{error.get('type', 'error')}: {causes[0].get('reason') or error.get('reason') or error}"
        return str(error)[:500]


@dataclass(frozen=True)
class Access:
    """Where a server is and what signs us in, as the settings say; without an address there is none."""

    url: SecretStr | None
    username: str | None = None
    password: SecretStr | None = None
    api_key: SecretStr | None = None
    ca_file: Path | None = None


class SearchClient:
    """One server, and what signs us in. Safe to use from several threads. A kind says what its servers do otherwise."""

    name: str  # for people
    prefix: str  # of its targets, by which the neighbours know it too
    variable: str  # what the names of its settings begin with
    remedy: str  # where there is none
    absent: Code  # the finding that there is none
    field_types: frozenset[str]  # that it comes with
    blocks: tuple[str, ...] = (BLOCKED,)  # what it says when it takes nothing for now, a new index among it

    @staticmethod
    def access(settings: Settings) -> Access:
        """Where the settings say it is."""
        raise NotImplementedError

    def __init__(
        self, settings: Settings, patience: httpx.Timeout = TIMEOUT, neighbours: Neighbours | None = None
    ) -> None:
        access = self.access(settings)
        if access.url is None:
            raise ConfigError(f"there is no {self.name}: {self.variable}_URL is not set", self.remedy)
        self.url = access.url.get_secret_value().rstrip("/")
        self._neighbours = neighbours or Neighbours()  # who is told how it answers
        try:
            self._http = httpx.Client(
                base_url=self.url,
                auth=_basic(access),
                headers=_api_key(access),
                verify=self._certificates(access),
                timeout=patience,
                trust_env=False,
            )
        except httpx.InvalidURL:
            raise self._unreadable() from None  # it quotes what may be a password

    @property
    def shown(self) -> str:
        """The address, without what signs us in."""
        return _shown(self.url)

    def close(self) -> None:
        """End its connections."""
        self._http.close()

    def bulk(self, alias: str, body: bytes) -> Answer:
        """Send documents through an alias, which must be there. An answer without errors tells how many were taken."""
        path = f"/{alias}/_bulk?require_alias=true&filter_path=errors,items.*.status,items.*.error"
        response = self._request("POST", path, content=body, headers=BULK_HEADERS)
        taken = _count_taken(response.content) if response.status_code == 200 else None
        return _answer(response) if taken is None else Answer(200, {"errors": False, "taken": taken})

    def health(self) -> Answer:
        """Whether it answers, and how the cluster is."""
        return self._ok(self._send("GET", "/_cluster/health"), "look at its health")

    def version(self) -> str:
        """Of the server, by its greeting; a build without one says it with its nodes."""
        greeting = self._send("GET", "/")
        if greeting.status == 200:
            return str(greeting.body["version"]["number"])
        path = "/_nodes/_local?filter_path=nodes.*.version"
        nodes = self._ok(self._send("GET", path), "tell its version").body["nodes"]
        return str(next(iter(nodes.values()))["version"])

    def search(self, index: str, query: dict[str, Any]) -> dict[str, Any]:
        """The hits of a search."""
        return dict(self._ok(self._send("POST", f"/{index}/_search", json=query), f"search {index}").body["hits"])

    def create(self, index: str, body: dict[str, Any]) -> Answer:
        """Create an index, without waiting for its shards; 400 if there is one of that name or the body is wrong."""
        return self._send("PUT", f"/{index}?wait_for_active_shards=0", json=body)

    def await_shards(self, index: str) -> None:
        """Until it can be read and written: what is sent waits by itself, what is counted does not."""
        path = f"/_cluster/health/{index}?wait_for_status=yellow&timeout=30s"
        self._ok(self._send("GET", path), f"make {index} ready")

    def delete(self, index: str) -> None:
        """Remove an index, if it is there."""
        answer = self._send("DELETE", f"/{index}?ignore_unavailable=true")
        if answer.status != 404:
            self._ok(answer, f"remove index {index}")

    def get(self, name: str) -> dict[str, Any]:
        """The indexes behind a name (an index, an alias, a pattern), with aliases, mapping and settings."""
        answer = self._send("GET", f"/{name}?ignore_unavailable=true")
        return {} if answer.status == 404 else dict(self._ok(answer, f"look at {name}").body)

    def move_aliases(self, actions: list[dict[str, Any]]) -> bool:
        """All of them or none; whether all that they name was there."""
        answer = self._send("POST", "/_aliases", json={"actions": actions})
        return answer.status != 404 and bool(self._ok(answer, "move an alias"))

    def configure(self, index: str, settings: dict[str, Any]) -> None:
        """Change the settings of an open index."""
        self._ok(self._send("PUT", f"/{index}/_settings", json=settings), f"change the settings of {index}")

    def refresh(self, index: str) -> None:
        """Let searches see what was written."""
        self._ok(self._send("POST", f"/{index}/_refresh"), f"refresh {index}")

    def count(self, index: str) -> int:
        """How many documents searches see."""
        return int(self._ok(self._send("GET", f"/{index}/_count"), f"count {index}").body["count"])

    def versions(self, index: str, ids: list[str]) -> dict[str, int]:
        """The present versions of documents, by id; those that are not there are left out."""
        answer = self._send("POST", f"/{index}/_mget?_source=false", json={"ids": ids})
        docs = self._ok(answer, f"look at documents of {index}").body["docs"]
        return {doc["_id"]: doc["_version"] for doc in docs if doc.get("found")}

    def find(self, index: str, ids: Sequence[str]) -> Iterator[Document]:
        """Documents by id; those that are not there are left out."""
        answer, sources = self._documents(f"/{index}/_mget", {"ids": list(ids)})
        return (_document(doc, sources) for doc in answer["docs"] if doc.get("found"))

    def scan(self, index: str) -> Iterator[Document]:
        """Every document of one moment."""
        pit, after = self.open_moment(index), None
        try:
            while True:
                query: dict[str, Any] = {
                    "size": SCROLL_SIZE,
                    "pit": {"id": pit, "keep_alive": KEEP_ALIVE},
                    "sort": [{"_shard_doc": "asc"}],
                    "version": True,
                    "track_total_hits": False,
                }
                if after is not None:
                    query["search_after"] = after
                answer, sources = self._documents("/_search", query)
                hits = answer["hits"]["hits"]
                if not hits:
                    return
                pit, after = answer.get("pit_id", pit), hits[-1]["sort"]
                yield from (_document(hit, sources) for hit in hits)
        finally:
            self.close_moment(pit)

    def open_moment(self, index: str) -> str:
        """What is searched from here on is the index as it is now; by which name."""
        opened = self._ok(self._send("POST", f"/{index}/_pit?keep_alive={KEEP_ALIVE}"), f"read {index}")
        return str(opened.body["id"])

    def close_moment(self, moment: str) -> None:
        """It is needed no longer."""
        self._send("DELETE", "/_pit", json={"id": moment})

    def _documents(self, path: str, body: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
        """Without filter_path: with it, documents are written anew, and 1.50 becomes 1.5."""
        response = self._request("POST", path, json=body)
        if response.status_code != 200:
            self._ok(_answer(response), "read")
        try:
            answer, sources = take_out(response.content.decode())
        except ValueError:
            answer, sources = response.text[:500], []
        return self._ok(Answer(200, answer), "read").body, sources

    def _send(self, method: str, path: str, **content: Any) -> Answer:
        return _answer(self._request(method, path, **content))

    def _request(self, method: str, path: str, **content: Any) -> httpx.Response:
        with self._neighbours.asking(self.prefix):
            return self._ask(method, path, **content)

    def _ask(self, method: str, path: str, **content: Any) -> httpx.Response:
        try:
            return self._http.request(method, path, **content)
        except httpx.InvalidURL:
            raise self._unreadable() from None
        except httpx.HTTPError as error:
            if "[SSL" in str(error):
                said = f"{self.name} at {self.shown} and we do not agree on TLS: {error}"
                remedy = f"check https:// in {self.variable}_URL, and VITRINA_{self.variable}_CA_FILE"
                raise ConfigError(said, remedy) from error
            raise RetryableError(
                f"{self.name} at {self.shown} does not answer: {error or type(error).__name__}",
                f"is it running, and is {self.variable}_URL right?",
            ) from error

    def _unreadable(self) -> ConfigError:
        remedy = "write http://host:9200; in a password that stands in it, %2F for a /"
        return ConfigError(f"{self.variable}_URL cannot be read", remedy)

    def _ok(self, answer: Answer, what: str) -> Answer:
        if answer.status < 300 and isinstance(answer.body, dict):
            return answer
        said = f"{self.name} would not {what}: {answer.reason}"
        if answer.status < 300:
            raise RetryableError(f"{said} is no answer of {self.name}", f"is {self.variable}_URL right?")
        if answer.status in BUSY:
            raise self.is_away(RetryableError(said))
        if answer.status in (401, 403):
            raise ConfigError(said, "check the user, its password or the API key, and what they may do")
        raise FatalError(said)

    def is_away(self, error: RetryableError) -> RetryableError:
        """The same: it does not take what is sent, though it may answer."""
        error.neighbour = self.prefix
        return error

    def _certificates(self, access: Access) -> ssl.SSLContext | bool:
        """The usual ones are not even read where nothing is encrypted: that takes as long as a few requests."""
        if access.ca_file is None:
            return not self.url.startswith("http:")
        try:
            return ssl.create_default_context(cafile=str(access.ca_file))
        except OSError as error:
            remedy = "name a readable PEM file"
            raise ConfigError(f"VITRINA_{self.variable}_CA_FILE cannot be read: {error}", remedy) from error


def _answer(response: httpx.Response) -> Answer:
    try:
        return Answer(response.status_code, json.loads(response.content))
    except ValueError:
        return Answer(response.status_code, response.text[:500])


def _document(hit: dict[str, Any], sources: Sequence[str]) -> Document:
    return Document(hit["_id"], hit["_version"], sources[hit["_source"]])


def _count_taken(answer: bytes) -> int | None:
    """How many items an answer without errors has, counted without taking it apart; None if it has to be read.

    Every item has one status, and nothing but that is asked for.
    """
    if not answer.startswith(b'{"errors":false,') or b'"error":' in answer:
        return None
    return answer.count(b'"status":')


def _basic(access: Access) -> tuple[str, str] | None:
    if access.username is None or access.password is None:
        return None
    return access.username, access.password.get_secret_value()


def _api_key(access: Access) -> dict[str, str]:
    return {"Authorization": f"ApiKey {access.api_key.get_secret_value()}"} if access.api_key else {}


def _shown(url: str) -> str:
    """The address without what signs us in."""
    parts = httpx.URL(url)
    return f"{parts.scheme}://{parts.host}" + (f":{parts.port}" if parts.port else "")

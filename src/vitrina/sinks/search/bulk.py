"""Sending documents: every item of every answer is read, and only what was not taken is sent again."""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass

from vitrina.domain.errors import ConfigError, FatalError, RetryableError
from vitrina.metrics.events import count_items
from vitrina.sinks.search.client import BLOCKED, BUSY, Answer, SearchClient
from vitrina.stores import Batch, Superseded

FIRST_WAIT, LONGEST_WAIT, PATIENCE = 0.1, 5.0, 45.0  # seconds
ID_BYTES = 512
DELETE = b'{"delete":{"_id":'
# Changes nothing, whether there is such a document or not, and is refused where there is no alias.
WITNESS = b'{"update":{"_id":"vitrina-witness"}}\n{"doc":{}}\n'
GONE = {"index_not_found_exception", "alias_not_found_exception"}


@dataclass
class BulkSender:
    """Sends for one pipeline. `check` raises when the run should stop."""

    client: SearchClient
    check: Callable[[], None] = lambda: None
    target: str = ""  # by which items are counted
    newest: int = 0  # the highest version that was sent from here

    def write(self, alias: str, batch: Batch) -> None:
        """A batch, as the items of a bulk request."""
        self.newest = max(self.newest, batch.version)
        self.send(alias, frame(batch))

    def send(self, alias: str, items: list[bytes]) -> None:
        """Until every item has been taken."""
        waited, wait = 0.0, FIRST_WAIT
        while items:
            try:
                answer = self._ask(alias, items)
                if answer.status == 413:
                    return self._send_halves(alias, items)
                items, why = self.left_over(alias, items, answer)
            except RetryableError as error:
                why = error.message  # sent again as a whole: the same versions, so nothing is applied twice
            if not items:
                return None
            if waited >= PATIENCE:
                raise self.client.is_away(
                    RetryableError(f"{self.client.name} took {len(items):,} documents not even after a while: {why}")
                )
            self._pause(wait)
            waited, wait = waited + wait, min(wait * 2, LONGEST_WAIT)
        return None

    def _ask(self, alias: str, items: list[bytes]) -> Answer:
        """A delete asks for no alias: the server would make an index of that name, and call it well. So where there is
        nothing else, something goes before that does."""
        if not all(item.startswith(DELETE) for item in items):
            return self.client.bulk(alias, b"".join(items))
        return _without_witness(self.client.bulk(alias, WITNESS + b"".join(items)))

    def _pause(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            self.check()
            time.sleep(0.02)

    def _send_halves(self, alias: str, items: list[bytes]) -> None:
        if len(items) == 1:
            raise FatalError(
                f"document {_id(items[0])!r} of {len(items[0]):,} bytes is too large for {self.client.name}",
                "make it smaller, or raise http.max_content_length there",
            )
        middle = len(items) // 2
        for half in (items[:middle], items[middle:]):
            self.send(alias, half)

    def left_over(self, alias: str, items: list[bytes], answer: Answer) -> tuple[list[bytes], str]:
        """What has to be sent again, and why."""
        if answer.status >= 300:
            return self._refused(alias, items, answer)
        results = _results(answer)
        answered = answer.body.get("taken", len(results)) if isinstance(answer.body, dict) else 0
        if answered != len(items):
            return items, f"an answer for {answered:,} of {len(items):,} documents"
        if not any(map(_has_failed, results)):
            count_items(self.target, "taken", len(items))
            return [], ""
        return self._failed_of(alias, items, results)

    def _failed_of(self, alias: str, items: list[bytes], results: list[dict[str, object]]) -> tuple[list[bytes], str]:
        """Answers come in the order of the items, so they need not name them."""
        pairs = zip(items, results, strict=True)
        failed = [(item, result) for item, result in pairs if _has_failed(result)]
        again = [(item, result) for item, result in failed if _is_curable(result)]
        count_items(self.target, "taken", len(items) - len(failed))
        count_items(self.target, "retried", len(again))
        if len(again) < len(failed):
            _refuse_ids(items, self.client.name)
        self._judge(alias, [(_id(item), result) for item, result in failed if not _is_curable(result)])
        why = _reason(again[0][1]) if again else ""
        return [item for item, _ in again], why

    def _refused(self, alias: str, items: list[bytes], answer: Answer) -> tuple[list[bytes], str]:
        if answer.status in BUSY or BLOCKED in answer.reason:
            return items, answer.reason
        if answer.status == 404:
            raise Superseded(f"the write alias {alias} is gone")
        if answer.status in (401, 403):
            raise ConfigError(f"{self.client.name} refused to write: {answer.reason}", "check its user and rights")
        _refuse_ids(items, self.client.name)
        raise FatalError(f"{self.client.name} refused a bulk request: {answer.reason}")

    def _judge(self, alias: str, failed: list[tuple[str, dict[str, object]]]) -> None:
        """What no second try can cure: an alias that is gone, a version above ours, a document that does not fit."""
        if any(_kind(result) in GONE for _, result in failed):
            raise Superseded(f"the write alias {alias} is gone")
        conflicts = [id_ for id_, result in failed if result["status"] == 409]
        count_items(self.target, "conflict", len(conflicts))
        count_items(self.target, "refused", len(failed) - len(conflicts))
        if conflicts:
            self._judge_versions(alias, conflicts)
        poison = [(id_, result) for id_, result in failed if result["status"] != 409]
        if poison:
            named = "; ".join(f"{id_}: {_reason(result)}" for id_, result in poison[:3])
            more = f" (and {len(poison) - 3:,} more)" if len(poison) > 3 else ""
            raise FatalError(
                f"{self.client.name} refused {len(poison):,} document(s): {named}{more}",
                "correct the data or the query, or map the field otherwise (mapping) and run again",
            )

    def _judge_versions(self, alias: str, ids: list[str]) -> None:
        """A conflict with a later write of our own is none."""
        for id_, version in self.client.versions(alias, ids).items():
            if version > self.newest:
                raise Superseded(f"document {id_!r} has version {version}, above any that was sent from here")


def frame(batch: Batch) -> list[bytes]:
    """NDJSON: an action, and below it the document unless it is a delete. Nothing is taken apart."""
    tail = b',"version":%d,"version_type":"external_gte"}}\n' % batch.version
    return [
        b'{"index":{"_id":%b%b%b\n' % (id_, tail, text) if text else DELETE + b"%b%b" % (id_, tail)
        for id_, text in batch.pairs()
    ]


def _without_witness(answer: Answer) -> Answer:
    """What it answers for the documents alone; where the alias is gone, theirs say so too."""
    body = answer.body
    if not isinstance(body, dict):
        return answer
    kept = {"taken": body["taken"] - 1} if "taken" in body else {}
    if isinstance(body.get("items"), list):
        kept["items"] = body["items"][1:]
    return Answer(answer.status, body | kept)


def _id(item: bytes) -> str:
    action = json.loads(item.split(b"\n", 1)[0])
    return str(next(iter(action.values()))["_id"])


def _results(answer: Answer) -> list[dict[str, object]]:
    """One for each item; fewer, or none, if the answer is not what a search engine answers."""
    items = answer.body.get("items", []) if isinstance(answer.body, dict) else []
    results = [next(iter(item.values()), None) for item in items if isinstance(item, dict)]
    return [result for result in results if isinstance(result, dict) and "status" in result]


def _refuse_ids(items: list[bytes], engine: str) -> None:
    """A ConfigError that names a key which is no `_id`; some servers refuse the whole request for it."""
    for id_ in map(_id, items):
        size = len(id_.encode())
        if not 0 < size <= ID_BYTES:
            shown = id_ if size <= 60 else f"{id_[:60]}…"
            raise ConfigError(
                f"the key {shown!r} has {size:,} bytes as an _id, and {engine} takes 1 to {ID_BYTES}",
                "choose a shorter key, or hash it in the query",
            )


def _has_failed(result: dict[str, object]) -> bool:
    return "error" in result


def _is_curable(result: dict[str, object]) -> bool:
    return result["status"] in BUSY or _kind(result) == BLOCKED


def _kind(result: dict[str, object]) -> str:
    error = result.get("error")
    return str(error.get("type", "")) if isinstance(error, dict) else ""


def _reason(result: dict[str, object]) -> str:
    error = result.get("error")
    if not isinstance(error, dict):
        return str(error)
    cause = error.get("caused_by") or {}
    return ": ".join(str(part) for part in (error.get("reason"), cause.get("reason")) if part)

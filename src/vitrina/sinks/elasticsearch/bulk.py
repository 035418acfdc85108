"""Sending documents: every item of every answer is read, and only what was not taken is sent again."""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass

from vitrina.domain.errors import ConfigError, FatalError, RetryableError
from vitrina.failpoints import reach
from vitrina.metrics.events import count_items
from vitrina.sinks.elasticsearch.client import BUSY, Answer, Elastic, Intruder

FIRST_WAIT, LONGEST_WAIT, PATIENCE = 0.1, 5.0, 45.0  # seconds
BLOCKED = "cluster_block_exception"  # a full disk, as a rule
ID_BYTES = 512
GONE = {"index_not_found_exception", "alias_not_found_exception"}


@dataclass(frozen=True)
class Shipment:
    """A body of NDJSON, and how many items it has."""

    body: bytes
    count: int


@dataclass(frozen=True)
class BulkSender:
    """Sends through the write alias of one epoch. `check` raises when the run should stop."""

    elastic: Elastic
    alias: str
    newest: Callable[[], int]  # the highest version that we have given out
    check: Callable[[], None] = lambda: None
    target: str = ""  # by which items are counted

    def send(self, shipment: Shipment) -> None:
        """Until every item has been taken."""
        waited, wait = 0.0, FIRST_WAIT
        while shipment.count:
            try:
                reach("before bulk")
                answer = self.elastic.bulk(self.alias, shipment.body)
                reach("after bulk")
                if answer.status == 413:
                    return self._send_halves(shipment)
                shipment, why = self._left_over(shipment, answer)
            except RetryableError as error:
                why = error.message  # sent again as a whole: the same versions, so nothing is applied twice
            if not shipment.count:
                return None
            if waited >= PATIENCE:
                raise RetryableError(f"Elasticsearch took {shipment.count:,} documents not even after a while: {why}")
            self._pause(wait)
            waited, wait = waited + wait, min(wait * 2, LONGEST_WAIT)
        return None

    def _pause(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            self.check()
            time.sleep(0.02)

    def _send_halves(self, shipment: Shipment) -> None:
        items = split(shipment.body)
        if len(items) == 1:
            raise FatalError(
                f"document {_id(items[0])!r} of {len(items[0]):,} bytes is too large for Elasticsearch",
                "make it smaller, or raise http.max_content_length there",
            )
        middle = len(items) // 2
        for half in (items[:middle], items[middle:]):
            self.send(Shipment(b"".join(half), len(half)))

    def _left_over(self, shipment: Shipment, answer: Answer) -> tuple[Shipment, str]:
        """What has to be sent again, and why."""
        if answer.status >= 300:
            return self._refused(shipment, answer)
        results = _results(answer)
        answered = answer.body.get("taken", len(results)) if isinstance(answer.body, dict) else 0
        if answered != shipment.count:
            return shipment, f"an answer for {answered:,} of {shipment.count:,} documents"
        if not any(map(_has_failed, results)):
            count_items(self.target, "taken", shipment.count)
            return Shipment(b"", 0), ""
        return self._failed_of(shipment, results)

    def _failed_of(self, shipment: Shipment, results: list[dict[str, object]]) -> tuple[Shipment, str]:
        """Answers come in the order of the items, so they need not name them."""
        pairs = zip(split(shipment.body), results, strict=True)
        failed = [(item, result) for item, result in pairs if _has_failed(result)]
        again = [(item, result) for item, result in failed if _is_curable(result)]
        count_items(self.target, "taken", shipment.count - len(failed))
        count_items(self.target, "retried", len(again))
        if len(again) < len(failed):
            _refuse_ids(shipment)
        self._judge([(_id(item), result) for item, result in failed if not _is_curable(result)])
        why = _reason(again[0][1]) if again else ""
        return Shipment(b"".join(item for item, _ in again), len(again)), why

    def _refused(self, shipment: Shipment, answer: Answer) -> tuple[Shipment, str]:
        if answer.status in BUSY or BLOCKED in answer.reason:
            return shipment, answer.reason
        if answer.status == 404:
            raise Intruder(f"the write alias {self.alias} is gone")
        if answer.status in (401, 403):
            raise ConfigError(f"Elasticsearch refused to write: {answer.reason}", "check its user and rights")
        _refuse_ids(shipment)
        raise FatalError(f"Elasticsearch refused a bulk request: {answer.reason}")

    def _judge(self, failed: list[tuple[str, dict[str, object]]]) -> None:
        """What no second try can cure: an alias that is gone, a version above ours, a document that does not fit."""
        if any(_kind(result) in GONE for _, result in failed):
            raise Intruder(f"the write alias {self.alias} is gone")
        conflicts = [id_ for id_, result in failed if result["status"] == 409]
        count_items(self.target, "conflict", len(conflicts))
        count_items(self.target, "refused", len(failed) - len(conflicts))
        if conflicts:
            self._judge_versions(conflicts)
        poison = [(id_, result) for id_, result in failed if result["status"] != 409]
        if poison:
            named = "; ".join(f"{id_}: {_reason(result)}" for id_, result in poison[:3])
            more = f" (and {len(poison) - 3:,} more)" if len(poison) > 3 else ""
            raise FatalError(
                f"Elasticsearch refused {len(poison):,} document(s): {named}{more}",
                "correct the data or the query, or map the field otherwise (mapping) and run again",
            )

    def _judge_versions(self, ids: list[str]) -> None:
        """A conflict with a later write of our own is none."""
        newest = self.newest()
        for id_, version in self.elastic.versions(self.alias, ids).items():
            if version > newest:
                raise Intruder(f"document {id_!r} has version {version}, above any that was sent from here")


def split(body: bytes) -> list[bytes]:
    """A body as its items: a delete is one line, everything else two."""
    lines = (line + b"\n" for line in body.split(b"\n")[:-1])
    return [line if line.startswith(b'{"delete"') else line + next(lines) for line in lines]


def _id(item: bytes) -> str:
    action = json.loads(item.split(b"\n", 1)[0])
    return str(next(iter(action.values()))["_id"])


def _results(answer: Answer) -> list[dict[str, object]]:
    """One for each item; fewer, or none, if the answer is not what Elasticsearch answers."""
    items = answer.body.get("items", []) if isinstance(answer.body, dict) else []
    results = [next(iter(item.values()), None) for item in items if isinstance(item, dict)]
    return [result for result in results if isinstance(result, dict) and "status" in result]


def _refuse_ids(shipment: Shipment) -> None:
    """A ConfigError that names a key which is no `_id`; Elasticsearch refuses the whole request for it."""
    for id_ in map(_id, split(shipment.body)):
        size = len(id_.encode())
        if not 0 < size <= ID_BYTES:
            shown = id_ if size <= 60 else f"{id_[:60]}…"
            raise ConfigError(
                f"the key {shown!r} has {size:,} bytes as an _id, and Elasticsearch takes 1 to {ID_BYTES}",
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

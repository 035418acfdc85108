"""Answers to a bulk request: those without errors are counted, all others are read item by item."""

import json
from contextlib import suppress
from typing import Any

import httpx
import pytest
from pydantic import SecretStr

from vitrina.domain.errors import FatalError
from vitrina.metrics.events import REGISTRY
from vitrina.settings import Settings
from vitrina.sinks.elasticsearch.client import Elastic
from vitrina.sinks.search.bulk import BulkSender, frame
from vitrina.sinks.search.client import Answer
from vitrina.sinks.search.texts import take_out
from vitrina.stores import Batch, Document

TAKEN = {"index": {"_id": 'a"status":b', "status": 201}}
BUSY = {"index": {"_id": "c", "status": 429, "error": {"type": "es_rejected_execution_exception", "reason": "full"}}}
POISON = {"index": {"_id": "d", "status": 400, "error": {"type": "document_parsing_exception", "reason": "no date"}}}
ITEMS = [b'{"index":{"_id":"1"}}\n{}\n', b'{"index":{"_id":"2"}}\n{}\n']


def answer(monkeypatch: pytest.MonkeyPatch, content: Any, status: int = 200) -> Answer:
    """What the client makes of it, written without spaces as Elasticsearch does."""
    elastic = Elastic(Settings(elasticsearch_url=SecretStr("http://localhost:1")))
    text = json.dumps(content, separators=(",", ":"))
    monkeypatch.setattr(elastic, "_request", lambda *_, **__: httpx.Response(status, text=text))
    return elastic.bulk("films", b"".join(ITEMS))


def left_over(answer: Answer) -> tuple[list[bytes], str]:
    """What a request of two documents has to send again after that answer."""
    elastic = Elastic(Settings(elasticsearch_url=SecretStr("http://localhost:1")))
    return BulkSender(elastic).left_over("films", ITEMS, answer)


def test_an_answer_without_errors_is_counted_whatever_the_ids_look_like(monkeypatch: pytest.MonkeyPatch) -> None:
    given = answer(monkeypatch, {"errors": False, "items": [TAKEN, TAKEN]})
    assert given.body == {"errors": False, "taken": 2}
    assert left_over(given) == ([], "")


def test_an_answer_for_fewer_documents_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    given = answer(monkeypatch, {"errors": False, "items": [TAKEN]})
    assert left_over(given) == (ITEMS, "an answer for 1 of 2 documents")


@pytest.mark.parametrize("errors", [True, False])
def test_an_answer_with_an_error_is_read(monkeypatch: pytest.MonkeyPatch, errors: bool) -> None:
    given = answer(monkeypatch, {"errors": errors, "items": [TAKEN, BUSY]})
    assert left_over(given) == ([ITEMS[1]], "full")


@pytest.mark.parametrize(("second", "outcome"), [(TAKEN, "taken"), (BUSY, "retried"), (POISON, "refused")])
def test_items_are_counted_by_what_became_of_them(
    monkeypatch: pytest.MonkeyPatch, second: dict[str, Any], outcome: str
) -> None:
    elastic = Elastic(Settings(elasticsearch_url=SecretStr("http://localhost:1")))
    sender = BulkSender(elastic, target=f"es:{outcome}")
    with suppress(FatalError):
        sender.left_over("films", ITEMS, answer(monkeypatch, {"errors": True, "items": [TAKEN, second]}))
    wanted = {"taken": 1.0} | {outcome: 2.0 if outcome == "taken" else 1.0}
    found = {status: _counted(f"es:{outcome}", status) for status in ("taken", "retried", "conflict", "refused")}
    assert {status: count for status, count in found.items() if count} == wanted


def _counted(target: str, status: str) -> float | None:
    return REGISTRY.get_sample_value("vitrina_elasticsearch_items_total", {"target": target, "status": status})


def test_a_batch_is_framed_and_given_as_documents() -> None:
    batch = Batch(7, b'"a\\n\\"b"\n{"n": 1.50}\n"c"\n\n', 2)
    assert list(batch) == [Document('a\n"b', 7, '{"n": 1.50}'), Document("c", 7, None)]
    assert frame(batch) == [
        b'{"index":{"_id":"a\\n\\"b","version":7,"version_type":"external_gte"}}\n{"n": 1.50}\n',
        b'{"delete":{"_id":"c","version":7,"version_type":"external_gte"}}\n',
    ]


def test_documents_of_an_answer_are_the_texts_that_they_are() -> None:
    source = '{"n": 1.50, "hits": [{"_source":{}}], "s": "\\"_source\\": }]", "big": ' + "9" * 5000 + "}"
    hit = f'{{"_id":"\\"_source\\":","_source":{source},"sort":[1]}}'
    answer, sources = take_out(f'{{"pit_id":"x","hits":{{"hits":[{hit},{{"found":false}},{hit}]}}}}')
    found: list[dict[str, Any]] = [{"_id": '"_source":', "_source": 0, "sort": [1]}, {"found": False}]
    assert sources == [source, source]
    assert answer == {"pit_id": "x", "hits": {"hits": [*found, found[0] | {"_source": 1}]}}

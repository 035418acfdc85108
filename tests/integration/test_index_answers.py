"""Answers that a healthy server does not give, by a stand-in before the real one: what is sent again, what fails."""

import os
from collections import Counter
from collections.abc import Callable, Iterator
from threading import Thread

import pytest

from tests.elastic import BOTH, Search
from tests.proxy import Answer, Lost, Proxy, Request, Rule, proxying, refuse
from tests.sinks import assert_tidy
from tests.support import wait_for
from vitrina.domain.pipeline import Pipeline
from vitrina.runner.main import Runner
from vitrina.sinks.search import bulk

engines = BOTH

ROUNDS = int(os.environ.get("VITRINA_ROUNDS", "0"))
BLOCK = b'{"error": {"type": "cluster_block_exception", "reason": "disk usage exceeded flood-stage"}, "status": 403}'


@pytest.fixture
def proxy(search: Search, engine_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    """Between the lab and the server; waits are short."""
    monkeypatch.setattr(bulk, "FIRST_WAIT", 0.01)
    monkeypatch.setattr(bulk, "LONGEST_WAIT", 0.02)
    monkeypatch.setattr(bulk, "PATIENCE", 0.2)
    with proxying(engine_url) as proxy:
        search.reach(proxy.url)
        yield proxy


def go_on(search: Search, pipeline: Pipeline) -> None:
    """The run that waits, once it is due."""
    search.lab.sql("UPDATE etl.etl_pipelines SET due_at = now()")
    Runner(search.lab.connections).run_once(pipeline.id)
    assert search.lab.last_run(pipeline)["status"] == "SUCCESS"


def went(search: Search, pipeline: Pipeline) -> None:
    """A run that ends well and equal at its first attempt."""
    run = search.lab.run(pipeline)
    assert (run["error"], run["status"], run["attempt"]) == (None, "SUCCESS", 1)
    assert_equal(search, pipeline)


def assert_equal(search: Search, pipeline: Pipeline) -> None:
    assert search.documents() == search.wanted(pipeline)
    assert_tidy(search.lab)


def first(count: int, answer: Callable[[Proxy, Request], Answer | None]) -> Rule:
    """A rule for the first bulk requests only."""
    return lambda proxy, request: answer(proxy, request) if request.is_bulk and request.number <= count else None


@pytest.mark.scenario(38)
def test_of_items_that_are_refused_for_now_only_those_are_sent_again(search: Search, proxy: Proxy) -> None:
    def busy(proxy: Proxy, request: Request) -> Answer:
        refused = {n for n in range(len(request.items)) if n % 10 < 3}
        return refuse(proxy, request, refused, 429, "es_rejected_execution_exception")

    proxy.rule = first(3, busy)
    pipeline = search.add(batch_size=20)
    went(search, pipeline)
    times = Counter(id_ for ids in proxy.sent for id_ in ids)
    assert len(times) == 60
    assert sum(times.values()) in range(60 + 12, 60 + 19)  # 30% of three requests, some of which were second ones
    assert search.sent() == 60


@pytest.mark.parametrize("status", [502, 503, 504])
def test_an_item_that_fails_for_now_is_sent_again(search: Search, proxy: Proxy, status: int) -> None:
    proxy.rule = first(1, lambda proxy, request: refuse(proxy, request, {0}, status, "unavailable_shards_exception"))
    went(search, search.add())
    assert [len(ids) for ids in proxy.sent] == [60, 1]


@pytest.mark.scenario(39)
def test_an_answer_that_is_lost_after_it_was_applied_does_no_harm(search: Search, proxy: Proxy) -> None:
    def lose(proxy: Proxy, request: Request) -> Answer:
        proxy.forward(request, request.body)
        raise Lost

    proxy.rule = first(2, lose)
    pipeline = search.add(batch_size=20)
    went(search, pipeline)
    search.lab.sql("DELETE FROM content.film_work WHERE id IN (SELECT id FROM content.film_work LIMIT 5)")
    proxy.sent.clear()
    went(search, pipeline)
    assert [len(ids) for ids in proxy.sent] == [5, 5, 5]


def test_a_delete_waits_until_what_was_sent_before_it_has_arrived(search: Search, proxy: Proxy) -> None:
    """Sent again after it, to a server that forgot the delete, a document would rise from the dead."""
    pipeline = search.add()
    went(search, pipeline)
    proxy.sent.clear()
    proxy.kinds.clear()
    [id_, *_] = search.documents()
    search.lab.sql("DELETE FROM content.film_work WHERE id = %s", id_)
    search.lab.sql("UPDATE content.film_work SET title = title || '!'")
    proxy.rule = first(4, lambda proxy, request: (503, b'{"error": "busy"}'))
    went(search, pipeline)
    assert proxy.kinds == [*["index"] * 5, "delete"]


@pytest.mark.parametrize("content", [b"<html>proxy</html>", b"[]", b'{"items": [{}, 7]}', b'{"took": 1', b"null", b""])
def test_an_answer_that_is_no_answer_is_asked_for_again(search: Search, proxy: Proxy, content: bytes) -> None:
    proxy.rule = first(1, lambda proxy, request: (200, content))
    went(search, search.add())


def test_an_answer_that_lacks_items_is_not_believed(search: Search, proxy: Proxy) -> None:
    def cut(proxy: Proxy, request: Request) -> Answer:
        half = request.items[: len(request.items) // 2]
        return proxy.forward(request, b"".join(half))

    proxy.rule = first(1, cut)
    went(search, search.add())
    assert [len(ids) for ids in proxy.sent] == [60, 60]


@pytest.mark.parametrize("status", [429, 503])
def test_a_server_that_is_busy_for_a_while(search: Search, proxy: Proxy, status: int) -> None:
    proxy.rule = first(4, lambda proxy, request: (status, b'{"error": "busy"}'))
    went(search, search.add())


@pytest.mark.scenario(40)
def test_a_request_that_is_too_large_is_split(search: Search, proxy: Proxy) -> None:
    def small(proxy: Proxy, request: Request) -> Answer | None:
        return (413, b"") if request.is_bulk and len(request.items) > 8 else None

    proxy.rule = small
    went(search, search.add())
    assert [len(ids) for ids in proxy.sent] == [60, 30, 15, 7, 8, 15, 7, 8, 30, 15, 7, 8, 15, 7, 8]


def test_one_document_that_is_too_large_is_named(search: Search, proxy: Proxy) -> None:
    proxy.rule = lambda proxy, request: (413, b"") if request.is_bulk else None
    error = search.lab.run(search.add())["said"]
    assert f"bytes is too large for {search.server} — make it smaller, or raise http.max_content_length there" in error


@pytest.mark.long
@pytest.mark.scenario(40)
def test_a_full_disk_is_waited_for_only_so_long(search: Search, proxy: Proxy) -> None:
    proxy.rule = lambda proxy, request: (403, BLOCK) if request.is_bulk else None
    pipeline = search.add()
    run = search.lab.run(pipeline)
    assert (run["status"], run["attempt"] > 1, search.lab.status(pipeline)) == ("RUNNING", True, "RUN_REQUESTED")
    assert "cluster_block_exception: disk usage exceeded flood-stage" in run["said"]
    proxy.rule = lambda proxy, request: None
    go_on(search, pipeline)


@pytest.mark.long
def test_an_index_that_is_really_blocked_is_waited_for_and_goes_on_when_it_is_not(search: Search, proxy: Proxy) -> None:
    pipeline = search.add()
    went(search, pipeline)
    search.lab.sql("UPDATE content.film_work SET title = title || '!'")
    block = {"index.blocks.write": True}  # one that the server does not lift by itself when it looks at the disk
    search.http.put(f"/{search.name()}/_settings", json=block).raise_for_status()
    assert "index write (api)" in search.lab.run(pipeline)["said"]
    assert search.lab.status(pipeline) == "RUN_REQUESTED"
    search.http.put(f"/{search.name()}/_settings", json=dict.fromkeys(block)).raise_for_status()
    go_on(search, pipeline)
    assert_equal(search, pipeline)


def test_a_user_who_may_not_write_fails_at_once(search: Search, proxy: Proxy) -> None:
    denied = b'{"error": {"type": "security_exception", "reason": "action is unauthorized"}, "status": 403}'
    proxy.rule = lambda proxy, request: (403, denied) if request.is_bulk else None
    run = search.lab.run(search.add())
    assert (run["attempt"], run["status"]) == (1, "FAILED")
    assert "unauthorized" in run["said"]


@pytest.mark.scenario(41)
def test_a_server_that_is_down_at_the_start(search: Search, proxy: Proxy) -> None:
    pipeline = search.add()
    proxy.stop()
    run = search.lab.run(pipeline)
    assert (run["status"], run["attempt"] > 1, search.lab.status(pipeline)) == ("RUNNING", True, "RUN_REQUESTED")
    assert "does not answer" in run["said"]
    assert f"is it running, and is {search.server.upper()}_URL right?" in run["said"]
    proxy.start(proxy.port)
    go_on(search, pipeline)


@pytest.mark.scenario(41)
def test_a_server_that_goes_down_in_the_middle_and_comes_back(
    search: Search, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk, "PATIENCE", 30)
    down = [False]

    def drop(proxy: Proxy, request: Request) -> Answer | None:
        down[0] = down[0] or request.number > 4
        if down[0]:
            raise Lost
        return None

    proxy.rule = drop
    pipeline = search.add(batch_size=7)
    thread = Thread(target=search.lab.run, args=(pipeline,))
    thread.start()
    wait_for(lambda: len(proxy.sent) > 8)
    proxy.rule = lambda proxy, request: None
    thread.join()
    assert search.lab.last_run(pipeline)["attempt"] == 1
    assert_equal(search, pipeline)


@pytest.mark.long
def test_every_request_may_fail_now_and_then(search: Search, proxy: Proxy) -> None:
    """Aliases, settings, counts and the rest: whichever fails, the run tries again and ends equal."""
    search.lab.configure(es_grace_seconds=0)
    pipeline = search.add(batch_size=20)
    for number in range(1, 30, 1 if ROUNDS else 4):
        seen = [0]

        def fail(proxy: Proxy, request: Request, number: int = number, seen: list[int] = seen) -> Answer | None:
            seen[0] += 1
            return (503, b'{"error": "scripted"}') if seen[0] == number else None

        proxy.rule = fail
        run = search.lab.run(pipeline, rebuild=True)
        assert (run["error"], run["status"]) == (None, "SUCCESS")
        if seen[0] < number:
            break
    assert_equal(search, pipeline)
    assert number > 12

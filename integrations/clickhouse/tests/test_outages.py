"""A ClickHouse that is away, too busy, slow, or killed amid a run: waited for, and the mart is its query in the end."""

from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from pydantic import SecretStr

from tests.clickhouse import ClickMart, Server, open_mart, running
from tests.proxy import Answer, Lost, Proxy, Request, proxying
from tests.support import Lab
from vitrina.domain.pipeline import Pipeline
from vitrina.runner.main import Runner
from vitrina.sinks.clickhouse import sink
from vitrina.sinks.documents.delivery import Delivery
from vitrina.sinks.registry import look_at_sinks
from vitrina.testing.faults import change
from vitrina.testing.marts import assert_equal, failed, items

INSERT = "query=INSERT"


@pytest.fixture
def proxy(click_mart: ClickMart, clickhouse: str) -> Iterator[Proxy]:
    """Between the lab and the server."""
    with proxying(clickhouse) as proxy:
        click_mart.lab.configure(clickhouse_url=SecretStr(proxy.url))
        yield proxy


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Server]:
    """A server to be killed."""
    with running(tmp_path / "clickhouse") as server:
        yield server


def waits(mart: ClickMart, pipeline: Pipeline) -> None:
    """A run that does not end, but waits."""
    run = mart.lab.run(pipeline)
    assert (mart.lab.status(pipeline), run["status"]) == ("RUN_REQUESTED", "RUNNING")


def go_on(mart: ClickMart, pipeline: Pipeline) -> None:
    """The run that waits, once it is due."""
    mart.lab.sql("UPDATE etl.etl_pipelines SET due_at = now()")
    Runner(mart.lab.connections).run_once(pipeline.id)
    run = mart.lab.last_run(pipeline)
    assert (run["error"], run["status"]) == (None, "SUCCESS")
    assert_equal(mart, pipeline)


def lose(proxy: Proxy, request: Request) -> Answer:
    raise Lost


def lose_answer(proxy: Proxy, request: Request) -> Answer:
    """All has arrived, and nobody hears of it."""
    proxy.forward(request, request.body, None)
    raise Lost


TROUBLES: dict[str, Callable[[Proxy, Request], Answer]] = {
    "503": lambda proxy, request: (503, b"upstream connect error"),
    "500": lambda proxy, request: (500, b"Internal Server Error"),
    "429": lambda proxy, request: (429, b"slow down"),
    "out of memory": lambda proxy, request: (
        500,
        b"Code: 241. DB::Exception: too much. (MEMORY_LIMIT_EXCEEDED)",
    ),
    "too many parts": lambda proxy, request: (500, b"Code: 252. DB::Exception: Too many parts. (TOO_MANY_PARTS)"),
    "cut off": lose,
    "answer lost": lose_answer,
}


@pytest.mark.parametrize("trouble", TROUBLES.values(), ids=TROUBLES)
def test_a_server_in_trouble_is_waited_for(click_mart: ClickMart, proxy: Proxy, trouble: Any) -> None:
    pipeline = items(click_mart)
    proxy.rule = lambda proxy, request: trouble(proxy, request) if INSERT in request.path else None
    waits(click_mart, pipeline)
    assert "ch:" in click_mart.lab.connections.neighbours.outages
    proxy.rule = lambda proxy, request: None
    go_on(click_mart, pipeline)


def test_a_server_that_is_slow_is_waited_for(
    click_mart: ClickMart, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sink, "TIMEOUT", 2)
    pipeline, awake = items(click_mart), Event()

    def sleep(proxy: Proxy, request: Request) -> Answer | None:
        return None if INSERT not in request.path or awake.wait(60) else (503, b"")

    proxy.rule = sleep
    waits(click_mart, pipeline)
    awake.set()
    monkeypatch.setattr(sink, "TIMEOUT", 60)
    go_on(click_mart, pipeline)


def test_whoever_may_not_is_no_outage(click_mart: ClickMart, proxy: Proxy) -> None:
    denied = b"Code: 497. DB::Exception: vitrina: Not enough privileges. To execute this query, it's necessary to have"
    proxy.rule = lambda proxy, request: (403, denied) if INSERT in request.path else None
    assert "check VITRINA_CLICKHOUSE_URL, and what its user may do" in failed(click_mart, items(click_mart))
    assert not click_mart.lab.connections.neighbours.outages


def test_a_server_that_is_killed_amid_a_run_has_all_that_it_took(
    lab: Lab, own: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_mart(lab, own.url) as mart:
        pipeline = items(mart, 60, batch_size=10)
        send, sent = Delivery._send, []

        def kill(delivery: Delivery, name: str, batch: Any) -> None:
            sent.append(batch)
            if len(sent) == 3:
                own.kill()
            send(delivery, name, batch)

        monkeypatch.setattr(Delivery, "_send", kill)
        waits(mart, pipeline)
        assert "error" in look_at_sinks(lab.connections.settings, lab.connections.neighbours)["clickhouse"]
        change(lab)
        own.start()
        go_on(mart, pipeline)
        assert look_at_sinks(lab.connections.settings, lab.connections.neighbours)["clickhouse"]["version"]


def test_a_server_that_was_away_from_the_beginning(lab: Lab, own: Server) -> None:
    with open_mart(lab, own.url) as mart:
        pipeline = items(mart)
        own.kill()
        waits(mart, pipeline)
        own.start()
        go_on(mart, pipeline)

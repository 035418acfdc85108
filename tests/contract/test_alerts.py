"""Alerts as people see them: whom they are told, how that went, and a test that a real runner sends."""

import json
from collections.abc import Iterator

import pytest

from tests.contract.server import Api, running
from tests.contract.test_console import sign_in
from tests.patience import wait
from tests.receiver import Receiver, receiving
from vitrina.settings import Destination

PATH = "/planted-path"


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as receiver:
        receiver.status, receiver.reply = 200, b"ok"
        yield receiver


@pytest.fixture
def told(api: Api, receiver: Receiver) -> Iterator[Api]:
    """An API beside a runner that has a destination, once that is known."""
    api.lab.sql("TRUNCATE etl.etl_destinations, etl.etl_alerts, etl.etl_deliveries")
    url, before = receiver.url + PATH, api.lab.connections.settings.alerts
    given = {"url": url, "format": "slack", "labels": ["team:search"], "events": ["failed"]}
    api.lab.configure(alerts={"ops": Destination.model_validate(given)})
    with running(api.lab):
        wait(lambda: api.get("/alerts/destinations"))
        yield api
    api.lab.configure(alerts=before)


def test_a_destination_is_shown_without_its_address_and_tested(told: Api, receiver: Receiver) -> None:
    (shown,) = told.get("/alerts/destinations", role="viewer")
    about = {"name": "ops", "format": "slack", "place": receiver.url, "labels": ["team:search"], "events": ["failed"]}
    assert shown.items() >= (about | {"known": True, "last_status": None, "waiting": 0}).items()
    tested = told.post("/alerts/destinations/ops/test", role="operator")
    assert (tested.status_code, tested.json()["status"]) == (200, "DONE")
    assert tested.json()["result"].items() >= {"delivered": True, "error": None, "answer": "200 ok"}.items()
    assert "asked for by operator" in receiver.heard[0]["text"]
    assert "planted" not in json.dumps([tested.json(), told.get("/alerts/deliveries"), shown])
    assert ("operator", "test-alert") in [row[:2] for row in told.audit()]

    receiver.status, receiver.reply = 403, f"no {PATH} here".encode()
    refused = told.post("/alerts/destinations/ops/test").json()["result"]
    assert (refused["delivered"], refused["error"]) == (False, "the webhook answered 403")
    page = told.get("/alerts/destinations/ops/deliveries", params={"limit": 1})
    assert [(row["event"], row["status"], row["answer"]) for row in page["items"]] == [
        ("test", "GIVEN_UP", "403 no … here")
    ]
    older = told.get("/alerts/deliveries", params={"before": page["next"]})
    assert [row["status"] for row in older["items"]] == ["DELIVERED"]


def test_one_that_nobody_named_is_not_there(told: Api) -> None:
    refused = told.post("/alerts/destinations/nowhere/test")
    assert (refused.status_code, "VITRINA_ALERTS__NOWHERE__URL" in refused.json()["remedy"]) == (404, True)
    assert told.ask("GET", "/alerts/destinations/nowhere/deliveries").status_code == 404


def test_the_console_shows_them_and_its_button_tries_one(told: Api, receiver: Receiver) -> None:
    for role in ("viewer", "operator"):
        with sign_in(told, role) as browser:
            page = browser.get("/alerts").text
            assert "team:search" in page
            assert "planted" not in page
            assert ("/alerts/ops/test" in page) is (role == "operator")
            pressed = browser.post("/alerts/ops/test")
            assert pressed.status_code == (200 if role == "operator" else 403)
    assert "ops has taken the test" in pressed.headers["HX-Trigger"]
    assert "200 ok" in pressed.text
    assert len(receiver.requests) == 1

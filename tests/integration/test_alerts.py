"""Alerts: what opens an incident and what ends it, and what a real receiver gets to hear of it."""

import hashlib
import hmac
import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog
from psycopg.types.json import Jsonb

from tests.faults.children import FORKS
from tests.living import living
from tests.patience import patient
from tests.receiver import Receiver, receiving
from tests.support import Lab, make_connections, wait_for
from vitrina import failpoints
from vitrina.domain.errors import ConfigError
from vitrina.domain.pipeline import Pipeline
from vitrina.log import configure_logging
from vitrina.runner.alerting import AlertDesk
from vitrina.runner.main import Runner
from vitrina.sources.connections import Connections

DOCS = Path(__file__).parents[2] / "docs" / "alerts.md"
SECRET = "a planted secret"
FILMS = {"source_query": "SELECT id AS film_id, title FROM content.film_work", "key": ["film_id"]}
VOTES = "SELECT film_id, count(*) AS votes, sum(rating) AS points FROM ugc.ratings GROUP BY film_id"
ALERTS = "SELECT event, details ->> 'after', status FROM etl.etl_alerts ORDER BY number"


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as receiver:
        yield receiver


@pytest.fixture
def told(lab: Lab, receiver: Receiver) -> Lab:
    """A lab whose runners tell the receiver."""
    lab.configure(**webhook(receiver.url))
    return lab


def webhook(url: str, **more: Any) -> dict[str, Any]:
    """Settings, checked as those of the environment are."""
    named = {"webhook_url": url, "webhook_secret": SECRET, "public_url": "https://vitrina.example.org/"}
    made = make_connections("", webhook_backoff_seconds=0.05, **(named | more)).settings
    return {name: getattr(made, name) for name in (*named, "webhook_backoff_seconds", *more)}


def failing(lab: Lab, **config: Any) -> Pipeline:
    """A pipeline that fails until its table is there."""
    return lab.add(**({"source_query": "SELECT id FROM content.missing", "key": ["id"]} | config))


def cure(lab: Lab) -> None:
    """What it misses."""
    lab.sql("CREATE TABLE content.missing (id int PRIMARY KEY)")
    lab.sql("GRANT SELECT ON content.missing TO vitrina_reader")


def look(lab: Lab) -> None:
    """One look of an alert desk."""
    with lab.connections.open_warehouse("alerts") as conn:
        AlertDesk(lab.connections, Runner(lab.connections).stopping).look(conn)


# ── incidents ────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_failure_is_told_once_however_often_it_fails_and_so_is_the_recovery(told: Lab, receiver: Receiver) -> None:
    pipeline = failing(told, name="films")
    for _ in range(3):
        told.run(pipeline)
    cure(told)
    assert told.run(pipeline)["status"] == told.run(pipeline)["status"] == "SUCCESS"
    failed, recovered = receiver.heard
    assert (failed["event"], recovered["event"], recovered["after"]) == ("failed", "recovered", "failed")
    assert "content.missing" in failed["error"]
    assert failed["run"] == 1
    assert failed["pipeline"] == {"id": str(pipeline.id), "name": "films", "target": "analytics.mart"}
    assert failed["url"] == f"https://vitrina.example.org/console/pipelines/{pipeline.id}"
    assert failed["url"] in failed["text"]


def test_a_retry_that_helps_is_no_incident(lab: Lab) -> None:
    pipeline = lab.add(**FILMS)
    lab.run(pipeline)
    lab.configure(lock_timeout_seconds=0.2)
    lab.sql("UPDATE content.film_work SET title = title || '!'")
    with lab.connections.open_warehouse("blocker") as blocker:
        blocker.execute("BEGIN; LOCK analytics.mart IN SHARE MODE")
        lab.request(pipeline)
        with lab.runner():
            wait_for(lambda: lab.value("SELECT max(attempt) FROM etl.etl_runs") > 1)
            blocker.execute("ROLLBACK")
            wait_for(lambda: lab.status(pipeline) == "IDLE")
    assert lab.sql(ALERTS) == []


def test_a_pipeline_that_keeps_killing_its_runner_is_told_by_who_buries_it(lab: Lab) -> None:
    pipeline = lab.add(**FILMS)
    lab.request(pipeline)
    lab.sql("UPDATE etl.etl_pipelines SET status = 'RUNNING'")
    lab.sql(
        "UPDATE etl.etl_leases SET owner = gen_random_uuid(), crashes = 9, expires_at = now(),"
        " run_id = (SELECT max(id) FROM etl.etl_runs)"
    )
    Runner(lab.connections).run_once(pipeline.id)
    assert (lab.status(pipeline), lab.sql(ALERTS)) == ("FAILED", [("failed", None, "PENDING")])


def test_what_is_rolled_back_is_not_told(lab: Lab) -> None:
    lab.add(**FILMS)
    with lab.db.transaction(force_rollback=True):
        lab.sql("UPDATE etl.etl_pipelines SET status = 'RUNNING'")
        lab.sql("UPDATE etl.etl_pipelines SET status = 'FAILED'")
        assert lab.value("SELECT count(*) FROM etl.etl_alerts") == 1
    assert lab.sql(ALERTS) == lab.sql("SELECT kind FROM etl.etl_incidents") == []


def test_a_mart_that_grows_too_old_is_stale_until_it_is_filled_again(lab: Lab) -> None:
    pipeline = lab.add(**FILMS, freshness_limit="1h")
    lab.run(pipeline)
    look(lab)
    assert lab.sql(ALERTS) == []
    lab.sql("UPDATE etl.etl_runs SET tried_at = now() - interval '61 minutes'")
    look(lab)
    look(lab)
    assert lab.sql(ALERTS) == [("stale", None, "PENDING")]
    lab.run(pipeline)
    look(lab)
    assert lab.sql(ALERTS) == [("stale", None, "PENDING"), ("recovered", "stale", "PENDING")]


def test_a_mart_that_was_never_filled_grows_old_too_and_one_that_nobody_wants_does_not(lab: Lab) -> None:
    pipeline = lab.add(**FILMS, freshness_limit="15m")
    lab.sql("UPDATE etl.etl_pipelines SET created_at = now() - interval '16 minutes'")
    look(lab)
    assert lab.sql("SELECT kind FROM etl.etl_incidents") == [("stale",)]
    lab.sql("UPDATE etl.etl_pipelines SET enabled = false WHERE id = %s", pipeline.id)
    look(lab)
    assert lab.sql("SELECT kind FROM etl.etl_incidents") == []
    assert lab.sql(ALERTS) == [("stale", None, "PENDING")]


def test_a_live_mart_grows_old_from_where_it_falls_behind_however_quiet_its_source_was(lab: Lab) -> None:
    with living(lab, "wal") as live:
        pipeline = live.add(VOTES, freshness_limit="1m")
        live.follow(pipeline)
        lab.sql("UPDATE etl.etl_runs SET tried_at = '2020-01-01'")
        lab.sql(
            "UPDATE etl.etl_state SET checkpoint = jsonb_set(checkpoint, '{live,committed_at}', %s)",
            Jsonb("2020-01-01T00:00:00+00:00"),
        )
        look(lab)
        assert lab.sql("SELECT behind, stale FROM etl.etl_freshness") == [(False, False)]
        lab.sql("UPDATE ugc.ratings SET rating = 11 - rating")
        live.catch_up()
        look(lab)
        assert lab.sql("SELECT behind, stale FROM etl.etl_freshness") == [(True, False)]
        lab.sql("UPDATE etl.etl_behind SET since = since - interval '61 seconds'")
        look(lab)
        assert lab.sql(ALERTS) == [("stale", None, "PENDING")]
        live.follow(pipeline)
        look(lab)
        assert lab.sql(ALERTS)[1:] == [("recovered", "stale", "PENDING")]
        assert lab.value("SELECT count(*) FROM etl.etl_behind") == 0
    lab.sql("UPDATE etl.etl_captures SET caught_up_at = now() - interval '61 seconds'")  # nobody captures any more
    look(lab)
    assert lab.sql(ALERTS)[2:] == [("stale", None, "PENDING")]


# ── delivery ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_signature_is_good_by_the_example_of_the_docs(told: Lab, receiver: Receiver) -> None:
    told.run(failing(told))
    (request,) = receiver.requests
    (example,) = re.findall(r"```python\n(.+?)```", DOCS.read_text(), flags=re.DOTALL)
    place: dict[str, Any] = {}
    exec(example, place)
    verify: Callable[..., bool] = place["is_from_vitrina"]
    assert verify(SECRET, request.headers, request.body)
    assert not verify("another secret", request.headers, request.body)
    assert not verify(SECRET, request.headers, request.body.replace(b"failed", b"faked!"))
    assert not verify(SECRET, dict(request.headers) | {"X-Vitrina-Timestamp": "1700000000"}, request.body)
    signed = request.headers["X-Vitrina-Timestamp"].encode() + b"." + request.body
    assert (
        request.headers["X-Vitrina-Signature"]
        == f"sha256={hmac.new(SECRET.encode(), signed, hashlib.sha256).hexdigest()}"
    )


def send_and_die(connections: Connections) -> None:
    """What a child does: it tells the receiver, and is killed before it can say so."""
    configure_logging("json")
    failpoints.arm("after webhook=kill")
    with connections.open_warehouse("alerts") as conn:
        AlertDesk(connections, Runner(connections).stopping, hold_seconds=0.2).look(conn)


@pytest.mark.faults
def test_a_runner_killed_between_sending_and_saying_so_is_followed_by_one_that_sends_again(
    lab: Lab, receiver: Receiver
) -> None:
    lab.run(failing(lab))
    lab.configure(**webhook(receiver.url))
    child = FORKS.Process(target=send_and_die, args=(lab.connections,))
    child.start()
    child.join(patient(30))
    assert child.exitcode == -signal.SIGKILL
    assert lab.sql(ALERTS) == [("failed", None, "ROUTED")]
    with lab.runner():
        wait_for(lambda: lab.sql(ALERTS) == [("failed", None, "DELIVERED")])
    first, second = receiver.requests
    assert first.headers["X-Vitrina-Delivery"] == second.headers["X-Vitrina-Delivery"]
    assert first.body == second.body


def test_alerts_wait_in_order_until_the_receiver_is_back(told: Lab, receiver: Receiver) -> None:
    receiver.status = 503
    pipeline = failing(told)
    told.run(pipeline)
    cure(told)
    told.run(pipeline)
    assert {event for event, _, _ in told.sql(ALERTS)} == {"failed", "recovered"}
    with told.runner():
        wait_for(lambda: told.value("SELECT coalesce(max(attempts), 0) FROM etl.etl_deliveries") >= 3)
        assert told.sql("SELECT last_error, answer FROM etl.etl_deliveries WHERE event = 'failed'") == [
            ("the webhook answered 503", "503")
        ]
        assert told.value("SELECT attempts FROM etl.etl_deliveries WHERE event = 'recovered'") == 0
        receiver.forget()
        receiver.status = 204
        wait_for(lambda: [status for _, _, status in told.sql(ALERTS)] == ["DELIVERED", "DELIVERED"])
    assert [heard["event"] for heard in receiver.heard] == ["failed", "recovered"]


def test_two_runners_deliver_each_alert_once(told: Lab, receiver: Receiver) -> None:
    receiver.delay = 0.1
    told.sql(
        "INSERT INTO etl.etl_alerts (pipeline_id, event, details)"
        " SELECT gen_random_uuid(), 'failed', '{}' FROM generate_series(1, 12)"
    )
    with told.runner(), told.runner():
        wait_for(lambda: told.value("SELECT count(*) FROM etl.etl_alerts WHERE status = 'DELIVERED'") == 12)
    assert len({request.headers["X-Vitrina-Delivery"] for request in receiver.requests}) == len(receiver.requests) == 12


def test_what_nobody_takes_is_given_up_and_on_record(lab: Lab, receiver: Receiver) -> None:
    lab.run(failing(lab))
    receiver.close()
    lab.configure(**webhook(receiver.url, webhook_attempts=2))
    with lab.runner():
        wait_for(lambda: lab.sql(ALERTS) == [("failed", None, "GIVEN_UP")])
    assert lab.sql("SELECT attempts, last_error FROM etl.etl_deliveries") == [
        (2, "the webhook does not answer: ConnectError")
    ]


def test_what_is_older_than_a_day_is_no_news(told: Lab, receiver: Receiver) -> None:
    told.sql(
        "INSERT INTO etl.etl_alerts (pipeline_id, event, details, created_at)"
        " VALUES (gen_random_uuid(), 'failed', '{}', now() - interval '25 hours')"
    )
    look(told)
    assert told.sql("SELECT status, last_error FROM etl.etl_deliveries") == [("GIVEN_UP", "not delivered within a day")]
    assert told.value("SELECT status FROM etl.etl_alerts") == "GIVEN_UP"
    assert receiver.requests == []


@pytest.mark.parametrize(
    ("url", "secret", "said"),
    [
        ("http://127.0.0.1:1/planted-path", None, "VITRINA_WEBHOOK_SECRET"),
        ("http://127.0.0.1:1/planted-path", "", "VITRINA_WEBHOOK_SECRET"),
        ("ftp://127.0.0.1/planted-path", SECRET, "no address"),
        ("http://host:planted-path", SECRET, "no address"),
    ],
)
def test_a_webhook_that_cannot_be_is_refused_at_start_and_not_shown(
    lab: Lab, url: str, secret: str | None, said: str
) -> None:
    lab.configure(**webhook(url, webhook_secret=secret))
    with pytest.raises(ConfigError, match=said) as caught:
        Runner(lab.connections).check()
    assert "planted" not in str(caught.value)


def test_neither_address_nor_secret_is_in_a_log_or_in_the_record(lab: Lab, receiver: Receiver) -> None:
    lab.run(failing(lab))
    receiver.status = 500
    lab.configure(**webhook(f"{receiver.url}/planted-path"))
    with structlog.testing.capture_logs() as logs:
        look(lab)
    assert logs
    kept = "".join(
        lab.value(f"SELECT jsonb_agg(a)::text FROM etl.{table} a")
        for table in ("etl_alerts", "etl_deliveries", "etl_destinations")
    )
    assert "planted" not in str(logs) + kept + str(lab.connections.settings)

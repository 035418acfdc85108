"""Several destinations of alerts: who is told what, in which words, by which way; and what is kept of it."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog

from tests.living import living
from tests.mailbox import PASSWORD, USER, Mailbox, mail_server
from tests.managed import certify
from tests.receiver import Receiver, receiving
from tests.support import Lab, wait_for
from vitrina.domain.errors import ConfigError
from vitrina.domain.pipeline import Pipeline
from vitrina.runner.alerting import AlertDesk
from vitrina.runner.destinations import find_destinations
from vitrina.runner.main import Runner
from vitrina.settings import Destination, Settings

DELIVERIES = "SELECT destination, event, status FROM etl.etl_deliveries ORDER BY id"
ALERTS = "SELECT event, status FROM etl.etl_alerts ORDER BY number"
SECRET = "a planted secret"


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as receiver:
        yield receiver


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return certify(tmp_path_factory.mktemp("certificate"))


def tell(lab: Lab, **destinations: dict[str, Any]) -> None:
    """Configure them, as the environment would; one not said otherwise is signed."""
    given = {name: Destination(**({"secret": SECRET} | values)) for name, values in destinations.items()}
    lab.configure(alerts=given, webhook_backoff_seconds=0.05, public_url="https://vitrina.example.org")


def failing(lab: Lab, name: str = "films", **config: Any) -> Pipeline:
    query = {"source_query": "SELECT id FROM content.missing", "key": ["id"]}
    return lab.add(**({"name": name, "target_table": f"analytics.{name}"} | query | config))


def cure(lab: Lab) -> None:
    lab.sql("CREATE TABLE content.missing (id int PRIMARY KEY)")
    lab.sql("GRANT SELECT ON content.missing TO vitrina_reader")


def look(lab: Lab) -> AlertDesk:
    """One look of an alert desk."""
    desk = AlertDesk(lab.connections, Runner(lab.connections).stopping)
    with lab.connections.open_warehouse("alerts") as conn:
        desk.look(conn)
    return desk


# ── who is told ──────────────────────────────────────────────────────────────────────────────────────────────


def test_each_destination_hears_what_it_wants_and_how_that_ends(lab: Lab, receiver: Receiver) -> None:
    url = receiver.url
    tell(
        lab,
        search={"url": f"{url}/search", "labels": ["team:search"]},
        failures={"url": f"{url}/failures", "events": ["failed"]},
        ages={"url": f"{url}/ages", "events": ["stale"]},
    )
    for pipeline in (failing(lab, labels=["team:search", "tier:1"]), failing(lab, "people", labels=["team:ads"])):
        lab.run(pipeline)
    cure(lab)
    lab.run(pipeline)
    heard = {
        (r.path, body["event"], body["pipeline"]["name"])
        for r, body in zip(receiver.requests, receiver.heard, strict=True)
    }
    assert heard == {
        ("/search", "failed", "films"),
        ("/failures", "failed", "films"),
        ("/failures", "failed", "people"),
        ("/failures", "recovered", "people"),
    }
    assert {status for _, _, status in lab.sql(DELIVERIES)} == {"DELIVERED"}
    assert lab.sql("SELECT name, labels, events FROM etl.etl_destinations ORDER BY 1") == [
        ("ages", [], ["stale"]),
        ("failures", [], ["failed"]),
        ("search", ["team:search"], []),
    ]


def test_what_nobody_wants_is_told_nobody_and_neither_is_its_end(lab: Lab, receiver: Receiver) -> None:
    tell(lab, ads={"url": receiver.url, "labels": ["team:ads"]})
    pipeline = failing(lab, labels=["team:search"])
    lab.run(pipeline)
    lab.sql("UPDATE etl.etl_pipelines SET labels = '{team:ads}'")
    cure(lab)
    lab.run(pipeline)
    assert lab.sql(ALERTS) == [("failed", "UNWANTED"), ("recovered", "UNWANTED")]
    assert receiver.requests == []


def test_a_recovery_goes_where_its_incident_went_whatever_the_labels_are_by_then(lab: Lab, receiver: Receiver) -> None:
    tell(lab, search={"url": receiver.url, "labels": ["team:search"]})
    pipeline = failing(lab, labels=["team:search"])
    lab.run(pipeline)
    lab.sql("UPDATE etl.etl_pipelines SET labels = '{team:ads}'")
    cure(lab)
    lab.run(pipeline)
    assert [(body["event"], body["labels"]) for body in receiver.heard] == [
        ("failed", ["team:search"]),
        ("recovered", ["team:ads"]),
    ]


def test_one_that_does_not_answer_holds_up_no_other_and_is_left_alone_meanwhile(lab: Lab, receiver: Receiver) -> None:
    with receiving() as gone:
        pass
    tell(lab, good={"url": receiver.url}, lost={"url": gone.url})
    lab.configure(webhook_backoff_seconds=3600)
    pipelines = [failing(lab, f"films_{number}") for number in range(3)]
    for pipeline in pipelines:
        lab.request(pipeline)
    Runner(lab.connections).run_once()
    assert len(receiver.requests) == 3
    assert lab.sql("SELECT count(*), sum(attempts) FROM etl.etl_deliveries WHERE destination = 'lost'") == [(3, 1)]
    assert {status for _, status in lab.sql(ALERTS)} == {"ROUTED"}


def test_as_long_as_a_receiver_asks_for_it_is_waited_for(lab: Lab, receiver: Receiver) -> None:
    receiver.status, receiver.answers = 429, {"Retry-After": "1234"}
    tell(lab, chat={"url": receiver.url, "format": "slack"})
    lab.run(failing(lab))
    waits = lab.value("SELECT extract(epoch FROM next_at - clock_timestamp())::int FROM etl.etl_deliveries")
    assert 1000 < waits <= 1234


def test_what_is_to_be_told_to_whom_nobody_knows_any_more_is_given_up_after_a_day(lab: Lab, receiver: Receiver) -> None:
    receiver.status = 500
    tell(lab, old={"url": receiver.url})
    lab.run(failing(lab))
    lab.sql("UPDATE etl.etl_deliveries SET created_at = now() - interval '25 hours', next_at = now()")
    lab.sql("UPDATE etl.etl_destinations SET seen_at = now() - interval '1 hour'")
    tell(lab, new={"url": receiver.url})
    look(lab)
    assert lab.sql("SELECT status, last_error FROM etl.etl_deliveries") == [
        ("GIVEN_UP", "no runner has had this destination for a day")
    ]
    assert lab.sql(ALERTS) == [("failed", "GIVEN_UP")]


def test_an_alert_of_a_program_before_destinations_is_told_by_the_labels_of_now(lab: Lab, receiver: Receiver) -> None:
    pipeline = failing(lab, labels=["team:search"])
    lab.sql(
        "INSERT INTO etl.etl_alerts (pipeline_id, event, details, attempts) VALUES (%s, 'failed', %s, 3)",
        pipeline.id,
        json.dumps({"name": "films"}),
    )
    tell(lab, search={"url": receiver.url, "labels": ["team"]}, ads={"url": receiver.url, "labels": ["team:ads"]})
    look(lab)
    assert lab.sql(DELIVERIES) == [("search", "failed", "DELIVERED")]


# ── in which words ───────────────────────────────────────────────────────────────────────────────────────────


def test_each_format_has_the_shape_that_its_receiver_takes(lab: Lab, receiver: Receiver) -> None:
    url = receiver.url
    tell(lab, **{form: {"url": f"{url}/{form}", "format": form} for form in ("slack", "teams", "pagerduty", "signed")})
    pipeline = failing(lab, "films", description="<!channel> & co")
    lab.run(pipeline)
    lab.sql("UPDATE etl.etl_pipelines SET name = 'a <b> & c'")
    cure(lab)
    lab.run(pipeline)
    heard: dict[str, list[Any]] = {}
    for request, body in zip(receiver.requests, receiver.heard, strict=True):
        heard.setdefault(request.path.strip("/"), []).append(body)
        assert ("X-Vitrina-Signature" in request.headers) is (request.path == "/signed")
    page = f"https://vitrina.example.org/console/pipelines/{pipeline.id}"

    failed, recovered = heard["slack"]
    text = failed["blocks"][0]["text"]
    assert text["type"] == "mrkdwn"
    assert f"<{page}|films has failed>" in text["text"]
    assert "a &lt;b&gt; &amp; c has recovered" in recovered["text"]
    assert len(failed["text"]) < 3000

    card = heard["teams"][0]["attachments"][0]
    assert (heard["teams"][0]["type"], card["contentType"]) == ("message", "application/vnd.microsoft.card.adaptive")
    assert (card["content"]["type"], card["content"]["actions"][0]["url"]) == ("AdaptiveCard", page)
    rich = [[run["text"] for run in part["inlines"]] for part in card["content"]["body"]]
    assert ["error: ", failed_error(lab)] in rich

    opened, closed = heard["pagerduty"]
    assert (opened["event_action"], closed["event_action"]) == ("trigger", "resolve")
    assert opened["dedup_key"] == closed["dedup_key"]
    assert opened["routing_key"] == SECRET
    assert opened["payload"]["severity"] == "error"
    assert {"summary", "source", "severity"} <= opened["payload"].keys()
    assert [body["event"] for body in heard["signed"]] == ["failed", "recovered"]


def failed_error(lab: Lab) -> str:
    return str(lab.value("SELECT details ->> 'error' FROM etl.etl_alerts ORDER BY number LIMIT 1"))


def test_an_error_as_long_as_a_book_still_fits_a_chat(lab: Lab, receiver: Receiver) -> None:
    tell(lab, slack={"url": receiver.url, "format": "slack"}, teams={"url": receiver.url, "format": "teams"})
    lab.run(failing(lab))
    lab.sql("UPDATE etl.etl_alerts SET status = 'PENDING', finished_at = NULL, details = details || %s",
            json.dumps({"error": "x" * 50_000}))  # fmt: skip
    lab.sql("DELETE FROM etl.etl_deliveries")
    receiver.forget()
    look(lab)
    assert len(receiver.requests) == 2
    for request in receiver.requests:
        assert len(request.body) < 12_000


# ── what is kept ─────────────────────────────────────────────────────────────────────────────────────────────


def test_the_answer_is_kept_its_beginning_and_without_what_is_secret(lab: Lab, receiver: Receiver) -> None:
    path = "/services/T00/B00/planted-path?key=planted-key"
    receiver.status, receiver.reply = 400, f"no_service {path} {SECRET} ".encode() + b"\0" + b"x" * 100_000
    tell(lab, chat={"url": receiver.url + path})
    with structlog.testing.capture_logs() as logs:
        lab.run(failing(lab))
    error, answer, took = lab.sql("SELECT last_error, answer, took_ms FROM etl.etl_deliveries")[0]
    assert error == "the webhook answered 400"
    assert answer.startswith("400 no_service …")
    assert len(answer) < 1_100
    assert took > 0
    kept = lab.value("SELECT jsonb_agg(d)::text FROM etl.etl_deliveries d")
    kept += lab.value("SELECT jsonb_agg(d)::text FROM etl.etl_destinations d")
    assert "planted" not in kept + str(logs) + str(lab.connections.settings)
    assert lab.value("SELECT place FROM etl.etl_destinations") == receiver.url


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"url": "ftp://h/planted"}, "URL is no address"),
        ({"url": "https://h:planted"}, "URL is no address"),
        ({"url": "https://h/planted", "secret": None}, "SECRET is not set"),
        ({"url": "https://h/planted", "format": "pagerduty", "secret": None}, "routing key"),
        ({"url": "https://h/planted", "format": "email"}, "do not go together"),
        ({"url": "smtp://h", "format": "slack"}, "do not go together"),
        ({"url": "smtp://u:planted@h:25", "to": ["a@b"]}, "SENDER is no e-mail address"),
        ({"url": "smtp://u:planted@h:25", "to": ["a@b\nBcc: c@d"], "sender": "e@f"}, "TO is no e-mail address"),
        ({"url": "smtp://u:planted@h:25?tls=none", "to": ["a@b"], "sender": "e@f"}, "without TLS"),
        ({"url": "smtp://u:planted@h:x", "to": ["a@b"], "sender": "e@f"}, "no address of a mail server"),
        ({"url": "smtp://u:planted@h/?tls=maybe", "to": ["a@b"], "sender": "e@f"}, "no address of a mail server"),
        ({"url": "https://h/planted", "events": ["failed", "fails"]}, "EVENTS names 'fails'"),
        ({"url": "https://h/planted", "labels": ["a b"]}, "LABELS names 'a b'"),
        ({"url": "https://h/planted", "ca_file": "/nowhere/ca.pem"}, "CA_FILE names /nowhere/ca.pem"),
    ],
)
def test_a_destination_that_cannot_be_is_refused_at_start_and_not_shown(
    lab: Lab, given: dict[str, Any], said: str
) -> None:
    tell(lab, ops=given)
    with pytest.raises(ConfigError, match=f"VITRINA_ALERTS__OPS__.*{said}|{said}") as caught:
        Runner(lab.connections).check()
    assert "planted" not in str(caught.value)


def test_settings_come_from_the_environment_and_secrets_from_files(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "url").write_text("https://hooks.example.org/planted\n")
    for name, value in {
        "OPS__URL_FILE": str(tmp_path / "url"),
        "OPS__FORMAT": "slack",
        "OPS__LABELS": "team:search, tier:1",
        "OPS__EVENTS": "failed,outage",
        "MAIL__URL": "smtps://u:p@mail.example.org",
        "MAIL__TO": "a@example.org,b@example.org",
        "MAIL__SENDER": "Vitrina <v@example.org>",
    }.items():
        monkeypatch.setenv(f"VITRINA_ALERTS__{name}", value)
    monkeypatch.chdir(tmp_path)  # where there is no .env
    monkeypatch.setenv("VITRINA_WEBHOOK_URL", "http://127.0.0.1:1/")
    monkeypatch.setenv("VITRINA_WEBHOOK_SECRET", "s")
    found = find_destinations(Settings())
    assert {name: (told.format, told.labels, told.events) for name, told in found.items()} == {
        "webhook": ("signed", [], []),
        "mail": ("email", [], []),
        "ops": ("slack", ["team:search", "tier:1"], ["failed", "outage"]),
    }
    assert found["ops"].way.place == "https://hooks.example.org"
    assert found["mail"].way.place == "a@example.org, b@example.org"


# ── e-mail ───────────────────────────────────────────────────────────────────────────────────────────────────


def mailing(box: Mailbox, certificate: Path | None, scheme: str = "smtp", **more: Any) -> dict[str, Any]:
    """A destination of this server."""
    login = f"{USER}:{PASSWORD.replace('@', '%40').replace(' ', '%20')}@"
    url = f"{scheme}://{login}localhost:{box.port}"
    people = {"to": ["ops@example.org"], "sender": "Vitrina <vitrina@example.org>"}
    return {"url": url, "ca_file": certificate} | people | more


@pytest.mark.parametrize("scheme", ["smtp", "smtps"])
def test_mail_goes_by_tls_after_a_login_and_an_incident_is_one_thread(
    lab: Lab, certificate: tuple[Path, Path], scheme: str
) -> None:
    with mail_server(*certificate, at_once=scheme == "smtps") as box:
        tell(lab, mail=mailing(box, certificate[0], scheme))
        pipeline = failing(lab, "фильмы", target_table="analytics.films")
        lab.run(pipeline)
        cure(lab)
        lab.run(pipeline)
        failed, recovered = box.mails
        assert box.secured == [True, True]
        assert box.envelopes[0].rcpt_tos == ["ops@example.org"]
        assert failed["Subject"] == "[Vitrina] фильмы has failed"
        assert failed["References"] == recovered["References"]
        assert failed["Message-ID"] != recovered["Message-ID"]
        assert 'relation "content.missing" does not exist' in failed.get_content()
        assert f"/console/pipelines/{pipeline.id}" in failed.get_content()
        assert lab.sql("SELECT status, answer FROM etl.etl_deliveries") == [("DELIVERED", "250 taken")] * 2


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        ("a stranger's certificate", "TLS with the mail server fails: CERTIFICATE_VERIFY_FAILED"),
        ("no TLS", "the mail server cannot do what is asked of it: STARTTLS extension not supported by server."),
        ("another password", "the mail server refused: 535 "),
        ("nobody there", "the mail server does not answer: ConnectionRefusedError"),
        ("no such mailbox", "the mail server refused: 550 no such mailbox"),
        ("busy", "the mail server refused: 451 come again"),
    ],
)
def test_what_goes_wrong_with_mail_is_said_and_tried_again(
    lab: Lab, certificate: tuple[Path, Path], broken: str, said: str
) -> None:
    keys = (None, None) if broken == "no TLS" else certificate
    with mail_server(*keys, signs_in=broken != "no TLS") as box:
        given = mailing(box, None if broken == "a stranger's certificate" else certificate[0])
        if broken == "another password":
            given["url"] = given["url"].replace("planted", "other")
        if broken == "nobody there":
            given["url"] = given["url"].replace(f":{box.port}", ":1")
        box.closed = {"ops@example.org"} if broken == "no such mailbox" else set()
        box.answer = "451 come again" if broken == "busy" else "250 taken"
        tell(lab, mail=given)
        lab.run(failing(lab))
        assert box.mails == []
        status, attempts, error = lab.sql("SELECT status, attempts, last_error FROM etl.etl_deliveries")[0]
        assert (status, attempts >= 1) == ("PENDING", True)
        assert error.startswith(said)
        assert "planted" not in error


def test_mail_that_some_of_its_readers_get_is_delivered_and_says_who_did_not(
    lab: Lab, certificate: tuple[Path, Path]
) -> None:
    with mail_server(*certificate) as box:
        box.closed = {"gone@example.org"}
        tell(lab, mail=mailing(box, certificate[0], to=["gone@example.org", "ops@example.org"]))
        lab.run(failing(lab))
        assert len(box.mails) == 1
        assert lab.sql("SELECT status, answer FROM etl.etl_deliveries") == [
            ("DELIVERED", "250 taken; gone@example.org refused: 550 no such mailbox")
        ]


def test_mail_without_tls_is_sent_to_this_machine_alone_if_that_is_wanted(lab: Lab) -> None:
    with mail_server(None, None, signs_in=False) as box:
        people = {"to": ["ops@example.org"], "sender": "vitrina@example.org"}
        tell(lab, mail={"url": f"smtp://localhost:{box.port}?tls=none"} | people)
        lab.run(failing(lab))
        assert box.secured == [False]


# ── in the background ────────────────────────────────────────────────────────────────────────────────────────


def test_running_runners_tell_all_and_each_delivery_once(lab: Lab, receiver: Receiver) -> None:
    receiver.delay = 0.05
    tell(lab, one={"url": f"{receiver.url}/one"}, two={"url": f"{receiver.url}/two"})
    lab.sql(
        "INSERT INTO etl.etl_alerts (pipeline_id, event, details)"
        " SELECT gen_random_uuid(), 'failed', '{}' FROM generate_series(1, 8)"
    )
    with lab.runner(), lab.runner():
        wait_for(lambda: lab.sql(ALERTS) == [("failed", "DELIVERED")] * 8)
    assert len({(r.path, r.headers["X-Vitrina-Delivery"]) for r in receiver.requests}) == len(receiver.requests) == 16


def test_a_stale_live_mart_is_told_by_its_labels(lab: Lab, receiver: Receiver) -> None:
    tell(lab, search={"url": receiver.url, "labels": ["team:search"]})
    with living(lab, "wal") as live:
        pipeline = live.add(
            "SELECT film_id, count(*) AS votes FROM ugc.ratings GROUP BY film_id",
            labels=["team:search"],
            freshness_limit="1m",
        )
        live.follow(pipeline)
    lab.sql("UPDATE etl.etl_captures SET caught_up_at = now() - interval '61 seconds'")
    look(lab)
    assert [(body["event"], body["labels"]) for body in receiver.heard] == [("stale", ["team:search"])]

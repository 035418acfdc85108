"""What stands in a source's rows gets into errors, and with them into alerts: there it is text, and nothing else."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.integration.test_destinations import receiver, tell
from tests.mailbox import Mailbox, mail_server
from tests.receiver import Receiver
from tests.support import Lab

__all__ = ["receiver"]
LINK, MENTION = "[sign in](https://evil.example)", "<!channel> <https://evil.example|sign in>"
PLANTED = f"{LINK} {MENTION} **now**\r\nBcc: all@evil.example\r\n\r\n.\r\nDATA"
PEOPLE = {"to": ["ops@example.org"], "sender": "vitrina@example.org"}
HEADERS = {"Subject", "From", "To", "Date", "Message-ID", "References", "Auto-Submitted"}
HEADERS |= {"MIME-Version", "Content-Type", "Content-Transfer-Encoding"}


@pytest.fixture
def box() -> Iterator[Mailbox]:
    with mail_server(None, None, signs_in=False) as box:
        yield box


@pytest.fixture
def told(lab: Lab, receiver: Receiver, box: Mailbox) -> dict[str, Any]:
    """What each receiver got of a run that failed over a row that somebody wrote for them."""
    tell(
        lab,
        mail={"url": f"smtp://localhost:{box.port}?tls=none"} | PEOPLE,
        **{form: {"url": f"{receiver.url}/{form}", "format": form} for form in ("slack", "teams")},
    )
    lab.sql("CREATE TABLE content.written (id int PRIMARY KEY, said text); GRANT SELECT ON content.written TO PUBLIC")
    lab.sql("INSERT INTO content.written VALUES (1, %s)", PLANTED)
    pipeline = lab.add(source_query="SELECT id, said::int AS n FROM content.written", key=["id"])
    assert LINK in lab.run(pipeline)["error"]
    return {r.path.strip("/"): body for r, body in zip(receiver.requests, receiver.heard, strict=True)}


def parts(body: Any) -> Iterator[dict[str, Any]]:
    """Every object of a message."""
    if isinstance(body, dict):
        yield body
    for item in body.values() if isinstance(body, dict) else body if isinstance(body, list) else ():
        yield from parts(item)


def test_in_teams_it_is_no_link(told: dict[str, Any]) -> None:
    """Markdown is read in a TextBlock and in facts, and not in a TextRun."""
    holding = [
        part for part in parts(told["teams"]) if any(LINK in str(v) for v in part.values() if isinstance(v, str))
    ]
    assert holding
    assert {part.get("type") for part in holding} == {"TextRun"}


def test_in_slack_it_is_neither_a_link_nor_a_mention(told: dict[str, Any]) -> None:
    texts = [part["text"] for part in parts(told["slack"]) if isinstance(part.get("text"), str)]
    assert any("evil.example" in text for text in texts)
    assert not [text for text in texts if "<!" in text or "<https://evil" in text]


def test_in_a_mail_it_is_no_header_and_no_other_mail(box: Mailbox, told: dict[str, Any]) -> None:
    [mail], [envelope] = box.mails, box.envelopes
    assert set(mail.keys()) <= HEADERS
    assert envelope.rcpt_tos == PEOPLE["to"]
    assert mail.get_content_type() == "text/plain"
    assert LINK in mail.get_content()

"""A real mail server, aiosmtpd, that keeps what it is given: with STARTTLS, TLS from the first byte, or neither."""

import asyncio
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default
from pathlib import Path
from typing import Any

from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session

from tests.loops import loop_beside

USER, PASSWORD = "vitrina", "planted p@ssword"


@dataclass
class Mailbox:
    """What has arrived, and what is said to those who bring it."""

    port: int = 0
    answer: str = "250 taken"
    closed: set[str] = field(default_factory=set)  # mailboxes that are not here
    mails: list[EmailMessage] = field(default_factory=list)
    envelopes: list[Envelope] = field(default_factory=list)
    secured: list[bool] = field(default_factory=list)

    async def handle_RCPT(  # noqa: N802
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        """Whether there is such a mailbox."""
        if address in self.closed:
            return "550 no such mailbox"
        envelope.rcpt_tos.append(address)
        return "250 ok"

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:  # noqa: N802
        """Take it."""
        if self.answer.startswith("250"):
            content = envelope.content if isinstance(envelope.content, bytes) else (envelope.content or "").encode()
            mail: Any = message_from_bytes(content, policy=default)
            self.mails.append(mail)
            self.envelopes.append(envelope)
            self.secured.append(bool(server.transport and server.transport.get_extra_info("ssl_object")))
        return self.answer


@contextmanager
def mail_server(
    certificate: Path | None, key: Path | None, *, at_once: bool = False, signs_in: bool = True
) -> Iterator[Mailbox]:
    """While a test runs; `at_once`: TLS from the first byte."""
    box, context = Mailbox(), None
    if certificate and key:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)

    def authenticate(_: SMTP, session: Session, envelope: Envelope, mechanism: str, given: Any) -> AuthResult:
        assert isinstance(given, LoginPassword)
        is_right = (given.login, given.password) == (USER.encode(), PASSWORD.encode())
        return AuthResult(success=is_right, handled=False)

    def make() -> SMTP:
        return SMTP(
            box,
            hostname="localhost",
            tls_context=None if at_once else context,
            require_starttls=context is not None and not at_once,
            authenticator=authenticate if signs_in else None,
            auth_required=signs_in,
            auth_require_tls=not at_once,
            loop=loop,
        )

    with loop_beside() as loop:
        opening = loop.create_server(make, "127.0.0.1", 0, ssl=context if at_once else None)
        server = asyncio.run_coroutine_threadsafe(opening, loop).result()
        box.port = server.sockets[0].getsockname()[1]
        try:
            yield box
        finally:
            loop.call_soon_threadsafe(server.close)

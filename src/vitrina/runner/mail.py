"""E-mail: one message an alert, by SMTP with TLS."""

import smtplib
import ssl
import time
from dataclasses import dataclass
from email.message import EmailMessage
from email.policy import SMTP
from typing import Self
from urllib.parse import parse_qs, unquote, urlsplit

from vitrina.addresses import is_loopback
from vitrina.domain.alerting import RECOVERED
from vitrina.domain.errors import ConfigError
from vitrina.meta.repos.alerts import Alert
from vitrina.runner.messages import facts, headline, page_of, sentence
from vitrina.runner.receipt import TIMEOUT, Receipt, hidden

PORTS = {"smtp": 587, "smtps": 465}
WRITE = "write smtp://user:password@host:587 or smtps://host:465"


@dataclass(frozen=True)
class Server:
    """By `smtps` TLS from the first byte, by `smtp` after STARTTLS, which is asked for unless told not to."""

    scheme: str
    host: str
    port: int
    user: str | None
    password: str | None
    plain: bool

    @classmethod
    def parse(cls, text: str, setting: str) -> Self:
        """From an address; a ConfigError that does not show it."""
        try:
            parts = urlsplit(text)
            port, options = (
                parts.port or PORTS.get(parts.scheme, 0),
                parse_qs(parts.query, strict_parsing=bool(parts.query)),
            )
        except ValueError:
            raise ConfigError(f"{setting} is no address of a mail server", WRITE) from None
        plain = options == {"tls": ["none"]}
        if parts.scheme not in PORTS or not parts.hostname or parts.path not in ("", "/") or (options and not plain):
            raise ConfigError(f"{setting} is no address of a mail server", WRITE)
        password = unquote(parts.password) if parts.password else None
        if plain and password and not is_loopback(parts.hostname):
            raise ConfigError(f"{setting} would send its password without TLS", "leave ?tls=none out")
        user = unquote(parts.username) if parts.username else None
        return cls(parts.scheme, parts.hostname, port, user, password, plain)


@dataclass(frozen=True)
class Mail:
    """Who gets it, from whom, by which server."""

    server: Server
    sender: str
    to: tuple[str, ...]
    public_url: str | None
    context: ssl.SSLContext

    @property
    def place(self) -> str:
        """Where it is, for people."""
        return ", ".join(self.to)

    def send(self, alert: Alert) -> Receipt:
        """One attempt. Once the server has taken it for one of those who are to get it, it is delivered."""
        began, message = time.monotonic(), self.compose(alert).as_bytes(policy=SMTP)
        try:
            with self._connect() as smtp:
                return Receipt(None, self._hidden(self._hand_over(smtp, message)), began)
        except smtplib.SMTPResponseException as error:
            said = f"{error.smtp_code} {_text(error.smtp_error)}"
            return Receipt(f"the mail server refused: {self._hidden(said)}", self._hidden(said), began)
        except smtplib.SMTPNotSupportedError as error:
            return Receipt(f"the mail server cannot do what is asked of it: {self._hidden(str(error))}", "", began)
        except ssl.SSLError as error:
            return Receipt(
                f"TLS with the mail server fails: {error.reason or type(error).__name__}", "", began, away=True
            )
        except (OSError, smtplib.SMTPException) as error:
            return Receipt(f"the mail server does not answer: {type(error).__name__}", "", began, away=True)

    def compose(self, alert: Alert) -> EmailMessage:
        """The same for the same alert, however often it is sent. An incident and its end are one thread."""
        mail = EmailMessage(policy=SMTP)
        mail["Subject"] = "[Vitrina] " + " ".join(headline(alert).split())[:150]
        mail["From"], mail["To"] = self.sender, ", ".join(self.to)
        mail["Date"] = alert.created_at
        mail["Message-ID"] = f"<{alert.id}@vitrina.invalid>"
        kind = alert.details.get("after") if alert.event == RECOVERED else alert.event
        mail["References"] = f"<{alert.pipeline_id or alert.id}.{kind}@vitrina.invalid>"
        mail["Auto-Submitted"] = "auto-generated"
        link = page_of(alert, self.public_url)
        lines = [
            sentence(alert),
            "",
            *(f"{name}: {value}" for name, value in facts(alert)),
            *(["", link] if link else []),
        ]
        mail.set_content("\n".join(lines), cte="quoted-printable")
        return mail

    def _connect(self) -> smtplib.SMTP:
        server = self.server
        if server.scheme == "smtps":
            smtp: smtplib.SMTP = smtplib.SMTP_SSL(server.host, server.port, timeout=TIMEOUT, context=self.context)
        else:
            smtp = smtplib.SMTP(server.host, server.port, timeout=TIMEOUT)
        try:
            if server.scheme == "smtp" and not server.plain:
                smtp.starttls(context=self.context)
            if server.user:
                smtp.login(server.user, server.password or "")
        except BaseException:
            smtp.close()
            raise
        return smtp

    def _hand_over(self, smtp: smtplib.SMTP, message: bytes) -> str:
        smtp.ehlo_or_helo_if_needed()
        _require(smtp.mail(self.sender.rpartition("<")[2].rstrip(">")))
        refused = {to: answer for to in self.to if (answer := smtp.rcpt(to))[0] not in (250, 251)}
        if len(refused) == len(self.to):
            _require(next(iter(refused.values())))
        code, said = smtp.data(message)
        _require((code, said))
        not_told = "; ".join(f"{to} refused: {code} {_text(said)}" for to, (code, said) in refused.items())
        return f"{code} {_text(said)}" + (f"; {not_told}" if not_told else "")

    def _hidden(self, text: str) -> str:
        return hidden(text, [self.server.password])[:1_000]


def _require(answer: tuple[int, bytes]) -> None:
    code, said = answer
    if not 200 <= code < 300:
        raise smtplib.SMTPResponseException(code, said)


def _text(said: bytes | str) -> str:
    return said if isinstance(said, str) else said.decode(errors="replace")

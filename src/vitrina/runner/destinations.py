"""Whom this runner tells alerts, as its settings say."""

import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vitrina.domain.alerting import KINDS, Format
from vitrina.domain.errors import ConfigError
from vitrina.domain.labels import LABEL
from vitrina.meta.repos.alerts import Alert
from vitrina.runner.mail import Mail, Server
from vitrina.runner.receipt import Receipt
from vitrina.runner.webhook import Webhook, parse_url
from vitrina.settings import Destination, Settings

WEBHOOK = "webhook"  # the name of the one that VITRINA_WEBHOOK_URL says
NEEDS_SECRET = {Format.SIGNED: "what it signs with", Format.PAGERDUTY: "the routing key"}


@dataclass(frozen=True)
class Addressee:
    """One destination."""

    name: str
    format: Format
    labels: list[str]
    events: list[str]
    way: Webhook | Mail

    def send(self, alert: Alert) -> Receipt:
        """One attempt."""
        return self.way.send(alert)

    @property
    def row(self) -> dict[str, Any]:
        """For the meta-store: nothing secret."""
        about = {"name": self.name, "format": self.format, "place": self.way.place}
        return about | {"labels": self.labels, "events": self.events}


def find_destinations(settings: Settings) -> dict[str, Addressee]:
    """All, by name; a ConfigError says which setting is wrong, and shows no address."""
    return {told.name: told for told in _all(settings)}


def _all(settings: Settings) -> Iterator[Addressee]:
    if settings.webhook_url is not None:
        yield _signed_webhook(settings)
    for name, destination in settings.alerts.items():
        if name == WEBHOOK and settings.webhook_url is not None:
            raise ConfigError("VITRINA_ALERTS__WEBHOOK__URL and VITRINA_WEBHOOK_URL are both set", "name one otherwise")
        yield _destination(name, destination, settings.public_url)


def _signed_webhook(settings: Settings) -> Addressee:
    secret = settings.webhook_secret.get_secret_value() if settings.webhook_secret else ""
    if not secret:
        raise ConfigError("VITRINA_WEBHOOK_URL is set, and VITRINA_WEBHOOK_SECRET is not", "set both, or neither")
    assert settings.webhook_url is not None
    url = parse_url(settings.webhook_url.get_secret_value(), "VITRINA_WEBHOOK_URL")
    return Addressee(WEBHOOK, Format.SIGNED, [], [], Webhook(url, Format.SIGNED, secret, settings.public_url))


def _destination(name: str, given: Destination, public_url: str | None) -> Addressee:
    setting = f"VITRINA_ALERTS__{name.upper()}__"
    address = given.url.get_secret_value()
    is_mail = address.partition(":")[0].lower() in ("smtp", "smtps")
    form = given.format or (Format.EMAIL if is_mail else Format.SIGNED)
    if is_mail is not (form == Format.EMAIL):
        raise ConfigError(
            f"{setting}URL and {setting}FORMAT={form} do not go together", "email goes by smtp:// or smtps://"
        )
    _check_filter(setting, given)
    context = _trusting(setting, given.ca_file)
    way = (
        _mail(setting, given, address, public_url, context)
        if is_mail
        else _webhook(setting, given, form, public_url, context)
    )
    return Addressee(name, form, given.labels, given.events, way)


def _webhook(
    setting: str, given: Destination, form: Format, public_url: str | None, context: ssl.SSLContext | None
) -> Webhook:
    secret = given.secret.get_secret_value() if given.secret else ""
    if form in NEEDS_SECRET and not secret:
        raise ConfigError(f"{setting}SECRET is not set", f"it is {NEEDS_SECRET[form]}, for format {form}")
    url = parse_url(given.url.get_secret_value(), f"{setting}URL")
    return Webhook(url, form, secret, public_url, context or True)


def _mail(
    setting: str, given: Destination, address: str, public_url: str | None, context: ssl.SSLContext | None
) -> Mail:
    server = Server.parse(address, f"{setting}URL")
    for name, texts in (("TO", given.to), ("SENDER", [given.sender] if given.sender else [])):
        if not texts or not all(_is_mailbox(text) for text in texts):
            raise ConfigError(f"{setting}{name} is no e-mail address", "write name@example.org")
    assert given.sender is not None
    return Mail(server, given.sender, tuple(given.to), public_url, context or ssl.create_default_context())


def _is_mailbox(text: str) -> bool:
    bare = text.rpartition("<")[2].rstrip(">")
    return bare.count("@") == 1 and bare.isascii() and text.isprintable() and " " not in bare and "," not in text


def _check_filter(setting: str, given: Destination) -> None:
    unknown = sorted(set(given.events) - {*KINDS})
    if unknown:
        raise ConfigError(
            f"{setting}EVENTS names {unknown[0]!r}", f"there are {', '.join(KINDS)}; recoveries follow them"
        )
    wrong = [label for label in given.labels if not LABEL.fullmatch(label)]
    if wrong:
        raise ConfigError(f"{setting}LABELS names {wrong[0]!r}, which is no label", "write name:value or a name")


def _trusting(setting: str, ca_file: Path | None) -> ssl.SSLContext | None:
    if ca_file is None:
        return None
    try:
        return ssl.create_default_context(cafile=str(ca_file))
    except OSError as error:
        raise ConfigError(f"{setting}CA_FILE names {ca_file}, which cannot be read", "name a file of PEM") from error

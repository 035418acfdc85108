"""The provider: what its discovery document says, kept for a while; its keys; a code exchanged for an ID token."""

import time
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote_plus, urlsplit

from vitrina.addresses import is_loopback
from vitrina.control.openid.asking import ask
from vitrina.control.openid.refusal import Refused, Why

KEPT_SECONDS = 600.0
REFUSED_CLIENT = ("invalid_client", "unauthorized_client")


@dataclass(frozen=True)
class Endpoints:
    """Where it is asked what."""

    authorise: str
    token: str
    keys: str
    by_post: bool  # it wants the client's secret in the form
    names_itself: bool  # its answers carry `iss`

    @classmethod
    def parse(cls, issuer: str, said: Any) -> "Endpoints":
        """From a discovery document, which has to be this issuer's."""
        if not isinstance(said, dict) or said.get("issuer") != issuer:
            named = said.get("issuer") if isinstance(said, dict) else None
            raise Refused(Why.NONSENSE, f"the discovery document is of {named!r}, not of {issuer!r}")
        methods = said.get("token_endpoint_auth_methods_supported")
        by_post = isinstance(methods, list) and "client_secret_basic" not in methods and "client_secret_post" in methods
        return cls(
            _address(said, "authorization_endpoint"),
            _address(said, "token_endpoint"),
            _address(said, "jwks_uri"),
            by_post,
            said.get("authorization_response_iss_parameter_supported") is True,
        )


def is_safe(url: str) -> bool:
    """HTTPS, or of this very machine."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    return bool(host) and (parts.scheme == "https" or (parts.scheme == "http" and is_loopback(host)))


def _address(said: dict[str, Any], name: str) -> str:
    url = said.get(name)
    try:
        if isinstance(url, str) and is_safe(url):
            return url
    except ValueError:
        pass
    raise Refused(Why.NONSENSE, f"{name} of the discovery document is no https address: {url!r}")


class Provider:
    """What a process knows of it. Threads may ask twice for the same; none waits for another."""

    def __init__(self, issuer: str, client_id: str, secret: str) -> None:
        self.issuer, self.client_id, self._secret = issuer, client_id, secret
        self._endpoints: tuple[float, Endpoints] | None = None
        self._keys: tuple[str, list[dict[str, Any]]] | None = None  # where they are from, and they

    def endpoints(self) -> Endpoints:
        """As it says now, or said within ten minutes."""
        if self._endpoints is None or time.monotonic() > self._endpoints[0]:
            url = self.issuer.rstrip("/") + "/.well-known/openid-configuration"
            status, said = ask(url)
            if status != 200:
                raise Refused(Why.NONSENSE, f"{url} answered {status}")
            self._endpoints = time.monotonic() + KEPT_SECONDS, Endpoints.parse(self.issuer, said)
        return self._endpoints[1]

    def key(self, kid: str | None, kind: str) -> dict[str, Any] | None:
        """The key of this id and kind; one that is not known is looked for once more, at the provider."""
        url = self.endpoints().keys
        if self._keys and self._keys[0] == url and (found := _pick(self._keys[1], kid, kind)):
            return found
        self._keys = url, _fetch_keys(url)
        return _pick(self._keys[1], kid, kind)

    def exchange(self, code: str, verifier: str, back: str) -> str:
        """The ID token for a code."""
        at = self.endpoints()
        form = {"grant_type": "authorization_code", "code": code, "redirect_uri": back, "code_verifier": verifier}
        if at.by_post:
            status, said = ask(at.token, form | {"client_id": self.client_id, "client_secret": self._secret})
        else:
            status, said = ask(at.token, form, (quote_plus(self.client_id), quote_plus(self._secret)))
        token = said.get("id_token") if isinstance(said, dict) else None
        if status == 200 and isinstance(token, str):
            return token
        error = said.get("error") if isinstance(said, dict) else None
        reason = f"{at.token} answered {status}, error {error!r}, and no id_token"
        if error == "invalid_grant":
            raise Refused(Why.LOST, reason)
        raise Refused(Why.STRANGER if error in REFUSED_CLIENT else Why.NONSENSE, reason)


def _fetch_keys(url: str) -> list[dict[str, Any]]:
    status, said = ask(url)
    keys = said.get("keys") if isinstance(said, dict) else None
    if status != 200 or not isinstance(keys, list):
        raise Refused(Why.NONSENSE, f"{url} answered {status}, and no keys")
    return [key for key in keys if isinstance(key, dict) and key.get("use", "sig") == "sig"]


def _pick(keys: list[dict[str, Any]], kid: str | None, kind: str) -> dict[str, Any] | None:
    """By id; a token without one can only mean the only key of its kind."""
    fitting = [key for key in keys if key.get("kty") == kind and (kid is None or key.get("kid") == kid)]
    return fitting[0] if len(fitting) == 1 else None

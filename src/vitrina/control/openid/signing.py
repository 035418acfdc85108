"""Sign-in as the settings describe it: to the provider, and from its answer to a person with a role."""

import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Self
from urllib.parse import urlencode, urlsplit

from vitrina.control.api.auth import Actor
from vitrina.control.openid.begun import Begun
from vitrina.control.openid.claims import name_of, role_of
from vitrina.control.openid.provider import Provider, is_safe
from vitrina.control.openid.refusal import Refused, Why
from vitrina.domain.errors import ConfigError
from vitrina.settings import Settings, variable

NEEDED = ("oidc_client_id", "oidc_client_secret", "oidc_roles")


@dataclass(frozen=True)
class OpenId:
    """The provider, and what the settings make of what it says."""

    provider: Provider
    settings: Settings
    key: bytes  # of the cookies of sign-ins that were begun

    @classmethod
    def of(cls, settings: Settings) -> Self | None:
        """None: only tokens open the console."""
        if settings.oidc_issuer is None:
            return None
        _require(settings, settings.oidc_issuer)
        assert settings.oidc_client_id
        assert settings.oidc_client_secret
        secret = settings.oidc_client_secret.get_secret_value()
        key = hmac.digest(secret.encode(), f"vitrina sign-in {settings.oidc_issuer}".encode(), "sha256")
        return cls(Provider(settings.oidc_issuer, settings.oidc_client_id, secret), settings, key)

    @property
    def label(self) -> str:
        """What people know it by."""
        return self.settings.oidc_label or urlsplit(self.provider.issuer).hostname or self.provider.issuer

    def door(self, begun: Begun, back: str) -> str:
        """Where the browser goes first."""
        url = self.provider.endpoints().authorise
        asked = {
            "response_type": "code",
            "client_id": self.provider.client_id,
            "redirect_uri": back,
            "scope": " ".join(dict.fromkeys(["openid", *self.settings.oidc_scopes])),
            "state": begun.state,
            "nonce": begun.nonce,
            "code_challenge": begun.challenge,
            "code_challenge_method": "S256",
        }
        return f"{url}{'&' if urlsplit(url).query else '?'}{urlencode(asked)}"

    def check(self, answer: Mapping[str, str], begun: Begun | None) -> Begun:
        """Whether it answers what this browser began, and is this provider's."""
        if begun is None or not hmac.compare_digest(begun.state.encode(), answer["state"].encode()):
            raise Refused(Why.LOST, "no sign-in of this browser has this state")
        issuer = answer["iss"]
        if (issuer or self.provider.endpoints().names_itself) and issuer != self.provider.issuer:
            raise Refused(Why.UNTRUSTED, f"the answer is of {issuer!r:.200}")
        if answer["error"] or not answer["code"]:
            raise Refused(Why.DENIED, f"error {answer['error']!r:.200}", error=answer["error"][:100] or "?")
        return begun

    def person(self, code: str, begun: Begun, back: str) -> tuple[Actor, str]:
        """Who signs in, with the role of now; and their lasting id at the provider."""
        from vitrina.control.openid.token import verified  # needs the extra, which `of` has looked for

        claims = verified(self.provider.exchange(code, begun.verifier, back), self.provider, begun.nonce)
        name = name_of(claims, self.settings.oidc_name_claim)
        role = role_of(claims, self.settings.oidc_role_claim, self.settings.oidc_roles, name)
        return Actor(name, role), str(claims["sub"])


def _require(settings: Settings, issuer: str) -> None:
    """What is missing is said as the process starts, not to the first who signs in."""
    if not is_safe(issuer):
        raise ConfigError(
            f"VITRINA_OIDC_ISSUER is {issuer!r}, which is no https address", "give it as the provider does"
        )
    for name in NEEDED:
        value = getattr(settings, name)
        if not (value.get_secret_value() if name == "oidc_client_secret" and value else value):
            raise ConfigError(f"VITRINA_OIDC_ISSUER is set, and {variable(name)} is not", "set both, or neither")
    if find_spec("jwt") is None or find_spec("cryptography") is None:
        raise ConfigError("VITRINA_OIDC_ISSUER is set, and PyJWT is not installed", "pip install 'vitrina[oidc]'")

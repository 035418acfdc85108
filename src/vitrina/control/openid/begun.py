"""A sign-in that was begun: what only this browser may end it with, in a cookie that nobody else can have written."""

import base64
import binascii
import hashlib
import hmac
import json
import secrets
import time
from dataclasses import asdict, dataclass

SECONDS = 600


@dataclass(frozen=True)
class Begun:
    """The state that the answer must carry, the nonce of its token, the secret behind its code, and where to then."""

    state: str
    nonce: str
    verifier: str
    wanted: str
    until: float

    @classmethod
    def now(cls, wanted: str) -> "Begun":
        """A new one."""
        state, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(3))
        return cls(state, nonce, verifier, wanted, time.time() + SECONDS)

    @property
    def challenge(self) -> str:
        """What the provider is shown of the verifier (PKCE, S256)."""
        return _coded(hashlib.sha256(self.verifier.encode()).digest())

    def sealed(self, key: bytes) -> str:
        """As a cookie."""
        body = _coded(json.dumps(asdict(self)).encode())
        return f"{body}.{_coded(_signed(key, body))}"

    @classmethod
    def opened(cls, cookie: str, key: bytes) -> "Begun | None":
        """From a cookie; None if it is not ours or too old."""
        body, _, signature = cookie.partition(".")
        if not hmac.compare_digest(signature.encode(), _coded(_signed(key, body)).encode()):
            return None
        try:
            begun = cls(**json.loads(base64.urlsafe_b64decode(body + "==")))
        except (ValueError, TypeError, binascii.Error):
            return None
        return begun if time.time() < begun.until else None


def _signed(key: bytes, body: str) -> bytes:
    return hmac.digest(key, body.encode(), "sha256")


def _coded(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")

"""A small provider of OpenID Connect on loopback: real keys, discovery, codes that work once, PKCE checked.

What it says can be twisted, as a provider's enemy or a broken provider would.
"""

import base64
import hashlib
import json
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote_plus, urlencode, urlsplit

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa

CLIENT, SECRET = "vitrina: console", "planted/secret+of:the client"
ANN: dict[str, Any] = {"sub": "00a1", "preferred_username": "ann", "groups": ["staff", "vitrina-operators"]}
SETTINGS: dict[str, Any] = {
    "oidc_client_id": CLIENT,
    "oidc_client_secret": SECRET,
    "oidc_roles": "vitrina-viewers=viewer, vitrina-operators=operator, vitrina-admins=admin",
}
Twist = Callable[[dict[str, Any], dict[str, Any]], str]


def coded(raw: bytes) -> str:
    """Base64 as tokens have it."""
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


@dataclass
class Key:
    """A key that signs."""

    kid: str
    private: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey

    @classmethod
    def new(cls, algorithm: str = "RS256", bits: int = 2048) -> "Key":
        """Of this algorithm."""
        private = (
            ec.generate_private_key(ec.SECP256R1()) if algorithm == "ES256" else rsa.generate_private_key(65537, bits)
        )
        return cls(secrets.token_hex(4), private)

    @property
    def algorithm(self) -> str:
        """By its kind."""
        return "ES256" if isinstance(self.private, ec.EllipticCurvePrivateKey) else "RS256"

    @property
    def public(self) -> dict[str, Any]:
        """As the provider publishes it."""
        kind = jwt.get_algorithm_by_name(self.algorithm)
        jwk: dict[str, Any] = kind.to_jwk(self.private.public_key(), as_dict=True)
        return jwk | {"kid": self.kid, "use": "sig"}

    def sign(self, claims: dict[str, Any], **header: Any) -> str:
        """A token of whatever claims."""
        body = json.dumps(claims).encode()
        return jwt.PyJWS().encode(body, self.private, self.algorithm, {"kid": self.kid} | header)


@dataclass
class Grant:
    """What a code stands for."""

    back: str
    nonce: str
    challenge: str


@dataclass
class SmallProvider:
    """What it knows, and what it was told to do wrong."""

    issuer: str = ""
    person: dict[str, Any] = field(default_factory=lambda: dict(ANN))
    keys: list[Key] = field(default_factory=lambda: [Key.new()])
    grants: dict[str, Grant] = field(default_factory=dict)
    backs: list[str] = field(default_factory=list)  # where it may send people
    asks: bool = False  # a page with a button first, for browsers
    twist: Twist | None = None  # how the token is made instead
    instead: dict[str, Callable[[BaseHTTPRequestHandler], None]] = field(default_factory=dict)  # by path
    asked: list[str] = field(default_factory=list)
    discovery: dict[str, Any] = field(default_factory=dict)  # besides, or instead of, what is right

    def describe(self) -> dict[str, Any]:
        """The discovery document."""
        return {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize?tenant=7",
            "token_endpoint": f"{self.issuer}/token",
            "jwks_uri": f"{self.issuer}/keys",
            "response_types_supported": ["code"],
            "id_token_signing_alg_values_supported": ["RS256", "ES256"],
            "token_endpoint_auth_methods_supported": ["client_secret_basic"],
            "code_challenge_methods_supported": ["S256"],
            "authorization_response_iss_parameter_supported": True,
        } | self.discovery

    def authorise(self, query: dict[str, str]) -> str:
        """Where the browser goes with a code; an error of who asks wrongly is a KeyError or an AssertionError."""
        assert query["tenant"] == "7"
        assert query["client_id"] == CLIENT
        assert query["redirect_uri"] in self.backs
        assert (query["response_type"], query["code_challenge_method"]) == ("code", "S256")
        assert "openid" in query["scope"].split()
        code = secrets.token_urlsafe(16)
        self.grants[code] = Grant(query["redirect_uri"], query["nonce"], query["code_challenge"])
        return f"{query['redirect_uri']}?{urlencode({'code': code, 'state': query['state'], 'iss': self.issuer})}"

    def redeem(self, form: dict[str, str], client: tuple[str, str]) -> tuple[int, dict[str, Any]]:
        """Tokens for a code, once, and only to who began."""
        if client != (CLIENT, SECRET):
            return 401, {"error": "invalid_client"}
        grant = self.grants.pop(form.get("code", ""), None)
        challenge = coded(hashlib.sha256(form.get("code_verifier", "").encode()).digest())
        if grant is None or grant.back != form.get("redirect_uri") or grant.challenge != challenge:
            return 400, {"error": "invalid_grant"}
        return 200, {"access_token": "opaque", "token_type": "Bearer", "id_token": self.token(grant.nonce)}

    def token(self, nonce: str) -> str:
        """An ID token, right or twisted."""
        now = int(time.time())
        claims = {"iss": self.issuer, "aud": CLIENT, "iat": now, "exp": now + 300, "nonce": nonce} | self.person
        header = {"alg": self.keys[-1].algorithm, "kid": self.keys[-1].kid, "typ": "JWT"}
        return self.twist(header, claims) if self.twist else self.keys[-1].sign(claims)


class Handler(BaseHTTPRequestHandler):
    """HTTP over it."""

    provider: SmallProvider
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Discovery, keys, and the page where people say who they are."""
        url, it = urlsplit(self.path), self.provider
        it.asked.append(url.path)
        if url.path in it.instead:
            it.instead[url.path](self)
        elif url.path == "/.well-known/openid-configuration":
            self.answer(200, it.describe())
        elif url.path == "/keys":
            self.answer(200, {"keys": [key.public for key in it.keys]})
        elif url.path == "/authorize":
            self._authorise({name: values[0] for name, values in parse_qs(url.query).items()})
        else:
            self.answer(404, {})

    def do_POST(self) -> None:
        """Codes for tokens."""
        path, it = urlsplit(self.path).path, self.provider
        it.asked.append(path)
        body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
        form = {name: values[0] for name, values in parse_qs(body).items()}
        if path in it.instead:
            it.instead[path](self)
        elif path == "/token":
            self.answer(*it.redeem(form, self._client(form)))

    def answer(self, status: int, said: Any, kind: str = "application/json", **headers: str) -> None:
        """JSON, or text as it is."""
        body = (said if isinstance(said, str) else json.dumps(said)).encode()
        self.send_response(status)
        for name, value in {"Content-Type": kind, "Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def _authorise(self, query: dict[str, str]) -> None:
        try:
            back = self.provider.authorise(query)
        except (KeyError, AssertionError) as error:
            self.answer(400, {"error": "invalid_request", "error_description": repr(error)})
            return
        if self.provider.asks:
            page = '<!doctype html><html lang="en"><title>Provider</title><link rel="icon" href="data:,">'
            self.answer(200, f'{page}<a href="{back.replace("&", "&amp;")}">I am Ann</a>', "text/html")
        else:
            self.answer(302, "", Location=back)

    def _client(self, form: dict[str, str]) -> tuple[str, str]:
        given = self.headers.get("Authorization", "")
        if not given.startswith("Basic "):
            return form.get("client_id", ""), form.get("client_secret", "")
        name, _, secret = base64.b64decode(given[6:]).decode().partition(":")
        return unquote_plus(name), unquote_plus(secret)

    def log_message(self, *_: Any) -> None:
        """Nothing."""


@contextmanager
def providing() -> Iterator[SmallProvider]:
    """The provider, while it is needed."""
    provider = SmallProvider()
    handler = type("Bound", (Handler,), {"provider": provider})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    provider.issuer = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield provider
    finally:
        server.shutdown()
        server.server_close()
        thread.join()

"""An ID token is believed if the provider signed it, for this console, for this sign-in, and now."""

import hmac
from typing import Any

import jwt

from vitrina.control.openid.provider import Provider
from vitrina.control.openid.refusal import Refused, Why

KINDS = {"RS256": "RSA", "ES256": "EC"}  # what may sign, and with which kind of key: no secret, and not nothing
LEEWAY_SECONDS = 60
LEAST_RSA_BITS = 2048
LONGEST_SUBJECT = 255
NEEDED = ["iss", "aud", "exp", "iat", "sub", "nonce"]


def verified(token: str, provider: Provider, nonce: str) -> dict[str, Any]:
    """Its claims, or Refused."""
    try:
        claims = _decoded(token, provider)
    except (jwt.PyJWTError, ValueError, TypeError, OverflowError, RecursionError) as error:
        raise _untrusted(f"{type(error).__name__}: {error}") from None
    said, party = claims["nonce"], claims.get("azp")
    if not isinstance(said, str) or not hmac.compare_digest(said.encode(), nonce.encode()):
        raise _untrusted("its nonce is of another sign-in")
    if not claims["sub"].isprintable() or len(claims["sub"]) > LONGEST_SUBJECT:
        raise _untrusted("its subject is no id")
    several = isinstance(claims["aud"], list) and len(claims["aud"]) > 1
    if (several or party is not None) and party != provider.client_id:
        raise _untrusted(f"it was given to {party!r}")
    return claims


def _decoded(token: str, provider: Provider) -> dict[str, Any]:
    header = jwt.get_unverified_header(token)
    algorithm, kid = header.get("alg"), header.get("kid")
    if algorithm not in KINDS:
        raise _untrusted(f"it is signed by {algorithm!r}, not by {' or '.join(KINDS)}")
    known = provider.key(kid, KINDS[algorithm])
    if known is None:
        raise _untrusted(f"the provider has no key {kid!r} for {algorithm}")
    key = jwt.PyJWK(known, algorithm).key
    if algorithm == "RS256" and key.key_size < LEAST_RSA_BITS:
        raise _untrusted(f"its key {kid!r} has {key.key_size} bits only")
    claims: dict[str, Any] = jwt.decode(
        token,
        key,
        algorithms=[algorithm],
        audience=provider.client_id,
        issuer=provider.issuer,
        leeway=LEEWAY_SECONDS,
        options={"require": NEEDED},
    )
    return claims


def _untrusted(reason: str) -> Refused:
    return Refused(Why.UNTRUSTED, f"the ID token is refused: {reason}")

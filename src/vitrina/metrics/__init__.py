"""What Prometheus is told: events, counted by the process where they happen; the API tells how things stand."""

import hmac


def shows(authorization: str | None, token: str) -> bool:
    """Whether a header shows this bearer token."""
    scheme, _, shown = (authorization or "").partition(" ")
    return scheme.lower() == "bearer" and hmac.compare_digest(shown.encode(), token.encode())

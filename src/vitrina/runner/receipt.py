"""What became of one attempt to tell an alert."""

import time
from collections.abc import Iterable
from dataclasses import dataclass, field

TIMEOUT = 10.0
SHORTEST = 6  # of what is hidden: less is a word that any answer may have


@dataclass(frozen=True)
class Receipt:
    """None: delivered. `answer` is what the receiver said, its beginning, without our secrets."""

    error: str | None
    answer: str
    began: float  # by the monotonic clock
    pause: float | None = None  # seconds that the receiver asks for
    away: bool = False  # nobody answered: nothing else need be tried there for a while
    took_ms: float = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "took_ms", round((time.monotonic() - self.began) * 1000, 1))


def hidden(text: str, secrets: Iterable[str | None]) -> str:
    """Without what nobody should read in it, and without what a database cannot hold."""
    for secret in sorted({secret for secret in secrets if secret and len(secret) >= SHORTEST}, key=len, reverse=True):
        text = text.replace(secret, "…")
    return text.replace("\0", "")

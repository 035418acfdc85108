"""How long a store of files is waited for."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Patience:
    """And how often it is asked before it is said to be away."""

    connect_seconds: float
    silent_seconds: float  # without a byte
    attempts: int


LONG, SHORT = Patience(5, 20, 3), Patience(3, 5, 1)

"""How long a capture lets changes gather before it hands them on: not at all while few come, longer the more do.

Each batch costs a few milliseconds of a core, here and with everybody who follows, however few changes it has.
"""

import math
import time
from dataclasses import dataclass, field

LONGEST = 0.05  # seconds
SOON = 0.001  # then one that no snapshot sees yet is looked for again, later each time
MEMORY = 0.5  # seconds, over which transactions are counted
FEW, MANY = 200.0, 1000.0  # transactions a second


@dataclass
class Tempo:
    """Of one stream."""

    pause: float = 0.0
    _count: float = 0.0  # of transactions, the older the less they count
    _at: float = field(default_factory=time.monotonic)

    def handed_on(self, transactions: int) -> None:
        """So many, just now."""
        now = time.monotonic()
        self._count = self._count * math.exp((self._at - now) / MEMORY) + transactions
        self._at = now
        rate = self._count / MEMORY
        self.pause = LONGEST * min(max((rate - FEW) / (MANY - FEW), 0.0), 1.0)

    def not_seen(self) -> None:
        """There is one, and nobody can read its rows yet."""
        self.pause = min(max(2 * self.pause, SOON), LONGEST)

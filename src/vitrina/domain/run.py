"""What a run counts and says."""

from dataclasses import dataclass
from typing import Self


@dataclass(frozen=True)
class Counts:
    """Rows of one batch, or of a whole run."""

    read: int = 0
    written: int = 0
    deleted: int = 0
    unchanged: int = 0

    def __add__(self, other: Self) -> "Counts":
        return Counts(
            self.read + other.read,
            self.written + other.written,
            self.deleted + other.deleted,
            self.unchanged + other.unchanged,
        )


NOTHING = Counts()


@dataclass(frozen=True)
class RunOptions:
    """What was asked for with this one run."""

    restart: bool = False
    allow_deletes: bool = False
    rebuild: bool = False  # write every row of the mart anew, at once
    repair: bool = False  # compare and converge as mode full does, whatever the mode

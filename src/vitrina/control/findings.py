"""A finding: something that validation has to say about a pipeline."""

from dataclasses import dataclass
from typing import Literal

Level = Literal["error", "warning", "info"]


@dataclass(frozen=True)
class Finding:
    """What was found where, and what to do about it."""

    level: Level
    where: str
    message: str
    remedy: str = ""

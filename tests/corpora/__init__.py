"""Queries by the hundred: hostile ones that must be refused, honest ones that must not."""

import re
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
FIXTURES = HERE / "fixtures.sql"
BLOCK = re.compile(r"^-- name: ([^\n]+)\n((?:-- \w+: [^\n]+\n)*)(.*?)(?=^-- name: |\Z)", re.MULTILINE | re.DOTALL)
TIMES = re.compile("«(\\d+)×(.*?)»", re.DOTALL)


@dataclass(frozen=True)
class Text:
    """One query. `lends`: it reads with the rights of a view's or a function's owner."""

    name: str
    query: str
    lends: bool


def corpus(name: str) -> list[Text]:
    """The texts of a file, with «3×ab» written out as ababab."""
    return [
        Text(block[1], TIMES.sub(lambda m: m[2] * int(m[1]), block[3].strip()), "-- lends:" in block[2])
        for block in BLOCK.finditer((HERE / f"{name}.sql").read_text())
    ]

"""The functions that rows go through, the same for Vitrina, the floor and dlt; they need nothing but Python."""

import re
from collections.abc import Iterable, Iterator
from typing import Any

SPACES = re.compile(r"\s+")


def tidy(rows: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Titles trimmed, with white space folded and quotes around them gone; a decade beside the date."""
    for row in rows:
        date = row["creation_date"]
        title = SPACES.sub(" ", row["title"]).strip().strip("\"'«»")
        yield row | {"title": title, "decade": date.year // 10 * 10 if date else None}


def judge(rows: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Whether a user liked the film."""
    for row in rows:
        yield row | {"liked": row["rating"] >= 6}


FUNCTIONS = {"tidy": tidy, "judge": judge}

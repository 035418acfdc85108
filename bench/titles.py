"""The function of the transform's benchmark, the same for Vitrina, the floor and dlt; it needs nothing but Python."""

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

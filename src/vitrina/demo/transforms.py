"""The demo's Python transforms."""

import re
from collections.abc import Iterator, Sequence

from vitrina import Row, transform

SPACES = re.compile(r"\s+")
STANDALONE_QUOTES = "\"'«»“”"


@transform("normalise_title")
def normalise_title(rows: Sequence[Row]) -> Iterator[Row]:
    """Trim, fold white space and drop quotes around the whole title."""
    for row in rows:
        yield row | {"title": SPACES.sub(" ", row["title"]).strip().strip(STANDALONE_QUOTES)}


@transform("add_decade", adds={"decade": "integer"})
def add_decade(rows: Sequence[Row]) -> Iterator[Row]:
    """The decade of the release; films without a date are left out."""
    for row in rows:
        if row["creation_date"]:
            yield row | {"decade": row["creation_date"].year // 10 * 10}


@transform("segment_users", adds={"segment": "text", "generosity": "numeric"})
def segment_users(rows: Sequence[Row]) -> Iterator[Row]:
    """A user's segment by how much they rate, and how far their average lies from the middle of the scale."""
    for row in rows:
        yield row | {"segment": _segment(row["rating_count"]), "generosity": row["avg_rating"] - 5}


def _segment(ratings: int) -> str:
    if ratings >= 35:
        return "critic"
    return "regular" if ratings >= 10 else "casual"

"""The table of docs/arrow.md that says what engines compute otherwise."""

import re
from collections.abc import Iterator
from pathlib import Path

from vitrina.sources.source import Source

PAGE = Path(__file__).parents[1] / "docs" / "arrow.md"
ROW = re.compile(r"^\| `([^|]+)` \| (`[^`]*`|NULL) \| (`[^`]*`|NULL) \| (`[^`]*`|NULL) \|$", re.MULTILINE)
ENGINES = ("Postgres", "DuckDB", "Spark")
FRACTION = re.compile(r"(:\d\d)\.0+(?!\d)")
QUOTED = re.compile(r'"(\d+)"')


def told() -> Iterator[tuple[str, dict[str, str]]]:
    """Each expression, and what the page says of it."""
    for row in ROW.findall(PAGE.read_text()):
        yield row[0], dict(zip(ENGINES, (value.strip("`") for value in row[1:]), strict=True))


def value(source: Source, expression: str, double: str = "double") -> str:
    """What a source gives for it; times without a fraction that is none, numbers of arrays without quotes."""
    head, _, rest = expression.partition(" FROM ")
    query = f"SELECT {head} AS v" + (f" FROM {rest}" if rest else "")
    [[found]] = [row for batch in source.rows(query.replace("double precision", double), 10) for row in batch.values()]
    return "NULL" if found is None else QUOTED.sub(r"\1", FRACTION.sub(r"\1", found.decode()))


def differing(source: Source, engine: str, double: str = "double") -> dict[str, tuple[str, str]]:
    """Where an engine gives something else than the page says: that, and what is said."""
    found = {expression: (value(source, expression, double), values[engine]) for expression, values in told()}
    return {expression: pair for expression, pair in found.items() if pair[0] != pair[1]}

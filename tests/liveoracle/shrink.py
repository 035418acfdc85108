"""A miss made small: pieces of the text are taken out for as long as the query still misses."""

import re
from collections.abc import Callable, Iterator, Sequence

from tests.liveoracle.parts import Query

MOST_TRIES = 250
TOKEN = re.compile(r"'[^']*'|[\w.]+|::|[<>=]+|\S")
# Where a piece may begin or end: before a clause, between the members of a list.
SEAMS = {
    ",", "AND", "OR", "WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "OFFSET", "FETCH", "UNION", "EXCEPT", "INTERSECT",
    "JOIN", "LEFT", "RIGHT", "FULL", "CROSS", "ON", "FILTER", "SELECT", "FROM", "WITH", "DISTINCT",
}  # fmt: skip


def shrink(query: Query, still_misses: Callable[[Query], bool]) -> Query:
    """The smallest query found that still misses; the largest pieces are tried first."""
    left, smallest = MOST_TRIES, False
    while left > 0 and not smallest:
        smallest = True
        for text in sorted(set(smaller(query.select)), key=len)[:left]:
            left -= 1
            candidate = Query(text, query.key, query.tied)
            if still_misses(candidate):
                query, smallest = candidate, False
                break
    return query


def smaller(select: str) -> Iterator[str]:
    """The query without one piece."""
    tokens = TOKEN.findall(select)
    seams = [at for at, token in enumerate(tokens) if token in SEAMS or token == ")"] + [len(tokens)]
    for start in seams:
        for end in (seam for seam in seams if seam > start):
            if _is_balanced(tokens[start:end]):
                yield " ".join(tokens[:start] + tokens[end:])


def _is_balanced(tokens: Sequence[str]) -> bool:
    depth = 0
    for token in tokens:
        depth += {"(": 1, ")": -1}.get(token, 0)
        if depth < 0:
            return False
    return depth == 0

"""Why changes refresh everything, counted over generated queries: where the derivation gives up."""

import re
from collections import Counter

from psycopg import Error

from tests.liveoracle.checks import Oracle
from tests.liveoracle.running import draw

NAMES = re.compile(r"\bk\d(, k\d)*")


def count(oracle: Oracle, queries: int, seed: int) -> Counter[str]:
    """Verdicts by reason; "keys" and "part of the key" are those that tell something."""
    found: Counter[str] = Counter()
    for number in range(seed, seed + queries):
        query, _ = draw(number)
        try:
            with oracle.conn.transaction():
                occurrences = oracle.judge(query)
        except Error:
            continue
        for occurrence in occurrences:
            whole = len(occurrence.key) == len(query.key)
            told = "the key" if whole else "part of the key"
            found[told if occurrence.verdict == "keys" else NAMES.sub("it", occurrence.reason.split(": ", 1)[1])] += 1
    return found


def written(found: Counter[str]) -> str:
    """For people."""
    total = found.total()
    return "\n".join(f"{many:8,} {100 * many / total:5.1f}%  {reason}" for reason, many in found.most_common())

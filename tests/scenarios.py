"""What Vitrina must survive, by number: each has tests that carry `@pytest.mark.scenario(number)` and say it by name.

`tests/unit/test_scenarios.py` holds this list and the marks to each other.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parent
SCENARIOS: dict[int, str] = {
    # Runners.
    1: "a runner dies after it wrote to a mart and before it committed",
    2: "a runner dies after its bulk arrived and before the checkpoint moved",
    3: "a runner stands still for longer than its lease, and goes on when another has its work",
    4: "the same, in the middle of a bulk request",
    5: "eight runners make a thousand claims of one pipeline",
    6: "a run ends at the moment when another runner takes it over",
    7: "a runner comes back under its old name while its old lease lasts",
    8: "every runner dies, and some are started again",
    9: "a pipeline takes its runner down every time",
    10: "a runner's clock is an hour off",
    11: "the database restarts in the middle of a batch",
    12: "the connection is cut while a COMMIT is on its way",
    13: "every slot of a runner is busy for longer than a lease",
    14: "a runner is asked to end",
    15: "one pipeline fails in every way that there is",
    # Control.
    16: "a pause is asked for during a batch",
    17: "a pipeline is paused, and its runner dies",
    18: "run, pause, enable, disable, edit and crash come in any order",
    19: "a pipeline is edited while it runs",
    20: "a pipeline is deleted while it runs, by the API or by hand",
    21: "two pipelines want one target",
    22: "a run is asked for twice at once",
    # Cursors and data.
    23: "a transaction writes before a run and commits after it",
    24: "a transaction is open before a run and writes its first row after it began",
    25: "thousands of rows share one timestamp",
    26: "somebody's long read-only transaction stays open",
    27: "a prepared transaction stays prepared",
    28: "a row carries a time of the future",
    29: "a cursor or a key is NULL",
    30: "the query gives one key twice",
    31: "cursors of every type come back from the checkpoint",
    32: "a row is deleted at the source",
    33: "a column of the source is dropped or gets another type",
    34: "the reader may not see other sessions' transactions",
    35: "the source is suddenly empty",
    36: "the tables behind a live mart change in every way",
    # Elasticsearch.
    37: "one document of a batch can never be indexed",
    38: "a server too busy refuses a part of a bulk",
    39: "a bulk arrives and its answer does not",
    40: "a bulk is too large, or the disk is full",
    41: "the server is down at the start or goes down in the middle",
    42: "documents get a field that the mapping does not have",
    43: "a runner dies while it rebuilds an index",
    44: "a write arrives long after its document was deleted",
    # SQL and API.
    45: "the query is more than one plain SELECT",
    46: "the query calls a function that reaches out of it",
    47: "the query reaches forbidden things through a view, a definer's rights or the search path",
    48: "the query is as deep or as long as it gets",
    49: "hostile queries run with the parser switched off",
    50: "honest analytics queries are accepted",
    51: "every route is asked by everybody",
    52: "a secret is planted",
    53: "another site posts with the visitor's cookie",
    54: "the API is sent what makes no sense",
    # Found by review.
    55: "query and mart sort their keys under different collations",
    56: "values that are equal and do not look it",
    57: "a server restart empties an unlogged stage",
    58: "a runner stands still between its fence and its COMMIT",
    59: "a table is captured while a transaction that has written to it is open",
    60: "a change arrives for a key whose batch is under way",
    61: "the source fails over, or is restored, to an older state",
    62: "a function inside an allowed view is called by a push-down",
    63: "an index is changed, deleted or made anew by hand",
    64: "everything goes through pgbouncer in transaction mode",
    # One neighbour.
    65: "a sink takes connections and never answers",
    66: "somebody keeps rows of the meta-store locked",
    67: "a source of a thousand pipelines takes connections and never answers",
    68: "a transform hangs, crashes or eats all memory",
    69: "a stranger holds an advisory lock that is ours",
    # Clocks and hands.
    70: "the database's clock jumps by hours",
    71: "the source of an incremental mart, or its clock, goes back behind the checkpoint",
    72: "somebody empties a live mart by hand",
    73: "a source, a sink or the warehouse is away for a second or for minutes",
}


def marked() -> dict[int, list[str]]:
    """Which tests carry which numbers, read from the sources: also those that this machine cannot run."""
    found: dict[int, list[str]] = {}
    for file in sorted(TESTS.rglob("test_*.py")):
        for name, number in _marks(ast.parse(file.read_text())):
            found.setdefault(number, []).append(f"{file.relative_to(TESTS)}::{name}")
    return found


def _marks(tree: ast.Module) -> Iterator[tuple[str, int]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            for decorator in node.decorator_list:
                if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "pytest.mark.scenario":
                    yield from ((node.name, int(ast.literal_eval(argument))) for argument in decorator.args)

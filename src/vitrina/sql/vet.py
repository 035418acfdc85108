"""The SQL guard as a whole: may this SELECT run, and what should its author know?

Each layer stands without the one above it:

| layer                                         | stops                                                                |
|-----------------------------------------------|----------------------------------------------------------------------|
| 1. the grammar (`guard`)                      | several statements, anything but SELECT, DML in CTEs, INTO, row      |
|                                               | locks, parameters, tables without a schema or of a forbidden one,    |
|                                               | texts too long or too deep; needs no database                        |
| 2. what it calls, by oid (`tree` + `calls`,   | functions that write, signal, sleep, lock, read files or the server, |
|    judged by `rules`)                         | execute text; user-defined and SECURITY DEFINER ones, also as        |
|                                               | operator, cast, type or policy; shadowed names; forbidden schemas    |
|                                               | behind views, however deep                                           |
| 3. the reader's role                          | reading what was not granted, writing anything, files, other roles'  |
|                                               | sessions: whatever the layers above have missed                      |
| 4. READ ONLY transactions, and a read-only    | writes by functions that run with their owner's rights, from the     |
|    subtransaction in `etl.read_as_reader`     | reader's connection and inside the runner's own statements           |
| 5. the extended protocol, or PREPARE first    | a second statement                                                   |
| 6. statement and lock timeouts                | what would never end                                                 |

What the owner of a view or of a SECURITY DEFINER function lends the reader to read is stopped by layer 2 alone.

Layer 2 is the same for the warehouse and for remote sources: it needs a connection and nothing of Vitrina's in the
database. A function named in VITRINA_ALLOWED_FUNCTIONS is trusted with everything in its body. Not followed: what a
foreign table does on its server, and partitions, which belong to their parent wherever they live.
"""

import re
from collections.abc import Collection, Mapping

from vitrina.domain.findings import Code, Finding
from vitrina.meta.db import Connection, transaction
from vitrina.sql.calls import resolve_uses
from vitrina.sql.inputs import honest_calls
from vitrina.sql.rules import judge
from vitrina.sql.tree import rewritten_tree

CLOCK_LITERAL = re.compile(r"'\s*(now|today|tomorrow|yesterday)\s*'", re.IGNORECASE)


def called(
    conn: Connection,
    session: Mapping[str, str],
    select: str,
    *,
    schemas: Collection[str],
    functions: Collection[str] = (),
) -> list[Finding]:
    """The second layer: what the query calls and reads, judged. It is neither planned nor executed.

    `conn` is the reader's, `session` the settings that the query will run with: search_path decides what names mean.
    """
    with transaction(conn, session, read_only=True, keep=False):
        tree = rewritten_tree(conn, select)
        resolved = resolve_uses(conn, tree)
        honest = honest_calls(conn, tree, resolved)
    findings = dict.fromkeys(judge(resolved, frozenset(schemas), frozenset(functions), honest))
    if literal := CLOCK_LITERAL.search(select):
        findings[Finding("warning", literal[0], Code.CLOCK_LITERAL, {"literal": literal[0]})] = None
    return list(findings)

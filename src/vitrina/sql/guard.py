"""The first layer of the SQL guard: the real Postgres grammar.

One SELECT, nothing that writes or locks, tables of allowed schemas only. The layers below it do not trust it:
the SELECT runs as a role that can only read, in transactions that cannot write.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import postgast
from google.protobuf.message import DecodeError

from vitrina.domain.errors import ConfigError

MAX_BYTES = 1_000_000
WRITES = {"InsertStmt": "INSERT", "UpdateStmt": "UPDATE", "DeleteStmt": "DELETE", "MergeStmt": "MERGE"}


def check_select(text: str, allowed_schemas: Iterable[str]) -> str:
    """The statement without what surrounds it, or a ConfigError that says what is wrong and where."""
    raw = _parse(text)
    problems = list(_problems(raw.stmt, set(allowed_schemas)))
    if problems:
        raise ConfigError("the query is refused: " + "; ".join(dict.fromkeys(problems)))
    encoded = text.encode()
    end = raw.stmt_location + raw.stmt_len if raw.stmt_len else len(encoded)
    return encoded[raw.stmt_location : end].decode().strip()


def _parse(text: str) -> Any:
    if len(text.encode()) > MAX_BYTES:
        raise ConfigError(f"the query is longer than {MAX_BYTES:,} bytes")
    if "\0" in text:
        raise ConfigError("the query contains a NUL character")
    try:
        statements = postgast.parse(text).stmts
    except postgast.PgQueryError as error:
        raise ConfigError(f"the query does not parse: {error.message}{_line(text, error.cursorpos)}") from error
    except (DecodeError, RecursionError) as error:
        raise ConfigError("the query is nested too deeply") from error
    if len(statements) != 1:
        raise ConfigError(f"the query must be one SELECT, not {len(statements)} statements")
    if not statements[0].stmt.HasField("select_stmt"):
        raise ConfigError("the query must be a SELECT")
    return statements[0]


def _problems(tree: Any, allowed: set[str]) -> Iterator[str]:
    nodes = [node for _, node in postgast.walk(tree)]
    ctes = {node.ctename for node in nodes if _kind(node) == "CommonTableExpr"}
    for node in nodes:
        kind = _kind(node)
        if kind in WRITES:
            yield f"{WRITES[kind]} inside a SELECT"
        elif kind == "IntoClause":
            yield "SELECT INTO"
        elif kind == "LockingClause":
            yield "FOR UPDATE / SHARE"
        elif kind == "ParamRef":
            yield f"the parameter ${node.number}"
        elif kind == "RangeVar":
            yield from _table_problems(node, allowed, ctes)


def _table_problems(table: Any, allowed: set[str], ctes: set[str]) -> Iterator[str]:
    if not table.schemaname:
        if table.relname not in ctes:
            yield f"table {table.relname} has no schema: write schema.{table.relname}"
    elif table.schemaname not in allowed:
        yield (
            f"schema {table.schemaname} is not allowed "
            f"(VITRINA_ALLOWED_SOURCE_SCHEMAS allows {', '.join(sorted(allowed))})"
        )


def _kind(node: Any) -> str:
    return type(node).__name__


def _line(text: str, position: int) -> str:
    return f", line {text.count(chr(10), 0, position - 1) + 1}" if position > 0 else ""

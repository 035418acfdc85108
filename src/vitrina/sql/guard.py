"""The first layer of the SQL guard: the real Postgres grammar.

One SELECT, nothing that writes or locks, tables of allowed schemas only. The layers below it do not trust it:
the SELECT runs as a role that can only read, in transactions that cannot write.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import postgast
from google.protobuf.message import DecodeError, Message

from vitrina.domain.errors import ConfigError

MAX_BYTES = 1_000_000
MAX_CHAIN = 10_000  # the parser descends into 1 + 1 + … without looking at its stack, and crashes at twice as many
TOKENS = postgast.pg_query_pb2
SET_OPERATIONS = (TOKENS.UNION, TOKENS.INTERSECT, TOKENS.EXCEPT)
OPENING, CLOSING, COMMA = (40, 91), (41, 93), 44  # tokens that are one character go by its code
WRITES = {"InsertStmt": "INSERT", "UpdateStmt": "UPDATE", "DeleteStmt": "DELETE", "MergeStmt": "MERGE"}


def check_select(text: str, allowed_schemas: Iterable[str], known: Iterable[str] = ()) -> str:
    """The statement without what surrounds it, or a ConfigError that says what is wrong and where.

    `known` are relations that it may name without a schema, as if a WITH around it gave them.
    """
    raw = _parse(text)
    problems = list(_problems(raw.stmt, set(allowed_schemas), frozenset(known)))
    if problems:
        raise ConfigError("the query is refused: " + "; ".join(dict.fromkeys(problems)))
    encoded = text.encode()
    end = raw.stmt_location + raw.stmt_len if raw.stmt_len else len(encoded)
    return encoded[raw.stmt_location : end].decode().strip()


def _parse(text: str) -> Any:
    if len(text.encode(errors="replace")) > MAX_BYTES:
        raise ConfigError(f"the query is longer than {MAX_BYTES:,} bytes")
    if any("\ud800" <= char <= "\udfff" for char in text):
        raise ConfigError("the query contains half a character (a lone surrogate)")
    if "\0" in text:
        raise ConfigError("the query contains a NUL character")
    try:
        if len(text) > 2 * MAX_CHAIN and _longest_chain(text) > MAX_CHAIN:
            raise ConfigError("the query is nested too deeply, or has too long an expression")
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


def _longest_chain(text: str) -> int:
    """How deep the tree can be at most: the tokens of one item of a list, with what its parentheses hold."""
    levels = [_Level()]
    for token in postgast.scan(text).tokens:
        if token.token in OPENING:
            levels.append(_Level())
        elif token.token in CLOSING and len(levels) > 1:
            inner = levels.pop()
            levels[-1].item += inner.depth + 1
        else:
            levels[-1].take(token.token)
    return sum(level.depth for level in levels)


@dataclass
class _Level:
    item: int = 0
    longest: int = 0
    set_operations: int = 0  # a chain of them goes on over commas

    @property
    def depth(self) -> int:
        return max(self.item, self.longest) + self.set_operations

    def take(self, token: int) -> None:
        if token == COMMA:
            self.longest, self.item = max(self.item, self.longest), 0
        elif token in SET_OPERATIONS:
            self.set_operations += 1
        else:
            self.item += 1


def _problems(tree: Any, allowed: set[str], known: frozenset[str]) -> Iterator[str]:
    for node, ctes in _walk(tree.select_stmt, known):
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


def _walk(node: Any, ctes: frozenset[str]) -> Iterator[tuple[Any, frozenset[str]]]:
    """Every node, with the WITH queries in its sight: of its own level and those above, itself only if RECURSIVE."""
    yield node, ctes
    with_clause = node.with_clause.ctes if _kind(node) == "SelectStmt" else ()
    names = [item.common_table_expr.ctename for item in with_clause]
    for number, item in enumerate(with_clause):
        seen = names if node.with_clause.recursive else names[:number]
        yield from _walk(item.common_table_expr, ctes.union(seen))
    for field, child in _children(node):
        if not (with_clause and field == "with_clause"):
            yield from _walk(child, ctes.union(names))


def _children(node: Any) -> Iterator[tuple[str, Any]]:
    for field, value in node.ListFields():
        if field.message_type is not None:
            for child in [value] if isinstance(value, Message) else value:
                yield field.name, child


def _table_problems(table: Any, allowed: set[str], ctes: frozenset[str]) -> Iterator[str]:
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

"""The first layer of the SQL guard: the real Postgres grammar.

One SELECT, nothing that writes or locks, tables of allowed schemas only. The layers below it do not trust it:
the SELECT runs as a role that can only read, in transactions that cannot write.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from google.protobuf.message import DecodeError, Message

from vitrina.domain.errors import ConfigError
from vitrina.domain.policy import may_be_opened, widened
from vitrina.domain.reasons import Reason
from vitrina.domain.refusals import Refusal
from vitrina.domain.wording import Because
from vitrina.sql import grammar

MAX_BYTES = 1_000_000
MAX_CHAIN = 10_000  # the parser descends into 1 + 1 + … without looking at its stack, and crashes at twice as many
OPENING, CLOSING, COMMA = (40, 91), (41, 93), 44  # tokens that are one character go by its code
WRITES = {"InsertStmt": "INSERT", "UpdateStmt": "UPDATE", "DeleteStmt": "DELETE", "MergeStmt": "MERGE"}


def check_select(text: str, allowed_schemas: Iterable[str], known: Iterable[str] = ()) -> str:
    """The statement without what surrounds it, or a ConfigError that says what is wrong and where.

    `known` are relations that it may name without a schema, as if a WITH around it gave them.
    """
    raw = _parse(text)
    allowed = list(allowed_schemas)
    problems = list(_problems(raw.stmt, set(allowed), frozenset(known)))
    if problems:
        remedy = _widened(allowed, _schemas(raw.stmt))
        wrong = list(dict.fromkeys(problem for problem, _ in problems))
        raise ConfigError.of(Refusal.QUERY_NOT_ALLOWED, _characters(text, problems[0][1]), problems=wrong, way=remedy)
    encoded = text.encode()
    end = raw.stmt_location + raw.stmt_len if raw.stmt_len else len(encoded)
    return encoded[raw.stmt_location : end].decode().strip()


def check_expression(text: str) -> str:
    """One expression over the columns of a row, which reads no table; or a ConfigError that says what is wrong."""
    statement = _parse(f"SELECT\n{text}\n").stmt
    given = [field.name for field, _ in statement.select_stmt.ListFields() if field.name not in ("limit_option", "op")]
    targets = statement.select_stmt.target_list
    problems = [problem for problem, _ in _problems(statement, set(), frozenset())]
    if given != ["target_list"] or len(targets) != 1 or targets[0].res_target.name:
        problems.append(Reason.SEVERAL_EXPRESSIONS.of())
    if any(_kind(node) == "SubLink" for node, _ in _walk(statement.select_stmt, frozenset())):
        problems.append(Reason.SELECT_IN_CONDITION.of())
    if problems:
        raise ConfigError.of(Refusal.CONDITION_NOT_ALLOWED, problems=list(dict.fromkeys(problems)))
    return text


def _parse(text: str) -> Any:
    if len(text.encode(errors="replace")) > MAX_BYTES:
        raise ConfigError.of(Refusal.QUERY_TOO_LONG, bytes=MAX_BYTES)
    if any("\ud800" <= char <= "\udfff" for char in text):
        raise ConfigError.of(Refusal.HALF_CHARACTER)
    if "\0" in text:
        raise ConfigError.of(Refusal.NUL_CHARACTER)
    try:
        if len(text) > 2 * MAX_CHAIN and _longest_chain(text) > MAX_CHAIN:
            raise ConfigError.of(Refusal.CHAIN_TOO_LONG)
        statements = grammar.parse(text).stmts
    except grammar.PgQueryError as error:
        said = f"{error.message}{_line(text, error.cursorpos)}"
        raise ConfigError.of(Refusal.NOT_PARSED, max(error.cursorpos, 0), error=said) from error
    except (DecodeError, RecursionError) as error:
        raise ConfigError.of(Refusal.NESTED_TOO_DEEPLY) from error
    if len(statements) != 1:
        raise ConfigError.of(Refusal.SEVERAL_STATEMENTS, count=len(statements))
    if not statements[0].stmt.HasField("select_stmt"):
        raise ConfigError.of(Refusal.NO_SELECT)
    return statements[0]


def _longest_chain(text: str) -> int:
    """How deep the tree can be at most: the tokens of one item of a list, with what its parentheses hold."""
    levels = [_Level()]
    for token in grammar.scan(text).tokens:
        if token.token in OPENING:
            levels.append(_Level())
        elif token.token in CLOSING and len(levels) > 1:
            inner = levels.pop()
            levels[-1].item += inner.depth + 1
        else:
            levels[-1].take(token.token)
    return sum(level.depth for level in levels)


@cache
def _set_operations() -> frozenset[int]:
    tokens = grammar.pg_query_pb2
    return frozenset((tokens.UNION, tokens.INTERSECT, tokens.EXCEPT))


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
        elif token in _set_operations():
            self.set_operations += 1
        else:
            self.item += 1


def _problems(tree: Any, allowed: set[str], known: frozenset[str]) -> Iterator[tuple[Because, int]]:
    """What is wrong and where, in bytes from 0; -1: the parser does not say."""
    for node, ctes in _walk(tree.select_stmt, known):
        kind = _kind(node)
        if kind in WRITES:
            yield Reason.WRITES_INSIDE.of(word=WRITES[kind]), node.relation.location
        elif kind == "IntoClause":
            yield Reason.SELECT_INTO.of(), node.rel.location
        elif kind == "LockingClause":
            yield Reason.LOCKS.of(), -1
        elif kind == "ParamRef":
            yield Reason.NUMBERED_PARAMETER.of(number=node.number), node.location
        elif kind == "RangeVar":
            yield from ((said, node.location) for said in _table_problems(node, allowed, ctes))


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


def _table_problems(table: Any, allowed: set[str], ctes: frozenset[str]) -> Iterator[Because]:
    if not table.schemaname:
        if table.relname not in ctes:
            yield Reason.NO_SCHEMA.of(table=table.relname)
    elif table.schemaname not in allowed:
        yield Reason.SCHEMA_CLOSED.of(schema=table.schemaname, allowed=sorted(allowed))


def _schemas(tree: Any) -> Iterator[str]:
    """Those that its tables name."""
    return (node.schemaname for node, _ in _walk(tree.select_stmt, frozenset()) if _kind(node) == "RangeVar")


def _widened(allowed: list[str], named: Iterable[str]) -> str:
    more = [name for name in dict.fromkeys(named) if may_be_opened(name) and name not in allowed]
    if not more:
        return ""
    return Reason.WIDEN.of(setting=widened(allowed, more))


def _kind(node: Any) -> str:
    return type(node).__name__


def _characters(text: str, location: int) -> int:
    """A place in characters from 1, of one in bytes from 0."""
    return len(text.encode()[:location].decode(errors="ignore")) + 1 if location >= 0 else 0


def _line(text: str, position: int) -> str:
    return f", line {text.count(chr(10), 0, position - 1) + 1}" if position > 0 else ""

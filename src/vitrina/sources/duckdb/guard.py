"""Whether a SELECT may run in DuckDB: as its own parser has it, and as its own catalogue knows what is called.

Below this stands the instance itself, which was opened for reading and locked: it knows no other files, loads no
extension, and takes no other settings (`place.py`).
"""

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import duckdb

from vitrina.domain.errors import ConfigError
from vitrina.domain.findings import Code, Finding, Phrase
from vitrina.domain.reasons import Reason
from vitrina.domain.refusals import Refusal
from vitrina.domain.source_refusals import SourceRefusal
from vitrina.domain.wording import NESTED, Because
from vitrina.sources.arrow.text import wrapped
from vitrina.sources.duckdb.kind import of_depth
from vitrina.sources.duckdb.place import NAME, first_line

QUERIES = {"SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE", "STATEMENT"}
RUNS_TEXT = {"query", "query_table", "json_execute_serialized_sql"}
SESSION = re.compile(
    r"current_(setting|user|role|query\w*|connection_id|transaction_id|database|catalog|schemas?)|session_user|user|getenv"
    r"|getvariable|in_search_path|txid_current|version|platform|stats|vector_type|write_log|sleep_ms"
)
CATALOGUE = re.compile(
    r"(duckdb|pragma|sqlite|pg|has)_\w+|which_secret|col_description|obj_description|shobj_description|format_pg_type"
)
READING = re.compile(r"read_(parquet|csv|csv_auto|text|blob|(nd)?json(_objects)?(_auto)?)|parquet_scan|glob")
PLAIN = {"range", "generate_series", "generate_subscripts", "unnest", "json_each", "json_tree", "repeat", "repeat_row"}
CLOCK = {"now", "today", "current_date", "current_timestamp", "get_current_timestamp", "get_current_time",
         "transaction_timestamp", "current_time", "localtime", "localtimestamp", "current_localtime",
         "current_localtimestamp", "age"}  # fmt: skip
WORD = re.compile(
    r"(current|session)_(date|time|timestamp|user|role|schema|catalog|database|query)|localtime(stamp)?|user"
)
HIDDEN = {"information_schema", "pg_catalog"}
SYSTEM = re.compile(r"(duckdb|pragma|sqlite)_\w+|pg_\w+")
MOST_VIEWS = 100  # one behind the other
FUNCTIONS = """
SELECT lower(function_name) AS name, bool_or(NOT internal) AS user_defined,
       bool_or(function_type IN ('table', 'table_macro')) AS gives_rows,
       bool_or(coalesce(stability, '') = 'VOLATILE') AS is_volatile
FROM duckdb_functions() WHERE lower(function_name) IN (SELECT unnest(?)) GROUP BY 1
"""
VIEWS = """
SELECT schema_name, view_name, sql FROM duckdb_views() WHERE NOT internal AND database_name = current_database()
"""


@dataclass
class Uses:
    """What a parsed query names."""

    functions: dict[str, bool] = field(default_factory=dict)  # by name: whether one stands where a table does
    tables: set[tuple[str, str, str]] = field(default_factory=set)  # catalogue, schema, name
    wrong: list[Because] = field(default_factory=list)
    clock: set[str] = field(default_factory=set)


def judge(conn: duckdb.DuckDBPyConnection, select: str, allowed: Collection[str]) -> list[Finding]:
    """What is wrong with it, and what is worth saying. It is parsed, and not executed."""
    with of_depth():
        uses = _uses(conn, select)
    findings = [Finding("error", "", Code.NO_PLAIN_SELECT, {NESTED: said}) for said in uses.wrong]
    findings += _of_tables(uses)
    known = {row[0]: row[1:] for row in conn.execute(FUNCTIONS, [sorted(uses.functions)]).fetchall()}
    for name, is_table in sorted(uses.functions.items()):
        if name not in allowed and f"main.{name}" not in allowed:
            findings += _of_call(name, is_table, *known.get(name, (False, is_table, False)))
    return list(dict.fromkeys(findings))


def check_one_select(conn: duckdb.DuckDBPyConnection, select: str) -> None:
    """A ConfigError unless it is one, alone and in parentheses."""
    for text in (select, f"SELECT * FROM {wrapped(select)} AS vitrina_q"):
        try:
            statements = conn.extract_statements(text)
        except duckdb.Error as error:
            raise ConfigError.of(Refusal.NOT_PARSED, error=first_line(error)) from error
        if len(statements) != 1:
            raise ConfigError.of(Refusal.SEVERAL_STATEMENTS, count=len(statements))
        if statements[0].type != duckdb.StatementType.SELECT:
            raise ConfigError.of(SourceRefusal.SELECT_OF_PIVOT)
        if statements[0].named_parameters:
            raise ConfigError.of(SourceRefusal.HAS_PARAMETER)


def _uses(conn: duckdb.DuckDBPyConnection, select: str) -> Uses:
    """With what is behind views, however deep."""
    check_one_select(conn, select)
    uses = Uses()
    _look(_parsed(conn, select), uses)
    views = {(schema, name): sql for schema, name, sql in conn.execute(VIEWS).fetchall()}
    seen = set[tuple[str, str]]()
    for _ in range(MOST_VIEWS):
        behind = {view for view in views for _, schema, name in uses.tables if _is_of(view, schema, name)} - seen
        if not behind:
            return uses
        for view in sorted(behind):
            for parsed in _of_view(conn, views[view]):
                _look(parsed, uses)
        seen |= behind
    raise ConfigError.of(SourceRefusal.VIEWS_TOO_DEEP)


def _parsed(conn: duckdb.DuckDBPyConnection, select: str) -> Any:
    row = conn.execute("SELECT json_serialize_sql(?)", [select]).fetchone()
    assert row is not None
    found = json.loads(row[0])
    if found.get("error"):
        raise ConfigError.of(SourceRefusal.NO_SELECT_OF_DUCKDB, error=str(found.get("error_message")))
    return found


def _is_of(view: tuple[str, str], schema: str, name: str) -> bool:
    """What stands before a name may be the database; case says nothing."""
    return name.lower() == view[1].lower() and schema.lower() in ("", NAME, view[0].lower())


def _of_view(conn: duckdb.DuckDBPyConnection, definition: str) -> list[Any]:
    """CREATE VIEW name AS its SELECT: what follows any AS that one stands after, since a name may hold an AS too."""
    parsed = []
    for found in re.finditer(r"\bAS\b", definition):
        with suppress(ConfigError):
            parsed.append(_parsed(conn, definition[found.end() :].strip().rstrip(";")))
    if not parsed:
        raise ConfigError.of(SourceRefusal.VIEW_UNREADABLE)
    return parsed


def _look(node: Any, uses: Uses) -> None:
    if isinstance(node, list):
        for child in node:
            _look(child, uses)
    if not isinstance(node, Mapping):
        return
    _look_at(node, uses)
    for child in node.values():
        _look(child, uses)


def _look_at(node: Mapping[str, Any], uses: Uses) -> None:
    type_ = str(node.get("type", ""))
    if type_.endswith("_NODE") and type_ not in QUERIES:
        word = type_.removesuffix("_QUERY_NODE").removesuffix("_NODE")
        uses.wrong.append(Reason.WRITES_INSIDE.of(word=word))
    elif type_ == "SHOW_REF":
        uses.wrong.append(Reason.TELLS_CATALOGUE.of())
    elif node.get("class") == "PARAMETER":
        uses.wrong.append(Reason.PARAMETER.of())
    elif type_ == "BASE_TABLE":
        uses.tables.add((node.get("catalog_name", ""), node.get("schema_name", ""), node.get("table_name", "")))
    elif node.get("class") == "COLUMN_REF" and (name := _word(node["column_names"])):
        uses.functions.setdefault(name, False)  # a column that is called so is told by its table's name before it
        uses.clock |= {name} & CLOCK
    elif type_ == "TABLE_FUNCTION":
        uses.functions[_name(node["function"])] = True
    elif "function_name" in node and node.get("class") in ("FUNCTION", "WINDOW"):
        uses.functions.setdefault(_name(node), False)
        uses.clock |= {_name(node)} & (CLOCK - {"age"})
        uses.clock |= {"age"} if _name(node) == "age" and len(node.get("arguments", ())) == 1 else set()
    if isinstance(sample := node.get("sample"), Mapping) and not sample.get("repeatable"):
        uses.wrong.append(Reason.SAMPLE_CHANGES.of())


def _word(names: Sequence[Any]) -> str:
    """That calls a function where no column has its name; none: it is a column of some table."""
    name = str(names[-1]).lower()
    return name if len(names) == 1 and WORD.fullmatch(name) else ""


def _name(node: Mapping[str, Any]) -> str:
    return str(node.get("function_name", "")).lower()


def _of_tables(uses: Uses) -> Iterator[Finding]:
    for catalogue, schema, name in sorted(uses.tables):
        if schema.lower() in HIDDEN or catalogue.lower() in ("system", "temp") or SYSTEM.fullmatch(name.lower()):
            relation = f"{schema}.{name}" if schema else name
            data = {"relation": relation, "schema": schema or catalogue or "main", "allowed": "the lake"}
            yield Finding("error", relation, Code.CATALOGUE_NOT_ALLOWED, data)
    for name in sorted(uses.clock):
        yield Finding("warning", f"{name}()", Code.READS_CLOCK, {"what": f"{name}()"})


def _of_call(
    name: str, is_table: bool, is_foreign: bool, is_table_function: bool, is_volatile: bool
) -> Iterator[Finding]:
    why = _why_not(name, is_table or is_table_function, is_foreign, is_volatile)
    if why:
        way = Phrase.STORE_IT if why is Phrase.CHANGING else Phrase.ALLOW_IT
        yield Finding("error", name, Code.FUNCTION_NOT_ALLOWED, {"function": name, "why": why, "way": way})


def _why_not(name: str, is_table: bool, is_foreign: bool, is_volatile: bool) -> Phrase | None:
    if is_foreign:
        return Phrase.USER_DEFINED
    if name in RUNS_TEXT:
        return Phrase.EXECUTES_TEXT
    if CATALOGUE.fullmatch(name):
        return Phrase.READS_CATALOGUE
    if SESSION.fullmatch(name):
        return Phrase.READS_SESSION
    if is_volatile:
        return Phrase.CHANGING
    if is_table and name not in PLAIN and not READING.fullmatch(name):
        return Phrase.REACHES_OUT
    return None

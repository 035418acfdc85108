"""Which functions and relations a query may use.

| what                                            | verdict                                                        |
|-------------------------------------------------|----------------------------------------------------------------|
| relation outside the allowed schemas            | refused, also behind a view, pg_catalog and information_schema |
| named in VITRINA_ALLOWED_FUNCTIONS              | passes, whatever it is: the operator of this server vouches    |
| built-in, IMMUTABLE or STABLE                   | passes, except those below                                     |
| built-in that executes SQL given as text        | refused: query_to_xml, table_to_xml, … (ts_stat is VOLATILE)   |
| built-in that reads the catalogue or the server | refused: pg_* but a few, has_*_privilege, to_reg*, comments, … |
| built-in that reads the session                 | refused: current_setting, inet_*_addr, txid_*                  |
| a type's input function, called by name         | refused: it takes any type by its oid                          |
| now(), CURRENT_DATE, …, age(x)                  | warning: the mart changes with the clock                       |
| VOLATILE, whoever's                             | refused: side effects, or never twice the same value           |
| TABLESAMPLE … REPEATABLE                        | passes: the same rows as long as the table is the same         |
| pg_input_is_valid(x, 'integer'), …_error_info   | passes if the type is a literal and every server has it        |
| a cast to regclass, regrole, regtype, …         | refused: it reads names of objects from the catalogue          |
| of an extension, IMMUTABLE or STABLE            | passes, except crosstab, connectby, xpath_table (execute text) |
|                                                 | and extensions that look into the server or out of it          |
| of an extension, but no superuser's             | refused: whoever owns it could have added it, or replace it    |
| user-defined                                    | refused                                                        |
| SECURITY DEFINER                                | refused: it runs with its owner's rights                       |
| operator, cast, aggregate, type, domain         | as the functions behind it                                     |
| in an index, a CHECK, statistics, a partition   | as if called: the planner executes what is constant in it      |
| key of a table that is read, or of its children |                                                                |
"""

import re
from collections.abc import Iterator, Set
from dataclasses import dataclass
from typing import Literal

from vitrina.sql.calls import Call, Relation, Resolved

FUNCTIONS_SETTING = "VITRINA_ALLOWED_FUNCTIONS"
SCHEMAS_SETTING = "VITRINA_ALLOWED_SOURCE_SCHEMAS"

RUNS_TEXT = re.compile(r"(query|table|cursor|schema|database)_to_xml.*|ts_stat|crosstab\w*|connectby|xpath_table")
CATALOGUE = re.compile(
    r"pg_.*|has_\w+_privilege|to_reg\w+|reg[a-z]+|(col|obj|shobj)_description|format_type|oidvectortypes|aclexplode"
    r"|acldefault|makeaclitem|aclcontains|row_security_active|mxid_age"
)
HARMLESS = {
    "pg_typeof",
    "pg_collation_for",
    "pg_size_pretty",
    "pg_size_bytes",
    "pg_column_size",
    "pg_lsn",
    "pg_wal_lsn_diff",
}
SESSION = re.compile(r"current_setting|inet_(client|server)_\w+|txid_\w+|getpgusername|get_current_ts_config")
CLOCK = {"now", "transaction_timestamp", "statement_timestamp"}
SAMPLING = {"system", "bernoulli"}  # TABLESAMPLE: with REPEATABLE, of an unchanged table always the same rows
CHANGING = re.compile(
    r"random\w*|\w*clock_timestamp|timeofday|gen_random\w*|uuidv\d|uuid_generate_\w+|array_(sample|shuffle)"
    r"|nextval|currval|lastval|normal_rand|system|bernoulli|system_rows|system_time"
)
# Extensions that look into the server, or out of it, whatever their functions say of themselves.
INTRUSIVE = {
    "adminpack",
    "amcheck",
    "dblink",
    "file_fdw",
    "lo",
    "old_snapshot",
    "pageinspect",
    "pg_buffercache",
    "pg_freespacemap",
    "pg_logicalinspect",
    "pg_prewarm",
    "pg_stat_statements",
    "pg_surgery",
    "pg_visibility",
    "pg_walinspect",
    "pgrowlocks",
    "pgstattuple",
    "postgres_fdw",
    "sslinfo",
}


@dataclass(frozen=True)
class Finding:
    """Something about a query that somebody should know: an error refuses it, a warning does not."""

    level: Literal["error", "warning"]
    where: str
    message: str
    remedy: str = ""

    def __str__(self) -> str:
        return f"{self.message} ({self.remedy})" if self.remedy else self.message


def judge(
    resolved: Resolved, schemas: Set[str], functions: Set[str], honest: Set[int] = frozenset()
) -> Iterator[Finding]:
    """What is wrong, or worth saying, about what a query uses; `honest` are calls that do no harm as they are made."""
    for relation in resolved.relations:
        yield from _judge_relation(relation, schemas)
    for call in resolved.calls:
        repeats = call.builtin and call.name in SAMPLING and not resolved.uses.samples
        if call.qualified not in functions and call.oid not in honest and not repeats:
            yield from _judge_call(call, behind=call.oid in resolved.behind)
    if resolved.uses.reads_clock:
        yield _clock("CURRENT_DATE or the like")
    if resolved.uses.names_objects:
        message = "the query casts to regclass or the like, which reads the server's catalogue, not data"
        yield Finding("error", "a cast", message, "leave the cast out")
    if resolved.uses.locks_rows:
        yield Finding("error", "a view", "a view that the query reads locks rows (FOR UPDATE / SHARE)")


def _judge_relation(relation: Relation, schemas: Set[str]) -> Iterator[Finding]:
    if relation.schema in schemas:
        return
    name = f"{relation.schema}.{relation.name}"
    own = relation.schema in ("pg_catalog", "information_schema")
    remedy = (
        f"read tables of {', '.join(sorted(schemas))} only"
        if own
        else f"{SCHEMAS_SETTING} allows {', '.join(sorted(schemas))}; a view may not reach past them either"
    )
    yield Finding("error", name, f"the query reads {name}: schema {relation.schema} is not allowed", remedy)


def _judge_call(call: Call, *, behind: bool) -> Iterator[Finding]:
    reason = _reason(call)
    if reason:
        via = "an index, a CHECK or the like of a table that is read" if behind and not call.via else call.via
        what = f"{via} calls {call.qualified}, which" if via else f"function {call.qualified}"
        yield Finding("error", call.qualified, f"{what} {reason}", _remedy(call))
    elif reads_clock(call):
        yield _clock(f"{call.name}()")


def reads_clock(call: Call) -> bool:
    """Whether a function gives the time of day."""
    return call.builtin and call.how == "call" and (call.name in CLOCK or (call.name == "age" and call.args == 1))


def _reason(call: Call) -> str:
    """Why a function is refused; empty when it is not."""
    if call.constructor:
        return ""
    if not call.builtin and not call.extension:
        rights = " and runs with its owner's rights (SECURITY DEFINER)" if call.definer else ""
        return f"is user-defined{rights}"
    if call.definer:
        return "runs with its owner's rights (SECURITY DEFINER)"
    if call.how == "part":
        return ""
    if RUNS_TEXT.fullmatch(call.name):
        return "executes SQL that is hidden in a text"
    if call.extension in INTRUSIVE:
        return f"is of extension {call.extension}, which reaches beyond the tables of a query"
    if call.volatility == "v":
        return _volatile(call)
    return _denied_builtin(call) if call.builtin and call.how == "call" else ""


def _volatile(call: Call) -> str:
    if CHANGING.fullmatch(call.name):
        return "gives another value at every call: the mart would never equal the query"
    return "is VOLATILE: it may have effects, or give another value at every call"


def _denied_builtin(call: Call) -> str:
    if call.name in HARMLESS or call.name.startswith(("regexp_", "regr_")):
        return ""
    if CATALOGUE.fullmatch(call.name):
        return "reads the server's catalogue, not data"
    if SESSION.fullmatch(call.name):
        return "depends on the session, not on data"
    return "is the input function of a type" if call.takes_cstring else ""


def _remedy(call: Call) -> str:
    if call.volatility == "v" and CHANGING.fullmatch(call.name):
        return "store the value in the source, or leave it to the mart's column default"
    return f"leave it out, or have it named in {FUNCTIONS_SETTING}"


def _clock(what: str) -> Finding:
    message = f"the query reads the clock ({what}): the mart changes with it, also when no row does"
    return Finding("warning", what, message, "compare with a column instead, if that is not wanted")

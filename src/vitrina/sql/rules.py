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

from vitrina.domain.findings import Code, Finding, Phrase
from vitrina.domain.policy import may_be_opened, widened
from vitrina.domain.wording import Json
from vitrina.sql.calls import Call, Relation, Resolved

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
CLOCK_WORDS = "CURRENT_DATE, …"
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
        yield Finding("warning", CLOCK_WORDS, Code.READS_CLOCK, {"what": CLOCK_WORDS})
    if resolved.uses.names_objects:
        yield Finding("error", "a cast", Code.CASTS_TO_NAMES)
    if resolved.uses.locks_rows:
        yield Finding("error", "a view", Code.LOCKS_ROWS)


def _judge_relation(relation: Relation, schemas: Set[str]) -> Iterator[Finding]:
    if relation.schema in schemas:
        return
    name = f"{relation.schema}.{relation.name}"
    data: dict[str, Json] = {"relation": name, "schema": relation.schema, "allowed": sorted(schemas)}
    if may_be_opened(relation.schema):
        setting = widened(sorted(schemas), [relation.schema])
        yield Finding("error", name, Code.SCHEMA_NOT_ALLOWED, data | {"setting": setting})
    else:
        yield Finding("error", name, Code.CATALOGUE_NOT_ALLOWED, data)


def _judge_call(call: Call, *, behind: bool) -> Iterator[Finding]:
    why = _why_not(call)
    if why:
        via = Phrase.BEHIND_A_TABLE if behind and not call.via else call.via
        way = Phrase.STORE_IT if why is Phrase.CHANGING else Phrase.ALLOW_IT
        data: dict[str, Json] = {"function": call.qualified, "why": why, "way": way}
        data |= {"via": via} if via else {}
        data |= {"extension": call.extension} if why is Phrase.INTRUSIVE else {}
        yield Finding("error", call.qualified, Code.CALL_NOT_ALLOWED if via else Code.FUNCTION_NOT_ALLOWED, data)
    elif reads_clock(call):
        yield Finding("warning", f"{call.name}()", Code.READS_CLOCK, {"what": f"{call.name}()"})


def reads_clock(call: Call) -> bool:
    """Whether a function gives the time of day."""
    return call.builtin and call.how == "call" and (call.name in CLOCK or (call.name == "age" and call.args == 1))


def _why_not(call: Call) -> Phrase | None:
    """Why a function is refused; None when it is not."""
    if call.constructor:
        return None
    if not call.builtin and not call.extension:
        return Phrase.USER_DEFINED_DEFINER if call.definer else Phrase.USER_DEFINED
    if call.definer:
        return Phrase.DEFINER
    if call.how == "part":
        return None
    if RUNS_TEXT.fullmatch(call.name):
        return Phrase.EXECUTES_TEXT
    if call.extension in INTRUSIVE:
        return Phrase.INTRUSIVE
    if call.volatility == "v":
        return Phrase.CHANGING if CHANGING.fullmatch(call.name) else Phrase.VOLATILE
    return _denied_builtin(call) if call.builtin and call.how == "call" else None


def _denied_builtin(call: Call) -> Phrase | None:
    if call.name in HARMLESS or call.name.startswith(("regexp_", "regr_")):
        return None
    if CATALOGUE.fullmatch(call.name):
        return Phrase.READS_CATALOGUE
    if SESSION.fullmatch(call.name):
        return Phrase.READS_SESSION
    return Phrase.TYPE_INPUT if call.takes_cstring else None

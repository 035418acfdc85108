"""Reasons: why a run reads as it reads, why a change means what it means, why a mart is compared in full. Codes are
listed in docs/reference.md."""

from collections.abc import Mapping, Sequence
from typing import Any

from vitrina.domain.wording import Because, Data, Json, Worded


class Reason(Worded):
    """The code, and the words for people; some have another reason among their data."""

    # how a query is read
    OTHER_SERVER = "other_server", "source {source} is another server"
    THROUGH_PYTHON = "through_python", "rows go through Python"
    SEALED = "sealed", "the mart has code of somebody's own"
    KEY_OF_ANOTHER_TYPE = "key_of_another_type", "the mart's key has another type or a collation of its own"
    REBUILD = "rebuild", "a rebuild writes every row anew"
    ATOMIC = "atomic", "publish is atomic"
    SHARED = "shared", "it is read once for all targets that are due together"
    KEY_NOT_PUSHED = (
        "key_not_pushed",
        "the key cannot be pushed into the query: {batches} batches at cost {by_batch:,.0f} against {whole:,.0f} for"
        " reading it once",
    )
    # why a change of a table may touch any key
    KEYS_UNTOLD = "keys_untold", "the keys of a change cannot be told: {error}"
    OTHER_MEANING = (
        "other_meaning",
        "the query means something else now: a view or a function that it uses was replaced",
    )
    UPHEAVAL = "upheaval", "{table} was truncated, rewritten or altered"
    LARGE_VALUE_UNTOLD = "large_value_untold", "{table} was changed beside a large value that is not told"
    NOT_FOR_SOME = (
        "not_for_some",
        "the query cannot be read for some keys only (cost {cost:,.0f} for {keys}, {whole:,.0f} for all), so every"
        " change means a full comparison",
    )
    EVERYTHING = "everything", "a change in {table} refreshes everything: {reason}"
    OLD_VALUE_UNTOLD = (
        "old_value_untold",
        "a change in {table} refreshes everything: the old value of {columns} is not told;"
        " ALTER TABLE {table} REPLICA IDENTITY FULL mends that",
    )
    DEPENDS_ON = "depends_on", "{column} depends on {reason}"
    TOO_MANY_JOINS = "too_many_joins", "{columns} is put together from too many outer joins"
    SUBQUERY_HAS = "subquery_has", "the subquery it is in has {reason}"
    SUBQUERY_UNTIED = "subquery_untied", "the subquery it is in is not tied to {columns}"
    UNTIED = "untied", "no condition ties it to {columns}"
    TOO_MANY_BRANCHES = "too_many_branches", "the query has too many UNION branches to follow"
    READ_UNFOLLOWED = "read_unfollowed", "it is read where nothing is followed"
    NEVER_A_KEY = "never_a_key", "its rows never have a key"
    CIRCLE = "circle", "its way to the key leads through rows that themselves find the key through it"
    LOOSE = "loose", "which rows there are depends on {reason}: cast before they are grouped"
    TIED = (
        "tied",
        "of rows that tie in an ORDER BY any may be taken, and the query decides by them which rows there are: end the"
        " ORDER BY with a unique column",
    )
    # what a kind of source cannot do
    SPEAKS_SQL = "speaks_sql", "take statements in the SQL of Postgres"
    HAS_CATALOGUE = "has_catalogue", "tell what a query reads, calls and depends on"
    HAS_HORIZON = "has_horizon", "tell up to where the rows of a cursor are final"
    IS_CAPTURABLE = "is_capturable", "have its changes captured"
    WRITES_FILES = "writes_files", "write the files of marts itself"
    HIDDEN_FROM_IT = "hidden_from_it", "another session's transaction is hidden from it"
    LACKS_STATS = "lacks_stats", "it lacks pg_read_all_stats"
    # what is wrong with a plan of tasks
    ORDER_TWICE = "order_twice", "order_index is not unique"
    OUT_OF_ORDER = "out_of_order", "tasks are not in the order of order_index"
    EMPTY_TASK = "empty_task", "task {task} has an empty body"
    FIRST_IS_SQL = "first_is_sql", "the first task must be SQL"
    OTHERS_ARE_PYTHON = "others_are_python", "task {task} must be PYTHON: only the first is SQL"
    TARGET_OF_LAST = "target_of_last", "task {task} may not set target_table: only the last may"
    # why a query may not run
    WRITES_INSIDE = "writes_inside", "{word} inside a SELECT"
    SELECT_INTO = "select_into", "SELECT INTO"
    LOCKS = "locks", "FOR UPDATE / SHARE"
    NUMBERED_PARAMETER = "numbered_parameter", "the parameter ${number}"
    NO_SCHEMA = "no_schema", "table {table} has no schema: write schema.{table}"
    SCHEMA_CLOSED = "schema_closed", "schema {schema} is not allowed (VITRINA_ALLOWED_SOURCE_SCHEMAS allows {allowed})"
    WIDEN = "widen", "if it may be read, set {setting} for API and runners (in .env, then: vitrina up)"
    SEVERAL_EXPRESSIONS = "several_expressions", "it is more than one expression"
    SELECT_IN_CONDITION = (
        "select_in_condition",
        "it has a SELECT of its own: that is what a check with empty is for",
    )
    TELLS_CATALOGUE = "tells_catalogue", "DESCRIBE, SHOW and SUMMARIZE tell of the catalogue"
    SAMPLE_CHANGES = "sample_changes", "a sample is another at every call (write REPEATABLE)"
    SEVERAL_STATEMENTS = "several_statements", "it is more than one statement"
    RUNS_SCRIPT = "runs_script", "it runs a script (USING)"
    SETS_OPTIONS = "sets_options", "it sets options of a table (WITH (…))"
    READS_PATH = "reads_path", "it reads a file by its path ({path}): have it a table of the catalogue"
    LIKE_A_PATH = "like_a_path", "it reads a file by its path ({path}): call the table otherwise"
    DOES_MORE = "does_more", "it would do more than read ({what})"
    # why it cannot be live
    CLOCK_READ = "clock_read", "it reads the clock ({what}), so rows change while nothing is written"
    CLOCK_WORD = "clock_word", "'{word}' as a date or time means the clock, so rows change while nothing is written"
    VOLATILE_CALL = "volatile_call", "{function} is VOLATILE: it may give another value at every call"
    MAY_READ_TABLES = (
        "may_read_tables",
        "{function} is not IMMUTABLE: it may read tables whose changes nobody follows",
    )
    RECURSIVE = "recursive", "{name} is recursive (WITH RECURSIVE)"
    SAMPLED = "sampled", "it reads a random part of a table (TABLESAMPLE)"
    SYSTEM_COLUMN = (
        "system_column",
        "it reads a system column (ctid, xmin, tableoid, …), which changes on its own",
    )
    UNKNOWN_CLAUSE = "unknown_clause", "it has the clause {clause}, which is not known here"
    UNKNOWN_ITEM = "unknown_item", "it has an item of FROM of kind {kind}, which is not known here"
    UNKNOWN_JOIN = "unknown_join", "it has a join of kind {kind}, which is not known here"
    FOREIGN_TABLE = "foreign_table", "{table} is a foreign table: its changes cannot be captured"
    MATERIALISED_VIEW = "materialised_view", "{table} is a materialised view: its changes cannot be captured"
    HAS_HEIRS = "has_heirs", "{table} has tables that inherit from it: their changes are not captured with it"
    FOREIGN_PARTS = "foreign_parts", "{table} has partitions on another server: their changes cannot be captured"
    # what cannot be followed
    AGGREGATE = "aggregate", "the result of an aggregate"
    WINDOW = "window", "the result of a window function"
    SUBQUERY = "subquery", "the result of a subquery"
    COMPUTED_WITH_LOOSE = (
        "computed_with_loose",
        "a computation on values that can be equal and look different (1.0, 1.00)",
    )
    WHOLE_ROW = "whole_row", "a whole row"
    WHOLE_ROW_OF_A_JOIN = "whole_row_of_a_join", "a whole row of a join"
    TEST_OF_A_ROW = "test_of_a_row", "a test of a whole row"
    UNKNOWN_VALUE = "unknown_value", "a value that cannot be followed"
    UNKNOWN_EXPRESSION = "unknown_expression", "an expression that cannot be followed"
    GIVEN_BY_A_FUNCTION = "given_by_a_function", "a value that a function or a list gives"
    SEVERAL_ROWS = "several_rows", "a function that gives several rows"
    LEFT_EMPTY = "left_empty", "a value that an outer join may leave empty"
    OTHER_TYPES = "other_types", "branches of different types"
    GENERATED = "generated", "the generated column {column}"
    PARAMETER = "parameter", "a parameter"
    A_SUBQUERY = "a_subquery", "a subquery"
    CONSTANT = "constant", "a constant of type {type}"
    CAST_MAY_FAIL = "cast_may_fail", "a cast that could fail on rows that the query leaves out"
    DIVISION_MAY_FAIL = "division_may_fail", "a division, which could fail on rows that the query leaves out"
    GROUPING_SETS = "grouping_sets", "ROLLUP, CUBE or GROUPING SETS, where a row counts in several groups"
    LIMITED = "limited", "LIMIT or OFFSET, where any row may push out another"
    OVER_ALL = "over_all", "an aggregate over all rows"
    OTHER_PARTITION = "other_partition", "a window that is not partitioned by it"
    OTHER_DISTINCT = "other_distinct", "DISTINCT ON other columns"
    # why a mart is compared in full
    NOT_CAPTURED = "not_captured", "its source is not captured"
    NOT_LIVE = "not_live", "it is not live yet"
    OTHER_SOURCE = "other_source", "the query reads other tables"
    INSTALLED_ANEW = "installed_anew", "changes may be missing: the capture was installed anew"
    CONTINUITY_LOST = "continuity_lost", "changes may be missing: {detail}"
    OUT_OF_LOG = "out_of_log", "the change log no longer reaches back to where it was"
    EXTENDED = "extended", "the mart was created or extended"
    MART_REMADE = "mart_remade", "the mart was truncated, rewritten or made anew by hand"
    MART_EMPTIED = "mart_emptied", "the mart was emptied by hand"
    AUDIT_FOUND_MANY = "audit_found_many", "the audit found {rows:,} wrong rows or more"
    CHANGED_AMID = "changed_amid", "the catalogue of the source changed while rows were read"
    CUT_SHORT = "cut_short", "a comparison after the catalogue of the source had changed was cut short"
    SERVER_REPLACED = (
        "server_replaced",
        "the source is another server now: system identifier {now}, and was {before}",
    )
    DATABASE_REMADE = "database_remade", "the source's database was made anew: oid {now}, and was {before}"
    FAILED_OVER = "failed_over", "the source has failed over or was restored: timeline {now}, and was {before}"
    LOG_SET_BACK = "log_set_back", "the source was set back: its log ends at {now}, and was at {before}"
    CLOCK_SET_BACK = "clock_set_back", "the source's clock was set back: it is {now}, and was {before}"
    CLOCK_SET_BACK_SINCE = "clock_set_back_since", "the source's clock was set back since"
    CLOCK_SLOW = "clock_slow", "the source's clock was set back: it went on by {went_on} in {passed}"
    NOTHING_AT_CURSOR = (
        "nothing_at_cursor",
        "the source has gone back: it gives nothing at or after the checkpoint {value}",
    )
    # what has become of what a mart depends on
    CHANGED = "changed", "{changes}"
    CHANGED_AND_MORE = "changed_and_more", "{changes}; and {more} more"
    A_TABLE = "a_table", "the table {name}"
    A_VIEW = "a_view", "the view {name}"
    A_TYPE = "a_type", "the type {name}"
    AN_ENUM = "an_enum", "the enum {name}"
    A_FUNCTION = "a_function", "the function {name}"
    AN_OPERATOR = "an_operator", "the operator {name}"
    A_ROLE = "a_role", "the role {name}"
    A_SETTING = "a_setting", "the setting {name}"
    A_COLLATION = "a_collation", "the collation {name}"
    A_TEXT_SEARCH = "a_text_search", "the text search {name}"
    IS_GONE = "is_gone", "{thing} is gone"
    IS_NEW = "is_new", "{thing} is new"
    ALTERED = "altered", "{thing} was altered"
    RENAMED = "renamed", "{thing} was renamed to {name}"
    REPLACED = "replaced", "{thing} was replaced"
    OTHER_OWNER = "other_owner", "{thing} has another owner"
    OTHER_VALUES = "other_values", "{thing} allows other values"
    OTHER_VOLATILITY = "other_volatility", "{thing} has another volatility"
    OTHER_STRICTNESS = "other_strictness", "{thing} has another way with NULLs"
    OTHER_RIGHTS = "other_rights", "{thing} has other rights to run with"
    OTHER_SETTINGS = "other_settings", "{thing} has other settings"
    OTHER_EXTENSION = "other_extension", "{thing} has another version of its extension"
    MAY_MEAN_ANOTHER = "may_mean_another", "{name} may mean another function now"
    CASTS_CHANGED = "casts_changed", "casts were made or dropped"
    HEIRS = "heirs", "tables inherit from {table} now, or no longer"
    COLUMN_GONE = "column_gone", "column {column} of {table} is gone"
    COLUMN_NEW = "column_new", "column {column} of {table} is new"
    COLUMN_RENAMED = "column_renamed", "column {column} of {table} was renamed to {name}"
    COLUMN_COMPUTED = "column_computed", "column {column} of {table} is computed otherwise"
    COLUMN_RETYPED = "column_retyped", "column {column} of {table} has another type"
    MAY_BE_NULL = "may_be_null", "column {column} of {table} may be NULL now"
    NEVER_NULL = "never_null", "column {column} of {table} is never NULL now"
    MAY_REPEAT = "may_repeat", "{columns} of {table} may come twice now"
    UNIQUE_NOW = "unique_now", "{columns} of {table} is unique now"
    OTHER_PRIMARY = "other_primary", "{table} has another primary key, or none"
    POLICED = "policed", "row-level security of {table} was enabled"
    UNPOLICED = "unpoliced", "row-level security of {table} was disabled"
    FORCED = "forced", "row-level security of {table} holds for its owner"
    UNFORCED = "unforced", "row-level security of {table} no longer holds for its owner"
    POLICY_NEW = "policy_new", "the policy {policy} of {table} is new"
    POLICY_GONE = "policy_gone", "the policy {policy} of {table} is gone"
    POLICY_CHANGED = "policy_changed", "the policy {policy} of {table} was changed"
    LABEL_RENAMED = "label_renamed", "the label '{label}' of {thing} was renamed to '{name}'"
    LABEL_GONE = "label_gone", "the label '{label}' of {thing} is gone"
    LABEL_NEW = "label_new", "the label '{label}' of {thing} is new"
    SUPERUSER = "superuser", "{thing} is a superuser"
    NO_SUPERUSER = "no_superuser", "{thing} is no longer a superuser"
    EXEMPT = "exempt", "{thing} is exempt from policies"
    NOT_EXEMPT = "not_exempt", "{thing} is no longer exempt from policies"
    OTHER_MEMBERSHIP = "other_membership", "{thing} is a member of other roles"
    SET_OTHERWISE = "set_otherwise", "{setting} is {now}, and was {before}"
    LIBRARY_VERSION = (
        "library_version",
        "the library of the collation {name} has version {now}, and had {before}",
    )
    COLLATION_VERSION = (
        "collation_version",
        "what was made by the collation {name} has version {now}, and had {before}",
    )
    SEARCH_CONFIGURED = "search_configured", "configurations of text search were changed"
    SEARCH_MAPPED = "search_mapped", "mappings of text search were changed"
    SEARCH_WORDS = "search_words", "dictionaries of text search were changed"


COMPUTED = (Reason.AGGREGATE, Reason.WINDOW, Reason.SUBQUERY)  # from many rows: by itself that is little news
REASONS = {reason.value: reason for reason in Reason}


def as_kept(value: Json) -> Json:
    """For programs: a reason by its code, with what it says in English."""
    if isinstance(value, Because):
        return {"code": value.code.value, "data": as_kept(value.data), "message": str(value)}
    if isinstance(value, Mapping):
        return {name: as_kept(item) for name, item in value.items()}
    return value if isinstance(value, str) or not isinstance(value, Sequence) else [as_kept(item) for item in value]


def revived(value: Any) -> Any:
    """What was kept, with its reasons again; those of another program by their words."""
    if isinstance(value, list):
        return [revived(item) for item in value]
    if not isinstance(value, Mapping):
        return value
    data = {name: revived(item) for name, item in value.items()}
    if not isinstance(value.get("data"), Mapping) or "code" not in value:
        return data
    code = REASONS.get(value["code"])
    return Because(code, data["data"]) if code else value.get("message", "")


def beside(fields: Data, name: str) -> Data:
    """A reason among the fields in words, for whoever reads no codes, and beside them by its code."""
    why = fields.get(name)
    if not isinstance(why, Because):
        return fields
    return {**fields, name: str(why), "because": coded(why)}


def coded(why: Because) -> dict[str, Json]:
    """Its code and data, for whoever has the words already."""
    return {"code": why.code.value, "data": as_kept(why.data)}


def beside_revived(fields: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """The same backwards; the words stay where this program does not know the code."""
    because = revived(fields.get("because"))
    others = {key: value for key, value in fields.items() if key != "because"}
    return others | ({name: because} if isinstance(because, Because) and name in fields else {})

"""Refusals: what is wrong with a pipeline or its query, as errors say it and findings repeat it. Codes are listed in
docs/reference.md; what another program says (a server, a plug-in) has the code `refused`."""

from vitrina.domain.wording import Worded


class Refusal(Worded):
    """The code, what is wrong, and the remedy."""

    # a pipeline
    NO_TARGET = "no_target", "pipeline {name!r} names no target_table", "set it, e.g. analytics.film_dim"
    ONE_SOURCE = "one_source", "pipeline {name!r} needs either source_query or source_table, and not both"
    PYTHON_TASK = (
        "python_task",
        "pipeline {name!r}: type PYTHON and python_task go together",
        "name a registered transform in python_task, or set type to SQL",
    )
    TASK_PLAN = "task_plan", "task plan of {name!r}: {problems}"
    CURSOR_UNNAMED = (
        "cursor_unnamed",
        "pipeline {name!r}: incremental needs incremental_key and incremental_id_key",
        "name the column that grows with every change, and a unique column that breaks ties",
    )
    NO_SOURCE_TABLE = "no_source_table", "source_table {table!r} is no schema.table"
    NO_KEY = "no_key", "the pipeline names no key, and the mart has no primary key", "set key: [column, …]"
    # its mart
    NO_PREFIXED_NAME = "no_prefixed_name", "target {target!r} is no prefix:name of plain lower-case names"
    NO_TABLE_NAME = "no_table_name", "target {target!r} is no schema.table of plain lower-case names"
    NO_MART_NAME = "no_mart_name", "target {target!r} is not allowed: no mart can be called so", "name it {words}"
    TARGET_NOT_ALLOWED = (
        "target_not_allowed",
        "target {target!r} is not allowed: {setting} allows {allowed}",
        "name a target that matches, or widen {setting}",
    )
    PARTITION_COLUMN = (
        "partition_column",
        "partition_by names {column!r}, which is not in the query",
        "it gives {columns}",
    )
    PARTITION_TYPE = (
        "partition_type",
        "partition_by: {field} is not possible, because {column} is {type}",
        "{column} takes {ways}",
    )
    PARTITION_NO_TYPE = (
        "partition_no_type",
        "partition_by: {field} is not possible, because {column} is {type}, by which no table is divided",
        "leave it out, or cast the column in the query",
    )
    TOO_MANY_PARTITIONS = (
        "too_many_partitions",
        "partition_by makes more than {most:,} parts of one change, each with files of its own",
        "divide it more coarsely: month() instead of day(), bucket(16, column) instead of a column as it is",
    )
    # its query
    QUERY_NOT_ALLOWED = "query_not_allowed", "the query is refused: {problems}", "{way}"
    CONDITION_NOT_ALLOWED = "condition_not_allowed", "the condition is refused: {problems}"
    QUERY_TOO_LONG = "query_too_long", "the query is longer than {bytes:,} bytes"
    HALF_CHARACTER = "half_character", "the query contains half a character (a lone surrogate)"
    NUL_CHARACTER = "nul_character", "the query contains a NUL character"
    CHAIN_TOO_LONG = "chain_too_long", "the query is nested too deeply, or has too long an expression"
    NESTED_TOO_DEEPLY = "nested_too_deeply", "the query is nested too deeply"
    NOT_PARSED = "not_parsed", "the query does not parse: {error}"
    SEVERAL_STATEMENTS = "several_statements", "the query must be one SELECT, not {count} statements"
    NO_SELECT = "no_select", "the query must be a SELECT"
    # what it gives
    COLUMN_UNNAMED = "column_unnamed", "a column of the query has no name", "give it one with AS"
    COLUMN_OF_OURS = (
        "column_of_ours",
        "column {column} of the query has a name of Vitrina's own",
        "rename it with AS",
    )
    COLUMN_TWICE = "column_twice", "the query gives column {column!r} twice", "give them different names with AS"
    NO_COLUMNS = "no_columns", "the query gives no columns"
    # its transforms
    NO_TRANSFORM = (
        "no_transform",
        "there is no transform {name!r} (registered: {known})",
        "register it with @vitrina.transform and name its module in VITRINA_TRANSFORM_MODULES",
    )
    DROPS_KEY = "drops_key", "transform {name!r} drops key column {columns}"
    DROPS_NOTHING = "drops_nothing", "transform {name!r} drops {columns}, which is not there"
    ADDS_WHAT_IS_THERE = "adds_what_is_there", "transform {name!r} adds {columns}, which is there"
    KEY_NOT_GIVEN = "key_not_given", "key column {columns} is not in the query", "a transform cannot add it"

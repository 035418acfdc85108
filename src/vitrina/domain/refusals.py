"""Refusals: what is wrong with a pipeline or its query, as errors say it and findings repeat it; those of marts and of
sources are beside. Codes are listed in docs/reference.md; what another program says (a server, a plug-in) has the code
`refused`."""

from vitrina.domain.mart_refusals import MartRefusal
from vitrina.domain.source_refusals import SourceRefusal
from vitrina.domain.wording import Worded


class Refusal(Worded):
    """The code, what is wrong, and the remedy."""

    # a pipeline
    WRONG_FIELDS = "wrong_fields", "{problems}"
    WRONG_FIELDS_OF = "wrong_fields_of", "pipeline {name}: {problems}"
    UNKNOWN_FIELDS = "unknown_fields", "a pipeline has no field {fields}", "correct it, or leave it out"
    WRONG_PARAMETERS = "wrong_parameters", "the request's parameters: {problems}"
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
    SEVERAL_TARGETS = ("several_targets", "pipeline {name!r} has several targets", "name one: {names}")
    TARGET_AND_TARGETS = (
        "target_and_targets",
        "pipeline {name!r} names both target_table and targets",
        "leave one of them out",
    )
    NAME_TOO_LONG = ("name_too_long", "{name!r} is longer than {characters} characters", "choose a shorter name")
    NO_DURATION = ("no_duration", "{field} {text!r} is no duration", "write 30s, 15m, 1h or 1d")
    DURATION_OUTSIDE = ("duration_outside", "{field} {duration!r} is outside 1 second to 366 days")
    NO_SCHEDULE = (
        "no_schedule",
        "schedule_interval {schedule!r} is neither a duration nor a cron line",
        "write 30s, 5m, 1h, 1d, or five cron fields, with TZ=Europe/Moscow before them if wanted",
    )
    NO_TIME_ZONE = (
        "no_time_zone",
        "schedule_interval {schedule!r} names the unknown time zone {zone!r}",
        "write 30s, 5m, 1h, 1d, or five cron fields, with TZ=Europe/Moscow before them if wanted",
    )
    OF_CHECK = "of_check", "check {check!r}: {reason}", "{way}"
    OF_IMPACT = "of_impact", "impact of {table}: {reason}", "{way}"
    MADE_OF_ITSELF = (
        "made_of_itself",
        "the mart would be made of itself: {way}",
        "take one of them out of a query, also out of the views that it reads",
    )
    MART_NOT_THERE = "mart_not_there", "{reason}", "pipeline {name} makes it: vitrina run {name}"
    # its file
    OF_FILE = "of_file", "{file}: {reason}", "{way}"
    NO_FILE = "no_file", "there is no file {file}"
    FILE_NO_YAML = "file_no_yaml", "{file} is no YAML: {error}"
    FILE_NO_TEXT = "file_no_text", "{file} is no text in UTF-8", "save it as UTF-8"
    FILE_UNREADABLE = "file_unreadable", "{file} cannot be read: {error}"
    NO_MAPPING = "no_mapping", "{file}: a pipeline is a mapping of fields", "write fields, such as name: films"
    NO_TABLE_LISTED = ("no_table_listed", "{name} names no table", "write schema.table")
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
    READING_NOT_SHOWN = (
        "reading_not_shown",
        "the server does not show how it reads the query, so it cannot be checked",
    )
    SERVER_CANNOT_READ = ("server_cannot_read", "the server cannot read the query: {error}")
    READING_NOT_UNDERSTOOD = (
        "reading_not_understood",
        "the server's reading of the query cannot be understood, so it cannot be checked",
    )
    # what it is to be live
    NOT_TO_BE_LIVE = (
        "not_to_be_live",
        "the query cannot be live: {reasons}",
        "use mode full on a schedule, or change the query",
    )
    TOO_DEEP_TO_BE_LIVE = (
        "too_deep_to_be_live",
        "the query is nested too deeply to be live",
        "use mode full on a schedule",
    )
    READING_NOT_UNDERSTOOD_LIVE = (
        "reading_not_understood_live",
        "the server's reading of the query cannot be understood, so it cannot be live",
    )
    LIVE_KEY_NOT_GIVEN = ("live_key_not_given", "the query gives no column {columns}, which the key names")
    IMPACT_NOT_READ = ("impact_not_read", "impact names {table}, which the query does not read", "it reads {read}")
    IMPACT_WITHOUT_CHANGED = (
        "impact_without_changed",
        "the impact query of {table} does not read the relation {relation}",
        "for example: {example}",
    )
    IMPACT_GIVES_NOTHING = (
        "impact_gives_nothing",
        "the impact query of {table} gives no column",
        "it must give {key}, or some of them, and nothing else",
    )
    IMPACT_GIVES = (
        "impact_gives",
        "the impact query of {table} gives {columns}",
        "it must give {key}, or some of them, and nothing else",
    )
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
    NO_BATCH_FORM = ("no_batch_form", "transform {name!r} has batch={batch!r}", "it is one of {forms}")
    TRANSFORM_TWICE = ("transform_twice", "two transforms are called {name!r}: {one} and {other}")
    MODULE_NOT_THERE = (
        "module_not_there",
        "VITRINA_TRANSFORM_MODULES names {module!r}: {error}",
        "install it, put it into {folder}, or correct VITRINA_TRANSFORM_MODULES",
    )


REFUSALS: tuple[Worded, ...] = (*Refusal, *MartRefusal, *SourceRefusal)

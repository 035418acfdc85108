"""Refusals of marts: what is wrong with a target, with its columns, or with what is asked of its kind of mart."""

from vitrina.domain.wording import Worded


class MartRefusal(Worded):
    """The code, what is wrong, and the remedy."""

    CHECK_NAMES_UNKNOWN = (
        "check_names_unknown",
        "check {check!r} names {columns}, which the mart does not have",
        "it has {given}",
    )
    FOREIGN_TRIGGER = (
        "foreign_trigger",
        "writing to {target} would run {function} of {owner}, who is not trusted",
        "take it off the mart, or name {owner} in VITRINA_TRUSTED_OWNERS",
    )
    WRITER_MAY_NOT = (
        "writer_may_not",
        "{target} has, or may get, code of {owner} by {function}, and {role} may not write to it",
        "GRANT SELECT, INSERT, UPDATE, DELETE ON {target} TO {role}",
    )
    TYPE_NOT_THERE = (
        "type_not_there",
        "column {column} is of type {type}, which the warehouse does not have",
        "create it there, or cast it in the query: CAST({column} AS text)",
    )
    TYPE_OF_FOREIGN_CODE = (
        "type_of_foreign_code",
        "column {column} is of type {type}, which goes through the user-defined {function}",
        "cast it in the query, where it runs as the reader: CAST({column} AS …)",
    )
    CLICKHOUSE_NAME = (
        "clickhouse_name",
        "column {column!r} cannot be a column of the mart in ClickHouse",
        "give it another name with AS, without dots and not beginning with {prefix}",
    )
    CLICKHOUSE_TEXT_ONLY = (
        "clickhouse_text_only",
        "column {column} is {type}, and ClickHouse has text only",
        "select {instead}",
    )
    CLICKHOUSE_TIMES = (
        "clickhouse_times",
        "column {column} is {type}",
        "cast it in the query: CAST({column} AS text[])",
    )
    CLICKHOUSE_DIGITS = (
        "clickhouse_digits",
        "column {column} is {type}, and a Decimal of ClickHouse has a fixed number of digits, 76 at most",
        "cast it in the query, to what it needs: CAST({column} AS numeric(18, 2){many})",
    )
    NO_ID = ("no_id", "the pipeline names no key", "set key: [column, …]; it becomes the _id of a document")
    ID_LOOSE = (
        "id_loose",
        "key column {column} is of type {type}, in which one value can be written in several ways",
        "cast it in the query: CAST({column} AS text)",
    )
    FILES_NOT_LIVE = (
        "files_not_live",
        "a mart in files is kept by mode full or incremental: every change writes a version of all of it",
        "set mode: full, with a schedule; a table, an index or ClickHouse can be live",
    )
    LAKE_NOT_ATOMIC = (
        "lake_not_atomic",
        "publish: atomic is for tables of the warehouse",
        "leave it out; run --rebuild replaces the table at once",
    )
    PARQUET_KEY = (
        "parquet_key",
        "key column {column} is {type}, by which rows in Parquet cannot be told apart",
        "cast it in the query: CAST({column} AS text)",
    )
    PARQUET_DIGITS = (
        "parquet_digits",
        "column {column} is {type}, and Parquet keeps decimals of a fixed scale, of {digits} digits at most",
        "cast it in the query: CAST({column} AS numeric(18, 2))",
    )
    PARQUET_TYPE = (
        "parquet_type",
        "column {column} is {type}, for which Parquet has no exact type",
        "cast it in the query: CAST({column} AS text)",
    )
    PARQUET_LIST = (
        "parquet_list",
        "column {column} is {type}, for which Parquet has no exact type",
        "cast it in the query: CAST({column} AS text), or to_jsonb",
    )
    NO_WRITER = (
        "no_writer",
        "no writer is registered for {prefix}: (known besides tables, es: and os: {known})",
        "install the package that has it as an entry point of group {group}, here and where runners run",
    )
    FOR_ANOTHER_KIND = (
        "for_another_kind",
        "{fields} is for another kind of mart than any of its targets",
        "leave it out",
    )
    FOR_AN_INDEX = ("for_an_index", "{fields} is for an index, and {target} is none", "leave it out")
    FOR_FILES = ("for_files", "format is for a mart in files, and {target} is none", "leave it out, or name a folder")
    FOR_A_LAKE = ("for_a_lake", "partition_by is for a table in a lake, and {target} is none", "leave it out")
    NEEDS_KEY = ("needs_key", "{target} needs a key", "set key: [column, …]; it becomes _id")
    ATOMIC_IS_FOR_TABLES = (
        "atomic_is_for_tables",
        "publish: atomic is for tables",
        "leave it out; a rebuild (run --rebuild) replaces an index at once",
    )
    CHANGES_OF_TABLES = (
        "changes_of_tables",
        "keep_changes is for tables: of others nobody keeps what stood there",
        "leave it out",
    )
    CHECK_NOT_REACHED = (
        "check_not_reached",
        "check {check!r} ({kind}) asks all of the mart, and statements do not reach {target}",
        "ask each row (not_null, accepted_values, condition), or keep a table beside it and ask that",
    )
    CHECK_OF_LIVE = (
        "check_of_live",
        "check {check!r} ({kind}) asks all of the mart, and a live mart is published slice by slice",
        "set effect: warn",
    )
    UNIQUE_OF_LIVE = (
        "unique_of_live",
        "check {check!r} ({kind}) asks all of the mart, and a live mart is published slice by slice",
        "set effect: warn; or CREATE UNIQUE INDEX ON {target} ({columns})",
    )
    CHECK_OF_BATCHES = (
        "check_of_batches",
        "check {check!r} ({kind}) asks all of the mart, and cannot block what is published batch by batch",
        "set publish: atomic, or effect: warn",
    )
    TOO_MANY_FIELDS = (
        "too_many_fields",
        "the documents have {fields:,} fields, with those in other fields, and the index allows {allowed:,}",
        "leave some out, or raise settings: {{mapping.total_fields.limit: {fields}}}",
    )
    MAPPING_NOT_GIVEN = (
        "mapping_not_given",
        "mapping names {fields}, which the query does not give",
        "correct the name",
    )
    NO_FIELD_NAME = ("no_field_name", "column {column!r} cannot be a field of an index", "give it another name with AS")
    NOT_OUR_INDEX = (
        "not_our_index",
        "{mart} is an index that this pipeline did not make",
        "choose another name, or set adopt: true to have it replaced by this pipeline's documents",
    )
    DRIFTED = "drifted", "{reason}, and {target} has it otherwise", "{way}"
    NOT_OUR_ALIAS = (
        "not_our_alias",
        "{mart} is an alias of {indexes} that this pipeline did not make",
        "choose another name, or set adopt: true to have it replaced by this pipeline's documents",
    )
    NOT_OUR_FILES = (
        "not_our_files",
        "{target} has a manifest that this pipeline did not write",
        "choose another folder, or remove {target}{manifest}",
    )
    NOT_OUR_LAKE_TABLE = (
        "not_our_lake_table",
        "the catalogue has a table {mart} that this pipeline did not make",
        "choose another name, or have it forgotten: DELETE FROM etl_lake.iceberg_tables WHERE {where}",
    )
    CHECKS_IN_ENGINE = (
        "checks_in_engine",
        "checks are asked in the warehouse, where no row of this mart comes",
        "leave them out",
    )
    TOO_MANY_COLUMNS = (
        "too_many_columns",
        "the query gives {count:,} columns, and {most:,} are the most: a table of Postgres has 1,600, and"
        " Vitrina needs one of them where rows are staged",
        "leave some out, put several into one jsonb or array, or make two marts with the same key",
    )
    NO_KEY_OF_NEW = ("no_key_of_new", "{target} does not exist and the pipeline names no key", "set key: [column, …]")
    KEY_NOT_IN_QUERY = ("key_not_in_query", "key column {columns} is not in the query", "the query gives {given}")
    COLUMNS_GONE = (
        "columns_gone",
        "drift: the query no longer gives {columns}, which {target} has",
        "put it back into the query, or ALTER TABLE {target} {drop}",
    )
    COLUMNS_RETYPED = (
        "columns_retyped",
        "drift: the query changed the type of {changes}; {target} has {mart_type}",
        "cast it back in the query, or ALTER TABLE {target} ALTER COLUMN {column} TYPE {type}",
    )
    COLUMNS_MISSING = (
        "columns_missing",
        "drift: {target} has no column {columns}",
        "set on_drift: add, or ALTER TABLE {target} ADD COLUMN {column} {type}",
    )
    NO_KEY_OF_TABLE = (
        "no_key_of_table",
        "{target} has no primary key and the pipeline names no key",
        "set key: [column, …]",
    )
    NO_UNIQUE_INDEX = (
        "no_unique_index",
        "{target} has no unique index on its key ({key})",
        "ALTER TABLE {target} ADD PRIMARY KEY ({key})",
    )
    VALUE_NEEDED = ("value_needed", "{target} needs a value for {columns}, which the query does not give")
    COLUMN_GENERATED = ("column_generated", "column {columns} of {target} is generated", "leave it out of the query")
    COLUMN_OTHERWISE = (
        "column_otherwise",
        "drift: column {column} of {target} is {mart_type}, the query gives {type}",
        "cast it in the query: CAST({column} AS {mart_type})",
    )

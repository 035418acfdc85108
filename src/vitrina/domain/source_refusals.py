"""Refusals of sources: what is wrong with an address, with what stands there, or with a query in its language."""

from vitrina.domain.wording import Worded


class SourceRefusal(Worded):
    """The code, what is wrong, and the remedy."""

    SOURCE_CANNOT = "source_cannot", "source {source!r} cannot {reason}", "use mode full, on a schedule"
    MODE_NEEDS = (
        "mode_needs",
        "source {source!r} cannot {reason}",
        "mode {mode} needs that: use mode full, on a schedule",
    )
    NAME_NOT_POSTGRES = (
        "name_not_postgres",
        "a column of the query has a name that Postgres cannot have: {name!r}",
        "rename it with AS",
    )
    QUERY_EMPTY = ("query_empty", "the query is empty")
    NO_SOURCE = (
        "no_source",
        "there is no source {name!r} (known: {known})",
        "set VITRINA_SOURCES__{variable}=postgresql://…",
    )
    NO_KIND_OF_SOURCE = ("no_kind_of_source", "there is no kind of source for {scheme}://", "known are {known}")
    SELECT_OF_PIVOT = (
        "select_of_pivot",
        "the query must be a SELECT",
        "of PIVOT, write its SELECT with FILTER, or name its columns",
    )
    HAS_PARAMETER = ("has_parameter", "the query has a parameter", "write the value")
    VIEWS_TOO_DEEP = ("views_too_deep", "the query reads views that are nested too deeply")
    NO_SELECT_OF_DUCKDB = ("no_select_of_duckdb", "the query must be a SELECT: {error}")
    VIEW_UNREADABLE = ("view_unreadable", "the query reads a view that cannot be read", "read its tables")
    DUCKDB_NO_PATH = (
        "duckdb_no_path",
        "the address of a source in DuckDB names no absolute path",
        "write duckdb:///path/to/lake.duckdb, or duckdb:///path/to/folder/ with Parquet files",
    )
    DUCKDB_THREADS = ("duckdb_threads", "the address of a source in DuckDB has threads that are no number", "threads=2")
    DUCKDB_NO_FILE = (
        "duckdb_no_file",
        "there is no file {path} that this process may see",
        "write duckdb:///path/to/lake.duckdb, or duckdb:///path/to/folder/ with Parquet files",
    )
    DUCKDB_NO_FOLDER = (
        "duckdb_no_folder",
        "there is no folder {path} that this process may see",
        "write duckdb:///path/to/lake.duckdb, or duckdb:///path/to/folder/ with Parquet files",
    )
    DUCKDB_SETTINGS = ("duckdb_settings", "DuckDB cannot be set up: {error}", "memory=1GB&threads=2")
    DUCKDB_TYPE = ("duckdb_type", "column {column} is {type}, which Postgres has no type for that fits", "{way}")
    DUCKDB_CASE = (
        "duckdb_case",
        "{one} and {other} differ in nothing but case, which DuckDB does not tell apart",
        "rename the files of one",
    )
    SESSION_UNTRACKED = (
        "session_untracked",
        "track_activities is off in a session of {role}, so its transactions cannot be seen",
        "turn it on for that role",
    )
    STANDBY_HORIZON = (
        "standby_horizon",
        "the source is a standby, which does not show the primary's open transactions",
        "use mode: full",
    )
    UNTRACKED = (
        "untracked",
        "track_activities is off at the source, so open transactions cannot be seen",
        "turn it on",
    )
    BLIND = (
        "blind",
        "{role}, who reads, cannot see other sessions' transactions ({reason}): the safe horizon is unknown",
        "GRANT pg_read_all_stats TO {grantee}, as {who}; or use mode: full",
    )
    SPARK_TYPE = (
        "spark_type",
        "column {column} is {type}, which Postgres has no type for that fits",
        "CAST(x AS STRING)",
    )
    PARALLEL_OPERATOR = (
        "parallel_operator",
        "an operator with ? in it cannot be read in parallel",
        "call its function: jsonb_exists(a, b)",
    )
    PARALLEL_TYPE = (
        "parallel_type",
        "column {column} is {type}, which is not read in parallel",
        "read it from a source of postgresql://, or cast it in the query",
    )
    PARALLEL_ADDRESS = (
        "parallel_address",
        "the engine cannot reach a Postgres by a socket",
        "write {scheme}://reader@host:5432/database",
    )
    PARALLEL_HOSTS = ("parallel_hosts", "a snapshot is one server's, and the address has several hosts", "name one")
    PARALLEL_OPTION = (
        "parallel_option",
        "the engine is not told {option} of an address of {scheme}://",
        "leave it out, or read from a source of postgresql://",
    )
    NO_ENGINE = ("no_engine", "source {name!r} is read by an engine, and there is none", "set VITRINA_LAKE_ENGINE")

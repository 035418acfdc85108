"""Findings: what is to be said about a pipeline, a query or a capture. Codes are listed in docs/reference.md."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

from vitrina.domain.errors import VitrinaError
from vitrina.domain.reasons import as_kept
from vitrina.domain.wording import Because, Data, Json, Therefore, Worded, fill

Level: TypeAlias = Literal["error", "warning", "info"]
UNIQUE_END = "end the ORDER BY with a unique column"


class Phrase(Worded):
    """A part of a finding's text, among its data."""

    USER_DEFINED = "user_defined", "is user-defined"
    USER_DEFINED_DEFINER = (
        "user_defined_definer",
        "is user-defined and runs with its owner's rights (SECURITY DEFINER)",
    )
    DEFINER = "definer", "runs with its owner's rights (SECURITY DEFINER)"
    EXECUTES_TEXT = "executes_text", "executes SQL that is hidden in a text"
    INTRUSIVE = "intrusive", "is of extension {extension}, which reaches beyond the tables of a query"
    REACHES_OUT = "reaches_out", "reaches beyond the tables of a query"
    CHANGING = "changing", "gives another value at every call: the mart would never equal the query"
    VOLATILE = "volatile", "is VOLATILE: it may have effects, or give another value at every call"
    READS_CATALOGUE = "reads_catalogue", "reads the server's catalogue, not data"
    READS_SESSION = "reads_session", "depends on the session, not on data"
    TYPE_INPUT = "type_input", "is the input function of a type"
    BEHIND_A_TABLE = "behind_a_table", "an index, a CHECK or the like of a table that is read"
    ALLOW_IT = "allow_it", "leave it out, or have it named in VITRINA_ALLOWED_FUNCTIONS"
    WITH_REMEDY = "with_remedy", "{message} ({remedy})"
    STORE_IT = "store_it", "store the value in the source, or leave it to the mart's column default"


class Code(Worded):
    """What was found: the code, its message, and its remedy if there is one."""

    # anywhere
    REFUSED = "refused", "{error}", "{remedy}"
    INVALID_VALUE = "invalid_value", "{error}"
    NOT_YAML = "not_yaml", "is no YAML: {error}"
    NOT_A_NUMBER = "not_a_number", "{text!r} is no whole number"
    # what a query uses
    CASTS_TO_NAMES = (
        "casts_to_names",
        "the query casts to regclass or the like, which reads the server's catalogue, not data",
        "leave the cast out",
    )
    LOCKS_ROWS = "locks_rows", "a view that the query reads locks rows (FOR UPDATE / SHARE)"
    SCHEMA_NOT_ALLOWED = (
        "schema_not_allowed",
        "the query reads {relation}: schema {schema} is not allowed",
        "if it may be read, set {setting} for API and runners (in .env, then: vitrina up);"
        " now {allowed} may, and a view may not reach past them either",
    )
    CATALOGUE_NOT_ALLOWED = (
        "catalogue_not_allowed",
        "the query reads {relation}: schema {schema} is not allowed",
        "read tables of {allowed} only",
    )
    NO_PLAIN_SELECT = "no_plain_select", "{reason}", "write one plain SELECT"
    FUNCTION_NOT_ALLOWED = "function_not_allowed", "function {function} {why}", "{way}"
    CALL_NOT_ALLOWED = "call_not_allowed", "{via} calls {function}, which {why}", "{way}"
    READS_CLOCK = (
        "reads_clock",
        "the query reads the clock ({what}): the mart changes with it, also when no row does",
        "compare with a column instead, if that is not wanted",
    )
    CLOCK_LITERAL = (
        "clock_literal",
        "{literal} as a date or time means the clock: the mart changes with it, also when no row does",
        "write the date out, if that is meant",
    )
    # what it gives, and how it is read
    GIVES = "gives", "gives {columns}"
    ROWS_NOT_READ = "rows_not_read", "its rows were not looked at", "an admin may, or store it first"
    ESTIMATED = "estimated", "about {rows:,.0f} rows, at a planner's cost of {cost:,.0f}"
    READ_WHOLE = "read_whole", "about {rows:,.0f} rows, read at once"
    READ_UNCOUNTED = "read_uncounted", "read at once; how many rows it gives cannot be told before"
    READ_BY_KEY = "read_by_key", "read by key"
    READ_BY_KEY_OR_STAGED = "read_by_key_or_staged", "read by key, and staged when many keys differ: {reason}"
    READ_BY_RANGE = "read_by_range", "read by key range"
    READ_AT_ONCE = "read_at_once", "read at once: {reason}"
    READ_STAGED = "read_staged", "read staged: {reason}"
    READING_NOT_SEEN = (
        "reading_not_seen",
        "whether it is read by key or staged could not be seen within {seconds} s",
    )
    KEY_NOT_UNIQUE = "key_not_unique", "the query gives a key twice: {keys}", "make the key unique in the query"
    UNIQUENESS_NOT_SEEN = "uniqueness_not_seen", "whether it is unique could not be seen within {seconds} s"
    CURSOR_NOT_GIVEN = "cursor_not_given", "{columns} is not in the query"
    CURSOR_NOT_INDEXED = (
        "cursor_not_indexed",
        "no index serves the cursor: every batch sorts its whole window",
        "CREATE INDEX ON the table that gives them ({columns})",
    )
    CURSOR_INDEX_NOT_SEEN = "cursor_index_not_seen", "whether an index serves it could not be seen within {seconds} s"
    INCREMENTAL_SEES = (
        "incremental_sees",
        "incremental sees new and changed rows; it cannot see deletes, nor changes of joined tables that leave the"
        " cursor",
        "use mode: full, or reconcile now and then",
    )
    IMPACT_NOT_USED = (
        "impact_not_used",
        "is for mode live, and not used by this one",
        "set mode: live, or leave it out",
    )
    READS_MARTS = "reads_marts", "reads marts of other pipelines: {marts}"
    AFTER_NOT_USED = (
        "after_not_used",
        "is for modes full and incremental: a live mart follows whatever it reads",
        "leave it out",
    )
    AFTER_NOTHING = (
        "after_nothing",
        "the query reads no mart of a pipeline, so it is due after nothing",
        "set a schedule_interval, or leave it out",
    )
    AFTER_LIVE = (
        "after_live",
        "{marts} is live: a change of it makes nothing due, only the end of a run does",
        "use mode: live, or set a schedule_interval too",
    )
    # the mart
    WOULD_CREATE_TABLE = "would_create_table", "would run: {statement}"
    WOULD_REBUILD_TABLE = (
        "would_rebuild_table",
        "would fill another table, which then takes the place of the one that is served: {statement}",
    )
    WOULD_ALTER_TABLE = "would_alter_table", "would run: {statement}"
    FOREIGN_OWNER = (
        "foreign_owner",
        "{table} belongs to {owner}, whose triggers could be added",
        "ALTER TABLE {table} OWNER TO vitrina_runner, or name {owner} in VITRINA_TRUSTED_OWNERS",
    )
    FOREIGN_CODE = (
        "foreign_code",
        "{function} of {owner} runs with the runner's rights: there is no vitrina_writer",
        "run `vitrina roles` as somebody who may create roles",
    )
    NO_ELASTICSEARCH = (
        "no_elasticsearch",
        "there is no Elasticsearch: ELASTICSEARCH_URL is not set where this was checked, so a run would fail",
        "set ELASTICSEARCH_URL=http://host:9200 for the API and the runners, or start one: vitrina up --search",
    )
    NO_OPENSEARCH = (
        "no_opensearch",
        "there is no OpenSearch: OPENSEARCH_URL is not set where this was checked, so a run would fail",
        "set OPENSEARCH_URL=http://host:9200 for the API and the runners",
    )
    NO_CLICKHOUSE = (
        "no_clickhouse",
        "there is no ClickHouse: VITRINA_CLICKHOUSE_URL is not set where this was checked, so a run would fail",
        "set VITRINA_CLICKHOUSE_URL=http://user:password@host:8123 for the API and the runners",
    )
    ADOPTS = (
        "adopts",
        "whatever {index} is now is replaced, whole documents at a time: fields of others are lost",
        "leave adopt out once the index is this pipeline's own",
    )
    MAPPING_WITHOUT_TYPE = (
        "mapping_without_type",
        "mapping of {field} has no type",
        "write {field}: {{type: keyword}}",
    )
    MAPPING_TYPE_UNKNOWN = (
        "mapping_type_unknown",
        "mapping of {field}: {type!r} is no type that {engine} comes with, so a run may fail",
        "correct it, unless a plugin of your server adds it",
    )
    WOULD_CREATE_INDEX = "would_create_index", "would create index {index} with {fields}"
    WOULD_REBUILD_INDEX = (
        "would_rebuild_index",
        "would rebuild index {index} beside the one that is served, with {fields}",
    )
    INDEX_HAS = "index_has", "index {index} has {fields}"
    WOULD_BE_MADE = "would_be_made", "{target} would be made with {fields}"
    MART_HAS = "mart_has", "{target} has {fields}"
    NO_LAKE = (
        "no_lake",
        "there is no lake: VITRINA_LAKE_URL is not set where this was checked, so a run would fail",
        "set VITRINA_LAKE_URL=file:///folder or s3://bucket/prefix for the API and the runners",
    )
    KEPT_AS_TEXT = "kept_as_text", "Parquet has no type for json: {columns} would be kept as text"
    DRIFT = "drift", "drift: the query changed {columns}", "run with --rebuild"
    DRIFT_ADDS = "drift_adds", "drift: the query changed {columns}", "run with --rebuild, or set on_drift: add"
    # a live mart
    REFRESHES_KEYS = "refreshes_keys", "a change in {table} refreshes the rows that carry it"
    REFRESHES_PART = "refreshes_part", "a change in {table} refreshes all rows with the same {columns}"
    REFRESHES_OWN = "refreshes_own", "a change in {table} refreshes what the pipeline's own impact query gives"
    REFRESHES_EVERYTHING = (
        "refreshes_everything",
        "a change in {table} refreshes everything: {reason}",
        "tie it to the key in the query, or name the keys in impact: {{{table}: SELECT …}}",
    )
    OLD_VALUE_UNTOLD = (
        "old_value_untold",
        "a change in {table} refreshes everything: the old value of {columns} is not told",
        "ALTER TABLE {table} REPLICA IDENTITY FULL",
    )
    UNORDERED_AGGREGATE = (
        "unordered_aggregate",
        "{aggregate} has no ORDER BY: the same rows may come in another order",
        "write {aggregate}(… ORDER BY …)",
    )
    FLOAT_SUM = (
        "float_sum",
        "{aggregate} of floating-point numbers: the last digits depend on the order of the rows",
        "cast to numeric",
    )
    WINDOW_TIES = "window_ties", "rows that tie in a window's ORDER BY may change places", UNIQUE_END
    DISTINCT_TIES = "distinct_ties", "of rows that tie in the ORDER BY of DISTINCT ON any may be taken", UNIQUE_END
    LIMIT_TIES = "limit_ties", "of rows that tie in the ORDER BY before LIMIT any may be taken", UNIQUE_END
    CAPTURED = "captured", "changes of {tables} are captured"
    NOT_CAPTURED = (
        "not_captured",
        "changes are not captured, so a run would fail: {missing}",
        "vitrina capture install --source {source} --tables {names}",
    )
    # a capture
    CAPTURE_UNFINISHED = "capture_unfinished", "it is not installed to its end", "run: vitrina capture install"
    CAPTURE_FAILED = (
        "capture_failed",
        "the last attempt failed: {error}",
        "it is tried again by itself; if that does not pass, vitrina doctor says what is wrong",
    )
    NOBODY_CAPTURES = "nobody_captures", "no runner captures", "start one with: vitrina runner"
    CAPTURE_BEHIND = "capture_behind", "it has been behind for {seconds:.0f} s"
    WAL_LOST = (
        "wal_lost",
        "the WAL that was not read is gone; everything is compared in full once a runner captures again",
    )
    WAL_SHORT = (
        "wal_short",
        "after {megabytes:,.0f} MB more of WAL the slot is lost",
        "let a runner catch up, or raise max_slot_wal_keep_size",
    )
    # a source
    NOTHING_READABLE = (
        "nothing_readable",
        "{role} may read no table of {schemas}",
        "their owner has to run: GRANT USAGE ON SCHEMA {listed} TO {grantee}; GRANT SELECT ON ALL TABLES IN SCHEMA"
        " {listed} TO {grantee}; or name other schemas in VITRINA_ALLOWED_SOURCE_SCHEMAS",
    )
    KIND_CANNOT = "kind_cannot", "a source of this kind cannot {reason}", "use mode full, on a schedule"
    IS_STANDBY = "is_standby", "it is a standby", "name its primary, or use mode full"
    ACTIVITIES_OFF = (
        "activities_off",
        "track_activities is off, so open transactions cannot be seen",
        "turn it on at that server",
    )
    SESSIONS_HIDDEN = (
        "sessions_hidden",
        "{role} cannot see the open transactions of other sessions",
        "GRANT pg_read_all_stats TO {grantee}, as {who}; or use mode full",
    )
    ENCODING_UNKNOWN = "encoding_unknown", "its encoding is SQL_ASCII, so its text cannot be read", "use mode full"
    WAL_NOT_LOGICAL = (
        "wal_not_logical",
        "wal_level is {level}",
        "{way}; or capture by trigger",
    )
    SLOTS_TAKEN = (
        "slots_taken",
        "all {slots} replication slots are taken",
        "{way}, and restart it; or capture by trigger",
    )
    MAY_NOT_STREAM = (
        "may_not_stream",
        "{role} may not stream the WAL",
        "{way}; or name another login in {setting}, or capture by trigger",
    )
    # files and what is stored
    UNDER_WAY = "under_way", "{fields} cannot be changed while it is {status}", "pause it first"
    DELETED_UNDER_WAY = "deleted_under_way", "it cannot be deleted while it is {status}", "pause it first"
    TAKEN = "taken", "{value!r} is taken by pipeline {holder!r}", "choose another, or move that first"


@dataclass(frozen=True)
class Finding:
    """What was found where: an error refuses it, a warning does not, an info says how it will be."""

    level: Level
    where: str
    code: Worded
    data: Data = field(default_factory=dict, hash=False)
    target: str = ""  # of several: whose it is; empty: everybody's

    def about(self, target: str) -> "Finding":
        """The same, of one of several targets."""
        return replace(self, target=target)

    @property
    def message(self) -> str:
        """What was found, in English."""
        return fill(self.code.text, self.data)

    @property
    def remedy(self) -> str:
        """What to do about it; empty if there is nothing to be done."""
        return fill(self.code.remedy, self.data)

    def __str__(self) -> str:
        return f"{self.message} ({self.remedy})" if self.remedy else self.message

    @property
    def because(self) -> Because:
        """Its message, as a part of another's, with the remedy."""
        whole = {"message": Because(self.code, self.data), "remedy": Therefore(self.code, self.data)}
        return Because(Phrase.WITH_REMEDY, whole) if self.remedy else whole["message"]

    def said_in(self, translate: Callable[[str], str]) -> tuple[str, str]:
        """Message and remedy in another language."""
        return fill(self.code.text, self.data, translate), fill(self.code.remedy, self.data, translate)

    def as_json(self) -> dict[str, Json]:
        """For programs."""
        said: dict[str, Json] = {"message": self.message, "remedy": self.remedy}
        data = {name: as_kept(value) for name, value in self.data.items()}
        whose: dict[str, Json] = {"target": self.target} if self.target else {}
        return {"level": self.level, "where": self.where, "code": self.code.value, "data": data, **said, **whose}


def refused(where: str, error: VitrinaError, place: Data | None = None) -> Finding:
    """An error of ours as a finding, by its own code if it has one."""
    if error.code:
        return Finding("error", where, error.code, {**error.data, **(place or {})})
    return refusal(where, error.message, error.remedy, place)


def refusal(where: str, error: str, remedy: str = "", place: Data | None = None) -> Finding:
    """An error of ours as a finding."""
    return Finding("error", where, Code.REFUSED, {"error": error, "remedy": remedy, **(place or {})})


def place_of(text: str, at: int) -> Data:
    """Where in a text, for people and for editors: in characters, lines and columns from 1; nothing for 0."""
    if not 1 <= at <= len(text) + 1:
        return {}
    before = text[: at - 1]
    return {"at": at, "line": before.count("\n") + 1, "column": len(before) - before.rfind("\n")}

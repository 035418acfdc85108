"""Diagnoses: what the doctor finds of a set-up. Codes are listed in docs/reference.md."""

from vitrina.domain.wording import Worded

WITHIN_A_DAY = "see that one time service keeps it: leases and schedules were put right, incremental marts are compared"
UP, ROLES = "vitrina up", "vitrina roles"


class Diagnosis(Worded):
    """The code, what it is, and what to do about it."""

    # the machine and the settings
    PYTHON = "python", "{version}"
    PYTHON_OLD = "python_old", "{version} is too old", "use Python 3.11 or newer"
    HOME_WRITABLE = "home_writable", "{folder} is writable"
    HOME_CAN_BE_MADE = "home_can_be_made", "{folder} can be made"
    HOME_CLOSED = "home_closed", "{folder} is not writable", "set VITRINA_HOME to a folder of your own"
    DISK = "disk", "{free:,.1f} GB free at {folder}"
    DISK_LOW = "disk_low", "{free:,.1f} GB free at {folder}", "free some space"
    NO_SETTING = "no_setting", "is no setting, and has no effect", "{meant} must be meant"
    TRANSFORMS = "transforms", "{count} registered: {names}"
    NO_TRANSFORMS = "no_transforms", "0 registered: none"
    OTHER_SETTINGS = "other_settings", "runs with other settings than those of now: {names}", UP
    # the warehouse
    POSTGRES = "postgres", "version {version}"
    POSTGRES_UNTESTED = (
        "postgres_untested",
        "version {version} is not one that Vitrina is tested with",
        "use Postgres 15 to 18",
    )
    POSTGRES_DOWN = "postgres_down", "the embedded one is installed and not running", UP
    NO_DATABASE = "no_database", "the embedded one has no database {database} yet", UP
    WAL_LEVEL = "wal_level", "{level}"
    WAL_LEVEL_LOW = "wal_level_low", "{level}", "only live marts of the warehouse's own tables by wal need it: {way}"
    META_STORE = "meta_store", "up to date, at {version}"
    META_STORE_NEWER = (
        "meta_store_newer",
        "at {version}, newer than this program, and works with it",
        "go on with the upgrade: install Vitrina {program} here too",
    )
    CLOCK = "clock", "has not jumped within a day"
    CLOCK_BEHIND = "clock_behind", "the database's clock was set back behind {seen_at}", WITHIN_A_DAY
    CLOCK_SET_FORWARD = "clock_set_forward", "the database's clock was set forward by {by} at {at}", WITHIN_A_DAY
    CLOCK_SET_BACK = "clock_set_back", "the database's clock was set back by {by} at {at}", WITHIN_A_DAY
    # roles and what they may
    ROLES_APART = "roles_apart", "each process signs in as its own"
    ROLES_MISSING = (
        "roles_missing",
        "degraded: one role does everything",
        "vitrina roles, as a user who may create roles; or have a script for who may: vitrina roles --sql",
    )
    RIGHT_LACKS = "right_lacks", "degraded: {without}", "{who} has to run: {statement}"
    SIGN_INS_UNSET = (
        "sign_ins_unset",
        "degraded: {settings} not set, so the owner signs in instead",
        "vitrina roles prints what to set",
    )
    READER_SEES = "reader_sees", "sees other sessions, for the safe horizon"
    READER_BLIND = (
        "reader_blind",
        "cannot see other sessions: incremental pipelines will refuse to run",
        "{who} has to run: {statement}",
    )
    FILES_UNBOUNDED = "files_unbounded", "not bounded, as VITRINA_TEMP_FILE_LIMIT={limit} says"
    FILES_BOUNDED = "files_bounded", "at most {limit} a process"
    FILES_OWN_LIMIT = (
        "files_own_limit",
        "not bounded by VITRINA_TEMP_FILE_LIMIT: {role} may not set it, and has {limit} of its own",
        "{way}",
    )
    SCHEMA_READABLE = "schema_readable", "{tables} tables, readable"
    SCHEMA_ELSEWHERE = "schema_elsewhere", "is in a source, and not in the warehouse"
    SCHEMA_MISSING = "schema_missing", "does not exist", "create it, or correct VITRINA_ALLOWED_SOURCE_SCHEMAS"
    SCHEMA_CLOSED = "schema_closed", "the reader may not read the schema", "vitrina roles, as their owner"
    TABLES_CLOSED = (
        "tables_closed",
        "the reader may not read {closed} of {tables} tables",
        "vitrina roles, as their owner",
    )
    MARTS_WRITABLE = "marts_writable", "the runner may write"
    MARTS_MISSING = "marts_missing", "does not exist", "vitrina migrate"
    MARTS_CLOSED = "marts_closed", "the runner may not create tables in it", ROLES
    # sources and captures
    SOURCE_ANSWERS = "source_answers", "answers"
    CAPTURE_READ = "capture_read", "by {kind}, {tables} tables, read by {runner}"
    CAPTURE_KEEPS_WAL = (
        "capture_keeps_wal",
        "the source keeps {bytes:,} bytes of WAL for slot {slot}",
        "let a runner catch up, or stop capturing: vitrina capture remove",
    )
    FOLLOWER_BEHIND = (
        "follower_behind",
        "{pipeline} ({status}) is {changes:,} changes behind, which are kept for it",
        "vitrina run {pipeline}, or vitrina disable {pipeline}",
    )
    CAPTURE_CLOSED = "capture_closed", "the role that captures cannot sign in: {error}", "{remedy}"
    WAL_UNBOUNDED = (
        "wal_unbounded",
        "max_slot_wal_keep_size is -1: while no runner captures, the WAL it has not read fills the source's disk",
        "{way}",
    )
    WAITS = "waits", "waits since {since} UTC for {what}", "{remedy}"
    # sinks
    TARGETS = "targets", "allowed: {allowed}"
    NO_TARGETS = (
        "no_targets",
        "none is allowed: pipelines to {prefix} are refused",
        "name them in {setting}, e.g. {example}",
    )
    NO_SEARCH = "no_search", "none, for no pipeline to es:; ELASTICSEARCH_URL names one, or {way}"
    SEARCH_DOWN = "search_down", "the embedded one is not running: pipelines to es: would fail", "{way}"
    SEARCH = "search", "version {version} at {url}, health {health}"
    SEARCH_RED = (
        "search_red",
        "version {version} at {url}, health {health}",
        "some index has lost a primary shard: GET _cluster/health/INDEX",
    )
    SEARCH_UNTESTED = (
        "search_untested",
        "version {version} at {url}, health {health}: not one that Vitrina is tested with",
        "use {tested}",
    )
    CLICKHOUSE = "clickhouse", "version {version} at {url}"
    LAKE = "lake", "answers at {url} (pyiceberg {version})"
    FILES = "files", "{url} answers (pyarrow {version})"
    # the API and the runners
    API = "api", "answers at {url}"
    API_AWAY = "api_away", "{error}", "correct VITRINA_URL, or start it with: vitrina serve"
    API_DIED = "api_died", "it was started and has died", "see why in: vitrina logs; then: vitrina up"
    API_DOWN = "api_down", "not running at {url}", UP
    TOKEN = "token", "good"
    NO_TOKEN = "no_token", "there is none", "vitrina up, or set VITRINA_TOKEN"
    RUNNERS = "runners", "{count} alive, version {version}"
    NO_RUNNERS = "no_runners", "none is alive: nothing will run", "vitrina up, or vitrina runner"
    RUNNERS_DIFFER = (
        "runners_differ",
        "{count} alive, of other versions too: {others} (this is {version})",
        "restart them: vitrina down, vitrina up",
    )
    NEIGHBOUR_AWAY = (
        "neighbour_away",
        "{runner} waits for {who} since {since}: {error}",
        "look at it; what waits goes on by itself once it answers",
    )

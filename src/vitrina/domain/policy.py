"""Where a pipeline may write: the one home of the target rules."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from vitrina.domain.errors import ConfigError
from vitrina.domain.refusals import Refusal

ES_TARGET_PREFIX = "es:"
OS_TARGET_PREFIX = "os:"
CLICKHOUSE_TARGET_PREFIX = "ch:"
LAKE_TARGET_PREFIX = "lake:"
FOLDER_TARGET_PREFIX, BUCKET_TARGET_PREFIX = "file:", "s3:"
SCHEMES_OF_FILES = (FOLDER_TARGET_PREFIX, BUCKET_TARGET_PREFIX)
SINK_NAMES = {  # for people
    ES_TARGET_PREFIX: "Elasticsearch",
    OS_TARGET_PREFIX: "OpenSearch",
    CLICKHOUSE_TARGET_PREFIX: "ClickHouse",
    LAKE_TARGET_PREFIX: "the lake",
    BUCKET_TARGET_PREFIX: "the bucket",
}
NAME = r"[a-z_][a-z0-9_]{0,62}"
TABLE = re.compile(rf"({NAME})\.({NAME})")
INDEX = re.compile(r"[a-z0-9][a-z0-9_.-]{0,199}")
STEP = r"(?!\.{1,2}/)[A-Za-z0-9_.=-]{1,100}/"  # of a path
BUCKET = r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]/"
FILES = re.compile(rf"(file|s3):((?<=file:)///(?:{STEP})+|(?<=s3:)//{BUCKET}(?:{STEP})+)")
ROOT = re.compile(rf"file:///(?:{STEP})*|s3://{BUCKET}(?:{STEP})*")
WILD = re.compile(r"[*?\[]")
PREFIXED = re.compile(rf"([a-z][a-z0-9]*):({INDEX.pattern})")


@dataclass(frozen=True)
class Rule:
    """For targets of one prefix: the setting that allows them, what a name is like, and that in words."""

    setting: str
    form: re.Pattern[str]
    words: str
    names_prefix: bool = False  # whether its patterns are held to all of the target


TABLES = Rule("allowed_target_tables", TABLE, "schema.table, of the letters a to z in lower case, digits and _")
OTHERS = Rule(
    "allowed_other_targets", PREFIXED, "prefix:name, of the letters a to z in lower case, digits, - _ and .", True
)
IN_FILES = Rule(
    "allowed_files",
    FILES,
    "s3://bucket/folder/ or file:///folder/, of letters, digits, - _ = and ., with / at its end",
    True,
)
RULES = {
    ES_TARGET_PREFIX: Rule(
        "allowed_es_indexes", INDEX, "es:index, of the letters a to z in lower case, digits, - _ and ."
    ),
    OS_TARGET_PREFIX: Rule(
        "allowed_opensearch_indexes", INDEX, "os:index, of the letters a to z in lower case, digits, - _ and ."
    ),
    CLICKHOUSE_TARGET_PREFIX: Rule(
        "allowed_clickhouse_tables", TABLE, "ch:database.table, of the letters a to z in lower case, digits and _"
    ),
    LAKE_TARGET_PREFIX: Rule(
        "allowed_lake_tables", TABLE, "lake:namespace.table, of the letters a to z in lower case, digits and _"
    ),
    FOLDER_TARGET_PREFIX: IN_FILES,
    BUCKET_TARGET_PREFIX: IN_FILES,
}


@dataclass(frozen=True)
class Whitelist:
    """The patterns (`analytics.*`) that targets must match, by setting."""

    patterns: Mapping[str, Sequence[str]]

    def rule(self, target: str) -> tuple[Rule, Sequence[str], str]:
        """For this target: the rule, the patterns, and the name that they are held to."""
        prefix, is_prefixed, name = target.partition(":")
        rule = RULES.get(f"{prefix}:", OTHERS) if is_prefixed else TABLES
        return rule, self.patterns[rule.setting], name if is_prefixed and not rule.names_prefix else target


def split_prefix(target: str) -> tuple[str, str]:
    """`sqlite:films` as prefix and name."""
    match = PREFIXED.fullmatch(target) or FILES.fullmatch(target)
    if not match:
        raise ConfigError.of(Refusal.NO_PREFIXED_NAME, target=target)
    return match[1], match[2]


def is_allowed_target(target: str, whitelist: Whitelist) -> bool:
    """Whether a pipeline may write to `target`; API and writers both ask here."""
    rule, patterns, name = whitelist.rule(target)
    return bool(rule.form.fullmatch(name)) and any(fnmatchcase(name, pattern) for pattern in patterns)


def require_allowed_target(target: str, whitelist: Whitelist) -> None:
    """Raise a ConfigError that names the setting unless the target is allowed."""
    if is_allowed_target(target, whitelist):
        return
    rule, patterns, name = whitelist.rule(target)
    if not rule.form.fullmatch(name):
        raise ConfigError.of(Refusal.NO_MART_NAME, target=target, words=rule.words)
    allowed, setting = ", ".join(patterns) or "nothing", f"VITRINA_{rule.setting.upper()}"
    raise ConfigError.of(Refusal.TARGET_NOT_ALLOWED, target=target, setting=setting, allowed=allowed)


def allowed_folders(patterns: Iterable[str], scheme: str) -> list[str]:
    """Where marts in files may be, as far as patterns say it without a wildcard: what is above the first."""
    above = [WILD.split(pattern)[0].rpartition("/")[0] + "/" for pattern in patterns if pattern.startswith(scheme)]
    return [url for url in dict.fromkeys(above) if ROOT.fullmatch(url)]


def may_be_opened(schema: str) -> bool:
    """Whether somebody may come to allow it: those of the server and our own are never for queries."""
    return bool(schema) and schema != "information_schema" and not schema.startswith(("pg_", "etl"))


def widened(allowed: Iterable[str], more: Iterable[str]) -> str:
    """The setting that lets queries read more schemas, as it has to be written."""
    return f"VITRINA_ALLOWED_SOURCE_SCHEMAS={','.join(dict.fromkeys([*allowed, *more]))}"


def split_table(target: str) -> tuple[str, str]:
    """`analytics.film_dim` as schema and table."""
    match = TABLE.fullmatch(target)
    if not match:
        raise ConfigError.of(Refusal.NO_TABLE_NAME, target=target)
    return match[1], match[2]

"""Where a pipeline may write: the one home of the target rules."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from vitrina.domain.errors import ConfigError

ES_TARGET_PREFIX = "es:"
CLICKHOUSE_TARGET_PREFIX = "ch:"
NAME = r"[a-z_][a-z0-9_]{0,62}"
TABLE = re.compile(rf"({NAME})\.({NAME})")
INDEX = re.compile(r"[a-z0-9][a-z0-9_.-]{0,199}")
PREFIXED = re.compile(rf"([a-z][a-z0-9]*):({INDEX.pattern})")


@dataclass(frozen=True)
class Whitelist:
    """The patterns (`analytics.*`) that targets must match."""

    tables: Sequence[str]
    indexes: Sequence[str]
    others: Sequence[str] = ()  # with their prefixes: sqlite:*
    clickhouse: Sequence[str] = ()

    def rule(self, target: str) -> tuple[str, Sequence[str], re.Pattern[str], str]:
        """For this target: the setting, its patterns, what a name is like, and the name."""
        if target.startswith(ES_TARGET_PREFIX):
            return "VITRINA_ALLOWED_ES_INDEXES", self.indexes, INDEX, target.removeprefix(ES_TARGET_PREFIX)
        if target.startswith(CLICKHOUSE_TARGET_PREFIX):
            name = target.removeprefix(CLICKHOUSE_TARGET_PREFIX)
            return "VITRINA_ALLOWED_CLICKHOUSE_TABLES", self.clickhouse, TABLE, name
        if ":" in target:
            return "VITRINA_ALLOWED_OTHER_TARGETS", self.others, PREFIXED, target
        return "VITRINA_ALLOWED_TARGET_TABLES", self.tables, TABLE, target


def split_prefix(target: str) -> tuple[str, str]:
    """`sqlite:films` as prefix and name."""
    match = PREFIXED.fullmatch(target)
    if not match:
        raise ConfigError(f"target {target!r} is no prefix:name of plain lower-case names")
    return match[1], match[2]


def is_allowed_target(target: str, whitelist: Whitelist) -> bool:
    """Whether a pipeline may write to `target`; API and writers both ask here."""
    _, patterns, form, name = whitelist.rule(target)
    return bool(form.fullmatch(name)) and any(fnmatchcase(name, pattern) for pattern in patterns)


def require_allowed_target(target: str, whitelist: Whitelist) -> None:
    """Raise a ConfigError that names the setting unless the target is allowed."""
    if is_allowed_target(target, whitelist):
        return
    setting, patterns, _, _ = whitelist.rule(target)
    allowed = ", ".join(patterns) or "nothing"
    raise ConfigError(
        f"target {target!r} is not allowed: {setting} allows {allowed}",
        f"name a target that matches, or widen {setting}",
    )


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
        raise ConfigError(f"target {target!r} is no schema.table of plain lower-case names")
    return match[1], match[2]

"""The shape of an index: the mapping and settings it is created with."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from vitrina.domain.errors import ConfigError
from vitrina.domain.mart_refusals import MartRefusal
from vitrina.domain.pipeline import Plan
from vitrina.sinks.documents.shape import Shape, check_key, digest_of
from vitrina.sinks.search.types import KEYWORD, NESTED, TEXT, mapping_of
from vitrina.sql.describe import Column
from vitrina.sql.lists import builds_lists

PARTS = ("properties", "fields")  # of a field: what is in it, and other ways in which it is indexed
MOST_FIELDS = 1_000  # of an index, unless its settings say otherwise
REFRESH_SECONDS = 1.0  # between two refreshes of an index, unless its settings say otherwise
REFRESH_TAKES = 0.5  # seconds at most, unless it is overloaded
UNITS = {"nanos": 1e-9, "micros": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
OURS = ("refresh_interval", "number_of_replicas", "auto_expand_replicas")  # put off while an index is loaded


@dataclass(frozen=True)
class IndexShape(Shape):
    """What an index of such documents is like."""

    mapping: Mapping[str, Any]
    settings: Mapping[str, Any]

    @classmethod
    def of(cls, plan: Plan, columns: Sequence[Column]) -> Self:
        """From what the query (or the last transform) gives, and what the pipeline says about it."""
        check_key(columns, plan)
        _check_names([c.name for c in columns], plan)
        lists = builds_lists(plan.select)
        derived = {c.name: _field(c, plan.key, lists) for c in columns}
        settings = plan.settings.get("index", {}) | {k: v for k, v in plan.settings.items() if k != "index"}
        _check_fields(derived | plan.mapping, settings)
        return cls(tuple(columns), plan.key, plan.cursor or (), derived | plan.mapping, settings)

    @property
    def body(self) -> dict[str, Any]:
        """What an index is created with. Unknown fields are refused, so that a mapping never grows by itself."""
        loading = {"refresh_interval": "-1", "number_of_replicas": 0}
        kept = {name: value for name, value in self.settings.items() if name not in OURS}
        # A delete's version is remembered for this long: longer than any request can be on its way.
        settings = {"gc_deletes": "1h"} | kept | loading
        return {"settings": {"index": settings}, "mappings": {"dynamic": "strict", "properties": dict(self.mapping)}}

    @property
    def serving(self) -> dict[str, Any]:
        """The settings that were put off, for when it is loaded."""
        given = {name: self.settings[name] for name in OURS if name in self.settings}
        replicas = {} if "number_of_replicas" in given else {"auto_expand_replicas": "0-1"}
        return {"index": {"refresh_interval": None} | replicas | given}

    @property
    def seen_after(self) -> float | None:
        """Seconds until a search sees what was written; None: not by itself."""
        found = re.fullmatch(r"(\d+)(nanos|micros|ms|s|m|h|d)", str(self.settings.get("refresh_interval", "1s")))
        return int(found[1]) * UNITS[found[2]] + REFRESH_TAKES if found else None

    @property
    def fingerprint(self) -> str:
        """Changes when another index is needed."""
        return digest_of(self.body, self.serving, self.key)


def _check_fields(mapping: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
    """A server refuses an index with more fields than it allows; by then a run has begun."""
    allowed = settings.get("mapping.total_fields.limit") or _limit_within(settings) or MOST_FIELDS
    fields = count_fields(mapping)
    if str(allowed).isdigit() and fields > int(allowed):
        raise ConfigError.of(MartRefusal.TOO_MANY_FIELDS, fields=fields, allowed=int(allowed))


def _limit_within(settings: Mapping[str, Any]) -> Any:
    found: Any = settings
    for name in ("mapping", "total_fields", "limit"):
        found = found.get(name) if isinstance(found, Mapping) else None
    return found


def count_fields(properties: Mapping[str, Any]) -> int:
    """As the server counts them: objects, what is in them, and a field that is indexed in several ways."""
    inner = [spec.get(part) or {} for spec in properties.values() if isinstance(spec, Mapping) for part in PARTS]
    return len(properties) + sum(count_fields(found) for found in inner)


def _field(column: Column, key: Sequence[str], lists: frozenset[str]) -> dict[str, Any]:
    mapping = mapping_of(column.type)
    if mapping == TEXT and column.name in key:
        return KEYWORD
    return NESTED if mapping.get("type") == "object" and column.name in lists else mapping


def _check_names(names: Sequence[str], plan: Plan) -> None:
    unknown = sorted(set(plan.mapping) - set(names))
    if unknown:
        raise ConfigError.of(MartRefusal.MAPPING_NOT_GIVEN, fields=unknown)
    dotted = [name for name in names if "." in name or name.startswith("_") or not name.strip()]
    if dotted:
        raise ConfigError.of(MartRefusal.NO_FIELD_NAME, column=dotted[0])

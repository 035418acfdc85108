"""The shape of an index: the mapping and settings it is created with, and the SQL that builds its documents."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from psycopg import sql

from vitrina.domain.errors import ConfigError
from vitrina.domain.pipeline import Plan
from vitrina.sinks.elasticsearch.types import KEYWORD, NESTED, TEXT, FieldType
from vitrina.sql.describe import Column
from vitrina.sql.lists import builds_lists

DOCUMENT = "vitrina_doc"
COMMA = sql.SQL(", ")
# Canonical text of a key, for types whose equal values can be written in several ways.
CANONICAL = {
    "numeric": "trim_scale({})::text",
    "real": "({} + 0::real)::text",
    "double precision": "({} + 0)::text",
    "citext": "lower({}::text)",
    "bytea": "encode({}, 'hex')",
}
# Types with equal values that have no such text: the same key would be two documents.
LOOSE = {"interval", "jsonb", "numrange", "nummultirange"}
PARTS = ("properties", "fields")  # of a field: what is in it, and other ways in which it is indexed
MOST_FIELDS = 1_000  # of an index, unless its settings say otherwise
OURS = ("refresh_interval", "number_of_replicas", "auto_expand_replicas")  # put off while an index is loaded


@dataclass(frozen=True)
class Shape:
    """What the documents of one pipeline look like."""

    columns: tuple[Column, ...]
    key: tuple[str, ...]
    cursor: tuple[str, ...]
    mapping: Mapping[str, Any]
    settings: Mapping[str, Any]

    @classmethod
    def of(cls, plan: Plan, columns: Sequence[Column]) -> "Shape":
        """From what the query (or the last transform) gives, and what the pipeline says about it."""
        names = [c.name for c in columns]
        _check_names(names, plan)
        _check_key(columns, plan)
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
    def fingerprint(self) -> str:
        """Changes when another index is needed."""
        return hashlib.sha256(json.dumps([self.body, self.serving, self.key], sort_keys=True).encode()).hexdigest()[:16]

    @property
    def read_columns(self) -> tuple[Column, ...]:
        """What is read when the source builds the documents: the key, the cursor, the document."""
        needed = {*self.key, *self.cursor}
        return (*(c for c in self.columns if c.name in needed), Column(DOCUMENT, "text"))

    def select(self, select: str) -> str:
        """The user's SELECT, each row with its document: built where the data is, as the reader."""
        kept = [c.name for c in self.read_columns[:-1]]
        return self._with_documents(kept, sql.SQL("(\n{}\n)").format(sql.SQL(select))).as_string(None)

    def documents(self, rows: sql.Composable) -> sql.Composed:
        """The same over rows that are here already: staged, after transforms."""
        return sql.SQL("({})").format(self._with_documents(self.key, rows))

    def id_of(self, alias: str) -> sql.Composed:
        """The `_id` of a row: its key as text; the parts of a composite one escaped and joined by `|`."""
        parts = [self._key_text(alias, name) for name in self.key]
        if len(parts) == 1:
            return parts[0]
        escaped = [sql.SQL(r"replace(replace({}, '\', '\\'), '|', '\|')").format(part) for part in parts]
        return sql.SQL("concat_ws('|', {})").format(COMMA.join(escaped))

    def _key_text(self, alias: str, name: str) -> sql.Composed:
        column = sql.SQL("{}.{}").format(sql.SQL(alias), sql.Identifier(name))
        kind = FieldType.of(next(c.type for c in self.columns if c.name == name))
        return sql.SQL(CANONICAL.get(kind.element, "{}::text")).format(column)

    def _with_documents(self, kept: Sequence[str], rows: sql.Composable) -> sql.Composed:
        """Keys and cursors as they are, because rows are found by them, and beside them the document."""
        fields = [sql.SQL("{} AS {}").format(_value(c), c.identifier) for c in self.columns]
        text = "SELECT {}, pg_catalog.row_to_json(d.*)::text AS {} FROM {} AS q CROSS JOIN LATERAL (SELECT {}) AS d"
        names = COMMA.join(sql.SQL("q.{}").format(sql.Identifier(name)) for name in kept)
        return sql.SQL(text).format(names, sql.Identifier(DOCUMENT), rows, COMMA.join(fields))


def _check_fields(mapping: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
    """Elasticsearch refuses an index with more fields than it allows; by then a run has begun."""
    allowed = settings.get("mapping.total_fields.limit") or _limit_within(settings) or MOST_FIELDS
    fields = count_fields(mapping)
    if str(allowed).isdigit() and fields > int(allowed):
        raise ConfigError(
            f"the documents have {fields:,} fields, with those in other fields, and the index allows {int(allowed):,}",
            f"leave some out, or raise settings: {{mapping.total_fields.limit: {fields}}}",
        )


def _limit_within(settings: Mapping[str, Any]) -> Any:
    found: Any = settings
    for name in ("mapping", "total_fields", "limit"):
        found = found.get(name) if isinstance(found, Mapping) else None
    return found


def count_fields(properties: Mapping[str, Any]) -> int:
    """As Elasticsearch counts them: objects, what is in them, and a field that is indexed in several ways."""
    inner = [spec.get(part) or {} for spec in properties.values() if isinstance(spec, Mapping) for part in PARTS]
    return len(properties) + sum(count_fields(found) for found in inner)


def _value(column: Column) -> sql.Composable:
    return FieldType.of(column.type).value(sql.SQL("q.{}").format(column.identifier))


def _field(column: Column, key: Sequence[str], lists: frozenset[str]) -> dict[str, Any]:
    mapping = FieldType.of(column.type).mapping
    if mapping == TEXT and column.name in key:
        return KEYWORD
    return NESTED if mapping.get("type") == "object" and column.name in lists else mapping


def _check_key(columns: Sequence[Column], plan: Plan) -> None:
    if not plan.key:
        raise ConfigError("the pipeline names no key", "set key: [column, …]; it becomes the _id of a document")
    for column in columns:
        kind = FieldType.of(column.type)
        loose = kind.element in LOOSE or (kind.is_array and kind.element in CANONICAL)
        if column.name in plan.key and loose:
            raise ConfigError(
                f"key column {column.name} is of type {column.type}, in which one value can be written in several ways",
                f"cast it in the query: CAST({column.name} AS text)",
            )


def _check_names(names: Sequence[str], plan: Plan) -> None:
    missing = [name for name in plan.key if name not in names]
    if missing:
        raise ConfigError(f"key column {', '.join(missing)} is not in the query", f"it gives {', '.join(names)}")
    unknown = sorted(set(plan.mapping) - set(names))
    if unknown:
        raise ConfigError(f"mapping names {', '.join(unknown)}, which the query does not give", "correct the name")
    dotted = [name for name in names if "." in name or name.startswith("_") or not name.strip()]
    if dotted:
        raise ConfigError(f"column {dotted[0]!r} cannot be a field of an index", "give it another name with AS")

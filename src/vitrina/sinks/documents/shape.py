"""The shape of documents: the SQL that builds one from a row, and the id that it is kept under."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from typing import Self

from psycopg import sql

from vitrina.domain.errors import ConfigError
from vitrina.domain.mart_refusals import MartRefusal
from vitrina.domain.pipeline import Plan
from vitrina.sinks.documents.types import FieldType, checked_type
from vitrina.sql.describe import Column

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


@dataclass(frozen=True)
class Shape:
    """What the documents of one pipeline look like."""

    columns: tuple[Column, ...]
    key: tuple[str, ...]
    cursor: tuple[str, ...]

    @classmethod
    def of(cls, plan: Plan, columns: Sequence[Column]) -> Self:
        """From what the query (or the last transform) gives; a ConfigError if its key cannot be an id."""
        check_key(columns, plan)
        return cls(tuple(columns), plan.key, plan.cursor or ())

    @property
    def fingerprint(self) -> str:
        """Changes when another set of documents is needed."""
        return digest_of([[c.name, *astuple(FieldType.of(c.type))] for c in self.columns], self.key)

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

    def value(self, column: Column) -> sql.Composable:
        """Of a column, as `row_to_json` should see it."""
        return FieldType.of(column.type).value(sql.SQL("q.{}").format(column.identifier))

    def checked_type(self, type_: str) -> str:
        """As which type a check sees the value in a document."""
        return checked_type(type_)

    def _with_documents(self, kept: Sequence[str], rows: sql.Composable) -> sql.Composed:
        """Keys and cursors as they are, because rows are found by them, and beside them the document."""
        fields = [sql.SQL("{} AS {}").format(self.value(c), c.identifier) for c in self.columns]
        text = "SELECT {}, pg_catalog.row_to_json(d.*)::text AS {} FROM {} AS q CROSS JOIN LATERAL (SELECT {}) AS d"
        names = COMMA.join(sql.SQL("q.{}").format(sql.Identifier(name)) for name in kept)
        return sql.SQL(text).format(names, sql.Identifier(DOCUMENT), rows, COMMA.join(fields))


def digest_of(*parts: object) -> str:
    """A short one."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]


def check_key(columns: Sequence[Column], plan: Plan) -> None:
    """A ConfigError unless every row has one id, and the same row always has the same."""
    if not plan.key:
        raise ConfigError.of(MartRefusal.NO_ID)
    names = [c.name for c in columns]
    missing = [name for name in plan.key if name not in names]
    if missing:
        raise ConfigError.of(MartRefusal.KEY_NOT_IN_QUERY, columns=missing, given=sorted(names))
    for column in columns:
        kind = FieldType.of(column.type)
        loose = kind.element in LOOSE or (kind.is_array and kind.element in CANONICAL)
        if column.name in plan.key and loose:
            raise ConfigError.of(MartRefusal.ID_LOOSE, column=column.name, type=column.type)

"""The tables of a mart in ClickHouse, by name and by statement.

Of the mart `cinema.film_dim`, with sets `film_dim-000001` and so on:

- `film_dim-000001-e5` holds the rows; who took the mart with epoch 5 writes to that name, and the next renames it;
- `film_dim-000001` shows them, whatever the epoch is (engine Merge), and says in its comment whose it is;
- `film_dim` is a view of those that are there now, and what people read.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from vitrina.domain.policy import split_table
from vitrina.sinks.clickhouse.types import ORDERED, Kind

OURS = "vitrina_"
ID, VERSION, DELETED = "vitrina_id", "vitrina_version", "vitrina_deleted"
OWN = f"{ID} String, {VERSION} UInt64, {DELETED} UInt8"
ALIVE = f"FINAL WHERE {DELETED} = 0"
ESCAPED = re.compile(r"\\(.)")
PARTS = re.compile(r"(?:\\.|[^|\\])*", re.DOTALL)


@dataclass(frozen=True)
class TypedColumn:
    """One column, with the Postgres type that it comes from."""

    name: str
    type: str

    @property
    def kind(self) -> Kind:
        """What ClickHouse makes of it."""
        return Kind.of(self.type)

    @property
    def quoted(self) -> str:
        """As a name."""
        return quote(self.name)


@dataclass(frozen=True)
class Sheet:
    """The columns of a mart and its key."""

    columns: tuple[TypedColumn, ...]
    key: tuple[str, ...]

    @property
    def definitions(self) -> list[str]:
        """Of the mart's own columns; a comment has the type in Postgres."""
        return [
            f"{c.quoted} {c.kind.column(is_key=c.name in self.key)} COMMENT {literal(c.type)}" for c in self.columns
        ]

    @property
    def order(self) -> list[str]:
        """The columns that a table is ordered by before the id: those that a deleted row's id tells."""
        kinds = {c.name: c.kind.field for c in self.columns}
        return [n for n in self.key if kinds[n].element in ORDERED and not kinds[n].is_array]

    def tombstone(self, id_: str) -> dict[str, str]:
        """Of a deleted row, what the table is ordered by."""
        parts = [ESCAPED.sub(r"\1", part) for part in split(id_)] if len(self.key) > 1 else [id_]
        return {name: part for name, part in zip(self.key, parts, strict=True) if name in self.order}


def split(id_: str) -> list[str]:
    """An id of several columns: its parts, still escaped."""
    found, at = [], 0
    while True:
        part = PARTS.match(id_, at)
        assert part is not None
        found.append(part[0])
        at = part.end() + 1
        if at > len(id_):
            return found


@dataclass(frozen=True)
class Note:
    """What the comment of a set says."""

    owner: str
    key: tuple[str, ...] = ()

    @classmethod
    def read(cls, comment: str) -> "Note":
        """Nobody's, if it is another comment."""
        try:
            told = json.loads(comment)["vitrina"]
            return cls(str(told["pipeline"]), tuple(told["key"]))
        except (ValueError, TypeError, KeyError):
            return cls("")

    @property
    def comment(self) -> str:
        """As it is kept."""
        return json.dumps({"vitrina": {"pipeline": self.owner, "key": self.key}})


@dataclass(frozen=True)
class Names:
    """Of one mart, `database.table`."""

    database: str
    table: str

    @classmethod
    def of(cls, mart: str) -> "Names":
        """From the target without its prefix."""
        return cls(*split_table(mart))

    def full(self, table: str) -> str:
        """A table of this database, in a statement."""
        return f"{quote(self.database)}.{quote(table)}"

    @property
    def view(self) -> str:
        """What people read."""
        return self.full(self.table)

    def set(self, name: str) -> str:
        """The table's own name of a set, `database.table-000001`."""
        return name.removeprefix(f"{self.database}.")

    def rows(self, name: str, epoch: int) -> str:
        """Where this epoch writes."""
        return f"{self.set(name)}-e{epoch}"

    def stage(self, owner: str, epoch: int) -> str:
        """A view that is about to be the mart's."""
        return f"{self.table}-next-{owner[:8]}-e{epoch}"

    def epoch_of(self, table: str, name: str) -> int | None:
        """Whose name this is for the rows of a set; None: it is another table."""
        found = re.fullmatch(rf"{re.escape(self.set(name))}-e(\d+)", table)
        return int(found[1]) if found else None

    def sets_in(self, select: str) -> list[str]:
        """The sets that a view reads."""
        found = re.findall(rf"{re.escape(self.database)}`?\.`({re.escape(self.table)}-\d+)`", select)
        return [f"{self.database}.{name}" for name in dict.fromkeys(found)]

    # ── statements ───────────────────────────────────────────────────────────────────────────────────────────

    def create(self, name: str, sheet: Sheet, note: Note, epoch: int) -> list[str]:
        """A set, empty: first what says whose it is."""
        columns = ", ".join([*sheet.definitions, OWN])
        shown = literal(f"^{self.set(name)}-e[0-9]+$")  # in a name of ours no character means another
        order = ", ".join([*map(quote, sheet.order), ID])
        return [
            f"CREATE TABLE {self.full(self.set(name))} ({columns})"
            f" ENGINE = Merge({literal(self.database)}, {shown}) COMMENT {literal(note.comment)}",
            f"CREATE TABLE {self.full(self.rows(name, epoch))} ({columns}, INDEX by_id {ID} TYPE bloom_filter)"
            f" ENGINE = ReplacingMergeTree({VERSION}, {DELETED}) ORDER BY ({order})",
        ]

    def show(self, stage: str, name: str, columns: Sequence[TypedColumn]) -> str:
        """The view of a set: its rows as they are now, without what is ours."""
        shown = ", ".join(c.quoted for c in columns)
        return f"CREATE OR REPLACE VIEW {self.full(stage)} AS SELECT {shown} FROM {self.full(self.set(name))} {ALIVE}"

    def insert(self, name: str, epoch: int) -> str:
        """Rows as JSON, all of them or none, through the name of an epoch."""
        settings = ", ".join(f"{setting} = {value}" for setting, value in READING.items())
        return f"INSERT INTO {self.full(self.rows(name, epoch))} SETTINGS {settings} FORMAT JSONEachRow"

    def drop(self, table: str) -> str:
        """However large."""
        return f"DROP TABLE IF EXISTS {self.full(table)} SETTINGS max_table_size_to_drop = 0"


# Nothing is made up, left out or rounded; and what belongs together is one part of the table.
READING: dict[str, Any] = {
    "input_format_skip_unknown_fields": 0,
    "input_format_null_as_default": 0,
    "input_format_parallel_parsing": 0,
    "precise_float_parsing": 1,
    "date_time_input_format": "'best_effort'",
    "async_insert": 0,
    "max_insert_block_size": 10_000_000,
}


@dataclass(frozen=True)
class Found:
    """A table that is there."""

    name: str
    engine: str
    uuid: str
    comment: str = ""
    select: str = field(default="", repr=False)


def quote(name: str) -> str:
    """A name, in a statement."""
    return "`" + name.replace("\\", "\\\\").replace("`", "\\`") + "`"


def literal(text: str) -> str:
    """A text, in a statement."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"

"""One mart in ClickHouse: sets of rows, what keeps a lost runner out of them, and the view that people read.

Rows replace each other by version, whatever the order in which they arrive (ReplacingMergeTree), so that a batch sent
twice is the same as once. A deleted row stays as a tombstone for as long as its set, so nothing older rises again.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from vitrina.domain.errors import ConfigError, FatalError, RetryableError
from vitrina.sinks.clickhouse.client import ClickHouse, NotThere, Taken, Unreadable
from vitrina.sinks.clickhouse.tables import (
    ALIVE,
    DELETED,
    ID,
    OURS,
    VERSION,
    Found,
    Names,
    Note,
    Sheet,
    TypedColumn,
    literal,
)
from vitrina.stores import Batch, Document, Field, Mark, Store, Superseded

LOOKS = 5  # at what is there, when it changes meanwhile
REMEDY = (
    "times from 1900 to 2299, no NaN in a numeric, arrays of one dimension and not NULL (coalesce(tags, '{}'));"
    " or cast the column to text in the query"
)


class ClickHouseStore(Store):
    """What one pipeline does to its tables. Without a sheet, it makes none."""

    senders = 2

    def __init__(
        self, server: ClickHouse, mart: str, sheet: Sheet | None = None, check: Callable[[], None] = lambda: None
    ) -> None:
        self.server = server
        self.names = Names.of(mart)
        self.sheet = sheet
        self._check = check
        self._known: dict[str, Sheet] = {}

    # ── sets ─────────────────────────────────────────────────────────────────────────────────────────────────

    def mark(self, name: str) -> Mark | None:
        """Whose its comment says it is, and the uuid of the table of its rows, which a renaming leaves as it is."""
        return self._mark(name, self._tables())

    def served(self) -> Mapping[str, Mark]:
        """The sets that the view reads; whatever else has the mart's name is somebody else's."""
        tables = self._tables()
        found = tables.get(self.names.table)
        if found is None:
            return {}
        marks = {name: self._mark(name, tables) for name in self.names.sets_in(found.select)}
        ours = {name: mark for name, mark in marks.items() if mark}
        return ours or {f"{self.names.database}.{self.names.table}": Mark("", found.uuid)}

    def create(self, name: str, mark: Mark, fields: Sequence[Field], epoch: int) -> None:
        """Its tables; its uuid is its own."""
        del fields
        assert self.sheet is not None
        found = self.mark(name)
        if found and found.owner != mark.owner:
            raise RetryableError(f"somebody else has just created {name}")
        if found:  # begun by a run that was lost before it could say so
            self.drop(name)
        for statement in self.names.create(name, self.sheet, Note(mark.owner, self.sheet.key), epoch):
            self.server.run(statement)

    def take(self, name: str, epoch: int) -> None:
        """Rename the tables that earlier epochs write to, and remove what they were about to show."""
        for _ in range(LOOKS):
            tables = self._tables()
            owner = self._owner(name, tables)
            held = [*self._held(owner, tables)]
            if not any(self.names.set(name) == set_ for set_, _, _ in held):
                raise RetryableError(f"the rows of {name} are gone")
            if any(other > epoch for _, other, _ in held):
                raise Superseded(f"{name} was taken over by a later epoch")
            older = [(set_, table) for set_, other, table in held if other < epoch]
            with suppress(NotThere, Taken):  # somebody else was at it: look again
                for set_, table in older:
                    self._rename(table, self.names.rows(set_, epoch))
                for stage in self._staged(owner, epoch, tables):
                    self.server.run(self.names.drop(stage))
                return
            self._check()
        raise RetryableError(f"the tables of {name} are renamed by somebody else, again and again")

    def serve(self, name: str, epoch: int) -> None:
        """Make a view ready, look whether the mart is still ours, and let the view take the place of the served one.

        Who takes over renames first and then removes what was ready: either we see that, or nothing is there to show.
        """
        self._refuse_table()
        owner = self._owner(name, self._tables())
        stage = self.names.stage(owner, epoch)
        self.server.run(self.names.show(stage, name, self._sheet_of(name).columns))
        if self.names.rows(name, epoch) not in self._tables():
            self.server.run(self.names.drop(stage))
            raise Superseded(f"{name} was taken over")
        self._switch(stage)
        self.server.run(self.names.drop(stage))  # by now the view that was served before

    def _switch(self, stage: str) -> None:
        for _ in range(LOOKS):
            tables = self._tables()
            if stage not in tables:
                raise Superseded(f"{stage} was removed by whoever took over")
            with suppress(NotThere, Taken):
                if self.names.table in tables:
                    self.server.run(f"EXCHANGE TABLES {self.names.full(stage)} AND {self.names.view}")
                else:
                    self._rename(stage, self.names.table)
                return
            self._check()
        raise RetryableError(f"{self.names.view} is renamed by somebody else, again and again")

    def drop(self, name: str) -> None:
        """The rows, and then what says whose they are."""
        for table in self._tables():
            if self.names.epoch_of(table, name) is not None:
                self.server.run(self.names.drop(table))
        self.server.run(self.names.drop(self.names.set(name)))
        self._known.pop(name, None)

    # ── rows ─────────────────────────────────────────────────────────────────────────────────────────────────

    def write(self, name: str, batch: Batch, epoch: int) -> None:
        """Through the epoch's own name, which is gone once somebody has taken over."""
        sheet = self._sheet_of(name)
        lines = [_line(id_, text, batch.version, sheet) for id_, text in batch.pairs()]
        try:
            self.server.run(self.names.insert(name, epoch), b"".join(lines))
        except NotThere as error:
            raise Superseded(f"{self.names.rows(name, epoch)} is gone") from error
        except Unreadable as error:
            raise _refused(error, batch) from error

    def read(self, name: str) -> Iterator[Document]:
        """As readers see it now."""
        return self._documents(name, "")

    def find(self, name: str, ids: Sequence[str]) -> Iterator[Document]:
        """By id."""
        return self._documents(name, f" AND {ID} IN ({', '.join(map(literal, ids))})") if ids else iter(())

    def count(self, name: str) -> int:
        """Those that are not deleted."""
        table = self.names.full(self.names.set(name))
        return int(self.server.rows(f"SELECT count() FROM {table} {ALIVE}")[0][0])

    def close(self) -> None:
        """Its connections."""
        self.server.close()

    def _documents(self, name: str, condition: str) -> Iterator[Document]:
        """Put together from the columns, in the very words in which Postgres had sent them."""
        columns = self._sheet_of(name).columns
        kinds = [(json.dumps(c.name, ensure_ascii=False), c.kind) for c in columns]
        selected = ", ".join([ID, VERSION, *(c.kind.selected(c.quoted) for c in columns)])
        query = f"SELECT {selected} FROM {self.names.full(self.names.set(name))} {ALIVE}{condition}"
        for id_, version, *values in self.server.stream(query):
            fields = (f"{n}:{kind.render(value)}" for (n, kind), value in zip(kinds, values, strict=True))
            yield Document(id_, version, "{" + ",".join(fields) + "}")

    # ── what is there ────────────────────────────────────────────────────────────────────────────────────────

    def _tables(self) -> dict[str, Found]:
        """The view of the mart, and all whose names begin with it."""
        database, table = literal(self.names.database), literal(self.names.table)
        query = (
            "SELECT name, engine, toString(uuid), comment, as_select FROM system.tables"
            f" WHERE database = {database} AND (name = {table} OR startsWith(name, concat({table}, '-')))"
        )
        return {row[0]: Found(*row) for row in self.server.rows(query)}

    def _mark(self, name: str, tables: Mapping[str, Found]) -> Mark | None:
        found = tables.get(self.names.set(name))
        if found is None:
            return None
        rows = next((t for t in tables.values() if self.names.epoch_of(t.name, name) is not None), None)
        return Mark(Note.read(found.comment).owner, rows.uuid if rows else "")

    def _owner(self, name: str, tables: Mapping[str, Found]) -> str:
        found = tables.get(self.names.set(name))
        if found is None:
            raise RetryableError(f"{name} is gone")
        return Note.read(found.comment).owner

    def _held(self, owner: str, tables: Mapping[str, Found]) -> Iterator[tuple[str, int, str]]:
        """Of each set of an owner: its name, the epoch that may write to it, and the table of its rows."""
        for found in tables.values():
            if found.engine == "Merge" and Note.read(found.comment).owner == owner:
                for table in tables:
                    epoch = self.names.epoch_of(table, found.name)
                    if epoch is not None:
                        yield found.name, epoch, table

    def _staged(self, owner: str, epoch: int, tables: Mapping[str, Found]) -> Iterator[str]:
        prefix = self.names.stage(owner, 0).removesuffix("0")
        for table in tables:
            number = table.removeprefix(prefix)
            if table.startswith(prefix) and number.isdigit() and int(number) < epoch:
                yield table

    def _sheet_of(self, name: str) -> Sheet:
        if name not in self._known:
            self._known[name] = self._look_up(name)
        return self._known[name]

    def _look_up(self, name: str) -> Sheet:
        table = self.names.set(name)
        query = (
            "SELECT name, comment FROM system.columns"
            f" WHERE database = {literal(self.names.database)} AND table = {literal(table)} ORDER BY position"
        )
        columns = [TypedColumn(*row) for row in self.server.rows(query) if not row[0].startswith(OURS)]
        found = self._tables().get(table)
        if found is None or not columns:
            raise RetryableError(f"{name} is gone")
        return Sheet(tuple(columns), Note.read(found.comment).key)

    def _refuse_table(self) -> None:
        found = self._tables().get(self.names.table)
        if found and found.engine != "View":
            other = f"{self.names.full(self.names.table + '_before')}"
            remedy = f"rename or drop it: RENAME TABLE {self.names.view} TO {other}"
            raise ConfigError(f"{self.names.view} is a table of somebody else's", remedy)

    def _rename(self, table: str, to: str) -> None:
        self.server.run(f"RENAME TABLE {self.names.full(table)} TO {self.names.full(to)}")


def _line(id_: bytes, text: bytes, version: int, sheet: Sheet) -> bytes:
    """A row as JSON: the document with what is ours before it, or a tombstone."""
    if text:
        return b'{"%s":%s,"%s":%d,%s\n' % (ID.encode(), id_, VERSION.encode(), version, text[1:])
    told: dict[str, Any] = {ID: json.loads(id_), VERSION: version, DELETED: 1}
    return json.dumps(told | sheet.tombstone(told[ID])).encode() + b"\n"


def _refused(error: Unreadable, batch: Batch) -> FatalError:
    """With the row's own name."""
    if error.row is None or error.row > len(batch):
        return FatalError(error.message, REMEDY)
    documents = [document.id for document in batch]
    return FatalError(f"row {documents[error.row - 1]}: {error.message}", REMEDY)

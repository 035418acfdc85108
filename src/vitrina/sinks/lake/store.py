"""The tables of one mart in the lake: where each edition is, and what it holds. Runs write them by `delivery.py`."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING
from uuid import UUID

from vitrina.domain.errors import RetryableError
from vitrina.domain.policy import split_prefix, split_table
from vitrina.meta.db import Connection
from vitrina.sinks.lake import catalogue
from vitrina.sinks.lake.catalogue import BUILDING, SERVED, Pointer
from vitrina.sinks.lake.extra import iceberg
from vitrina.sinks.lake.place import Place, spelled
from vitrina.sinks.lake.shape import LakeShape
from vitrina.sinks.parquet.writer import VERSION
from vitrina.stores import Batch, Document, Field, Mark, Store

if TYPE_CHECKING:
    from vitrina.sinks.lake.iceberg import LakeTable


class LakeStore(Store):
    """A folder for each edition; one of them is served, by a row of the warehouse."""

    def __init__(self, place: Place, pipeline_id: UUID, target: str, shape: LakeShape | None) -> None:
        self.place = place
        self.pipeline_id = pipeline_id
        self.shape = shape
        _, self.mart = split_prefix(target)
        namespace, table = split_table(self.mart)
        self.served_at = Pointer(SERVED, namespace, table)
        self.built_at = Pointer(BUILDING, namespace, table)
        self.conn: Connection | None = None  # of who is in no transaction
        self.tables: dict[str, LakeTable] = {}
        self.serving: str | None = None

    def look(self, conn: Connection) -> None:
        """Where the pointers are now. One to a table that is lost points to none: then there has to be another."""
        self.tables, self.serving = {}, None
        for pointer in (self.built_at, self.served_at):
            if location := catalogue.find(conn, pointer):
                self._note(pointer, location)

    def _note(self, pointer: Pointer, location: str) -> None:
        name, is_read = self._name_of(location), self.place.reads(location)
        table = self._open(location) if is_read else None
        if table is not None:
            self.tables[name] = table
        if pointer == self.served_at and (table is not None or not is_read):
            self.serving = name

    def _open(self, location: str) -> "LakeTable | None":
        """None if there is no such file, and yet the place where it belongs."""
        try:
            with self.place.reaching():
                table: LakeTable = iceberg().LakeTable.open(self.place.files, location)
                return table
        except RetryableError as error:
            if not isinstance(error.__cause__, FileNotFoundError):
                raise
            with self.place.reaching():
                error.remedy = self.place.files.doubt(self.folder(self.mart))
            if error.remedy:
                raise
            return None

    def folder(self, name: str) -> str:
        """Of an edition."""
        return f"{self.place.url}/{name.replace('.', '/', 1)}"

    def _name_of(self, location: str) -> str:
        """The edition whose file that is; the mart's own name, if it is in no folder of ours."""
        namespace, _, table = self.mart.partition(".")
        found = re.fullmatch(
            rf"/{namespace}/({table}-\d+)/metadata/[^/]+", spelled(location).removeprefix(self.place.url)
        )
        return f"{namespace}.{found[1]}" if found else self.mart

    def table(self, name: str) -> "LakeTable | None":
        """As it is now: as far as a pointer says, else as it was begun."""
        if name not in self.tables:
            with self.place.reaching():
                found = iceberg().newest_in(self.place.files, self.folder(name))
            if found is None:
                return None
            self.tables[name] = found
        return self.tables[name]

    def _table(self, name: str) -> "LakeTable":
        found = self.table(name)
        if found is None:
            raise RetryableError(f"lake table {name} is gone")
        return found

    # ── what a store does ────────────────────────────────────────────────────────────────────────────────────

    def mark(self, name: str) -> Mark | None:
        """Whose it says it is, and its uuid."""
        table = self.table(name)
        return Mark(table.owner, table.id) if table else None

    def served(self) -> Mapping[str, Mark]:
        """The one that the catalogue shows."""
        if self.serving is None:
            return {}
        return {self.serving: self.mark(self.serving) or Mark("", "")}

    def create(self, name: str, mark: Mark, fields: Sequence[Field], epoch: int) -> None:
        """Nobody points to it yet."""
        del fields, epoch
        assert self.shape is not None
        with self.place.reaching():
            self.place.files.remove(self.folder(name))
            self.tables[name] = iceberg().LakeTable.create(self.place.files, self.folder(name), self.shape, mark.owner)

    def take(self, name: str, epoch: int) -> None:
        """The fence of the checkpoint is the fence of the lake."""

    def serve(self, name: str, epoch: int) -> None:
        """The pointer moves in the step that says so."""

    def write(self, name: str, batch: Batch, epoch: int) -> None:
        """Nothing is written outside of a step."""
        raise NotImplementedError(f"{name} is written by the steps of a run")

    def read(self, name: str) -> Iterator[Document]:
        """Every row, as the text that it came as."""
        assert self.shape is not None
        from vitrina.sinks.parquet.rows import to_texts

        with self.place.reaching():
            for rows in self._table(name).read():
                for id_, text in to_texts(self.shape, rows):
                    yield Document(id_, VERSION, text)

    def count(self, name: str) -> int:
        """By what the table says of its files."""
        with self.place.reaching():
            return self._table(name).count()

    def drop(self, name: str) -> None:
        """Its folder, and what points there."""
        self.tables.pop(name, None)
        if self.conn:
            catalogue.forget(self.conn, self.folder(name))
        with self.place.reaching():
            self.place.files.remove(self.folder(name))

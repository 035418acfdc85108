"""A version that is being written: files of Parquet, as few as there need be, and what of the version before stays.

Rows come in batches and keys go with them. What was there before is looked at once, when all is known: a file that has
none of these keys is taken over as it is, the others are written anew, and small ones with them.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from io import BytesIO
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from vitrina.sinks.files.manifest import Part
from vitrina.sinks.files.shelf import Shelf
from vitrina.sinks.parquet.keys import among
from vitrina.sinks.parquet.shape import RowShape
from vitrina.sinks.parquet.types import KeptType

PART_BYTES = 32_000_000  # of a file, as Arrow: what is in memory, once being gathered and once being written
VERSION = pa.__version__
SMALL_BYTES = 2_000_000  # of a file, which is better off in a larger one
# A uuid is text: not every reader of Parquet knows its kind.
ARROW = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "uuid": pa.string(),
    "date": pa.date32(),
    "time": pa.time64("us"),
    "timestamp": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us", tz="UTC"),
    "binary": pa.binary(),
}


def schema_of(shape: RowShape) -> Any:
    """Of its columns, as Arrow."""
    fields = [pa.field(c.name, _arrow(shape.type_of(c.name)), nullable=c.name not in shape.key) for c in shape.columns]
    return pa.schema(fields)


def _arrow(type_: KeptType) -> Any:
    element = ARROW.get(type_.kept) or pa.decimal128(*map(int, type_.kept.removeprefix("decimal(")[:-1].split(",")))
    return pa.list_(element) if type_.is_list else element


class Draft:
    """What a run has written of the next version, in a folder of its own that nobody knows of yet."""

    def __init__(self, shelf: Shelf, folder: str, schema: Any, base: Sequence[Part]) -> None:
        self.shelf = shelf
        self.folder = folder
        self.schema = schema
        self.base = base
        self.gathered: list[Any] = []
        self.gone: list[Any] = []  # keys, as they came
        self.written: list[tuple[Future[Part], int]] = []  # and how many keys had come by then
        self.pool = ThreadPoolExecutor(1, "parquet")

    def change(self, rows: Any, gone: Any) -> None:
        """These rows in the place of those whose keys are `gone`."""
        if gone.num_rows:
            self.gone.append(gone)
            self.gathered = [without(some, gone) for some in self.gathered]
        self.add(rows)

    def add(self, rows: Any) -> None:
        """Rows whose keys are not there."""
        if rows.num_rows:
            self.gathered.append(rows)
        if sum(some.nbytes for some in self.gathered) >= PART_BYTES:
            self._write_out()

    def _write_out(self) -> None:
        """Beside whatever comes next; one file at a time is enough to hold."""
        rows, self.gathered = pa.concat_tables([self._empty, *self.gathered]), []
        for part, _ in self.written[-1:]:
            part.result()
        self.written.append((self.pool.submit(self._write, rows), len(self.gone)))

    def _write(self, rows: Any) -> Part:
        file = BytesIO()
        pq.write_table(rows, file, compression="zstd")
        data = file.getvalue()
        part = Part(f"{self.folder}/part-{uuid4().hex[:12]}.parquet", rows.num_rows, len(data))
        self.shelf.put(part.path, data)
        return part

    @property
    def _empty(self) -> Any:
        return self.schema.empty_table()

    def finish(self) -> tuple[Part, ...]:
        """All of the version: there is one file at least, so that whoever reads it finds the columns."""
        own = [(part.result(), since) for part, since in self.written]
        self.written = []
        kept = [*self._settled(self.base, 0)]
        for part, since in own:
            kept += self._settled([part], since)
        if self.gathered or not (kept or self.written):
            self._write_out()
        return (*kept, *(part.result() for part, _ in self.written))

    def _settled(self, parts: Sequence[Part], since: int) -> Iterator[Part]:
        """Those that stay as they are; of the others, what is left is gathered."""
        gone = pa.concat_tables(self.gone[since:]) if self.gone[since:] else None
        for part in parts:
            is_own = part.folder == self.folder
            if (part.bytes < SMALL_BYTES and not is_own) or (gone and has_any(self.shelf, part, gone)):
                rows = read(self.shelf, part, self.schema)
                self.add(without(rows, gone) if gone else rows)
                if is_own:
                    self.shelf.remove([part.path])
            else:
                yield part if is_own else self._taken_over(part)

    def _taken_over(self, part: Part) -> Part:
        path = f"{self.folder}/{part.path.rpartition('/')[2]}"
        self.shelf.copy(part.path, path)
        return Part(path, part.rows, part.bytes)

    def close(self) -> None:
        """Whatever is still being written."""
        self.pool.shutdown()


@dataclass(frozen=True)
class Drafting:
    """A load into a draft; that there is something in it is all that its step has to know."""

    draft: Draft

    def add(self, rows: Any) -> None:
        """Some rows."""
        self.draft.add(rows)

    def close(self) -> Sequence[str]:
        """Where they are."""
        return [self.draft.folder]


def read(shelf: Shelf, part: Part, schema: Any) -> Any:
    """Its rows."""
    return pq.read_table(shelf.open(part.path), columns=schema.names).cast(schema)


def count(shelf: Shelf, part: Part) -> int:
    """How many rows it says that it has."""
    return int(pq.read_metadata(shelf.open(part.path)).num_rows)


def has_any(shelf: Shelf, part: Part, gone: Any) -> bool:
    """Whether one of these keys is in it."""
    keys = pq.read_table(shelf.open(part.path), columns=gone.column_names).cast(gone.schema)
    return bool(pc.any(among(keys, gone)).as_py())


def without(rows: Any, gone: Any) -> Any:
    """The rows but those with these keys."""
    return rows.filter(pc.invert(among(rows, gone)))

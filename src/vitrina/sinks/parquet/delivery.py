"""A mode around the mode, for rows in files: what a step wrote is kept until it ends, and goes where its kind says."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias

import pyarrow as pa

from vitrina.domain.positions import Position
from vitrina.engine.job import Job, Mode, Step, StepResult, execute
from vitrina.failpoints import reach
from vitrina.meta.db import Connection
from vitrina.sinks.documents.editions import Editions
from vitrina.sinks.parquet.loading import RowLoader
from vitrina.sinks.parquet.mirror import RowMirror
from vitrina.sinks.parquet.parsing import Text, to_arrow
from vitrina.sinks.parquet.writer import VERSION, RowWriter
from vitrina.stores import Store

Make: TypeAlias = Callable[[Job], Mode]


class RowDelivery(Mode, ABC):
    """The mode itself knows of nothing but the shadow."""

    mode: Mode | None = None  # once there is something to write to
    position: Position | None

    def __init__(self, job: Job, writer: RowWriter, make: Make, store: Store, editions: Editions) -> None:
        self.job = job
        self.writer = writer
        self._make = make
        self._mirrored = store
        self.editions = editions
        self.position = job.position

    @property
    @abstractmethod
    def _types(self) -> Any:
        """Of the columns, as Arrow."""

    @property
    @abstractmethod
    def _is_in_doubt(self) -> bool:
        """Whether what is there may not be what the shadow knows of it."""

    @abstractmethod
    def _loader(self, writer: RowWriter) -> RowLoader:
        """What fills a mart that is empty."""

    @abstractmethod
    def _write(self, rows: Any, keys: Any, conn: Connection) -> None:
        """Rows to add, and the keys of those that are replaced or gone."""

    @property
    def _doubts(self) -> bool:
        """Somebody asked to look at the files themselves; or has a reason to."""
        return not self.editions.is_new and (self.job.options.repair or self._is_in_doubt)

    def _open(self) -> Iterator[Step]:
        """An edition to write to, bound to what tells it from another of its name."""
        yield from self.editions.open()
        self.job, writer = self.editions.job, self.editions.writer
        assert isinstance(writer, RowWriter)
        self.editions.await_created()
        yield from self.editions.bind()
        self.writer = replace(writer, loader=self._loader(writer))
        self.job = replace(self.job, writer=self.writer)

    def _look(self) -> Iterator[Step]:
        """The shadow is made to know which rows are not there as it thinks they are."""
        if self._doubts:
            yield from RowMirror(self.job, self.writer, self._mirrored).steps()

    def _mode_steps(self, job: Job) -> Iterator[Step]:
        repair = self._doubts or self.editions.loads_all or job.options.repair
        self.mode = self._make(replace(job, options=replace(job.options, rebuild=False, repair=repair)))
        yield from self.mode.steps()

    # ── one step ─────────────────────────────────────────────────────────────────────────────────────────────

    def _keeping_position(self, steps: Iterator[Step]) -> Iterator[Step]:
        """Steps around the mode leave the checkpoint where it is."""
        for step in steps:
            yield partial(self._keep_position, step)

    def _keep_position(self, step: Step, conn: Connection) -> StepResult:
        return replace(step(conn), position=self.position)

    def _stepped(self, step: Step, conn: Connection) -> StepResult:
        """The step, and what it wrote."""
        self.writer.changes.clear()
        reach("before shadow")
        result = step(conn)
        if self.writer.changes:
            self._send(conn)
        return result

    def _send(self, conn: Connection) -> None:
        changes, key = self.writer.changes, self.writer.shape.key
        reach("before send")
        fresh, written = (self._rows(lines, self.writer.shape.names) for lines in (changes.fresh, changes.written))
        keys = pa.concat_tables([self._rows(changes.deleted, key), written.select([*key])])
        self._write(pa.concat_tables([fresh, written]), keys, conn)
        if changes.deleted:
            statements = self.writer.statements(self.writer.prepare(conn, self.job.wanted)[0])
            execute(conn, statements.bury(), [VERSION])
        changes.clear()

    def _rows(self, lines: list[bytes], names: tuple[str, ...]) -> Any:
        return to_arrow(self.writer.shape, Text(b"".join(lines)), names, self._types)

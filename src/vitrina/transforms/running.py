"""Transforms at work: batches go to a worker process and come back as rows, or as the text that COPY takes."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import Any, Literal, Protocol

from vitrina.domain.errors import ConfigError
from vitrina.log import log
from vitrina.settings import Settings
from vitrina.transforms import Row
from vitrina.transforms.chain import Transformer, reach_working_folder
from vitrina.transforms.frames import Batch, Done, Order, Values
from vitrina.transforms.lines import traced
from vitrina.transforms.workers import POOL, Worker

Give = Literal["rows", "text"]


class Hands(Protocol):
    """Whoever does it: one batch at a time."""

    def give(self, order: Order, check: Callable[[], None], seconds: float) -> None:
        """A batch to work on."""
        ...

    def take(self) -> Any:
        """What has become of it."""
        ...


@dataclass(frozen=True)
class Transforming:
    """A chain of transforms, and what it may use up."""

    transformer: Transformer
    settings: Settings
    check: Callable[[], None]  # raises when the run should stop

    def apply(self, rows: list[Row]) -> list[Row]:
        """A batch, as rows again."""
        result: list[Row] = self._one("rows", rows).result
        return result

    def write(self, copy: Any, rows: list[Row]) -> int:
        """A batch, into a COPY in text format; how many rows were left."""
        done = self._one("text", rows)
        copy.write(done.result)
        return done.kept

    def stream(self, copy: Any, batches: Iterable[Batch]) -> int:
        """Batch after batch into a COPY; how many rows were read. One is transformed while the next is read."""
        read = pending = 0
        coming = iter(batches)
        first = next(coming, None)  # while a worker may still be loading its modules
        if first is None:
            return 0
        with self._hands() as hands:
            for batch in chain([first], coming):
                self.check()
                done = hands.take() if pending else None
                hands.give(self._order("text", batch), self.check, self.settings.transform_timeout_seconds)
                if done:
                    copy.write(done.result)
                pending = batch.size
                read += pending
            if pending:
                copy.write(hands.take().result)
        return read

    def _one(self, give: Give, rows: list[Row]) -> Done:
        if not rows:
            return Done(0, [] if give == "rows" else b"")
        names = list(rows[0])
        order = self._order(give, Values(names, [tuple([row[name] for name in names]) for row in rows]))
        with self._hands() as hands:
            hands.give(order, self.check, self.settings.transform_timeout_seconds)
            done: Done = hands.take()
        return done

    def _order(self, give: Give, batch: Batch | Values) -> Order:
        ours = self.transformer
        return Order(give, [step.name for step, _ in ours.chain], ours.source, ours.key, batch)

    @contextmanager
    def _hands(self) -> Iterator[Hands]:
        """A worker that is good for more if all went well; else it is ended, with whatever it still does."""
        settings = self.settings
        worker = POOL.get(settings.transform_modules, settings.transform_memory_mb, self.check)
        try:
            yield worker if self._is_known_to(worker) else Here(self.transformer)
        except BaseException:
            worker.end()
            raise
        POOL.put(worker)

    def _is_known_to(self, worker: Worker) -> bool:
        """What a program registered by itself, beside the modules that the settings name, is known to itself alone."""
        known = worker.transforms or frozenset()
        return all(step.name in known for step, _ in self.transformer.chain)


def begin_worker(settings: Settings) -> None:
    """A worker loads its modules while something else is done: a runner starts, a run is put together."""
    if settings.transform_modules:
        reach_working_folder()
    POOL.begin(settings.transform_modules, settings.transform_memory_mb)


@dataclass
class Here:
    """In this very process: nothing can end it."""

    transformer: Transformer
    _done: Done | None = None

    def give(self, order: Order, check: Callable[[], None], seconds: float) -> None:
        """Done at once."""
        del check, seconds
        try:
            held = self.transformer.put_through(order.batch)
            self._done = Done(len(held), held.text() if order.give == "text" else held.rows())
        except ConfigError as error:
            if error.__cause__:
                log.error("a transform went wrong", exception=traced(error))
            raise

    def take(self) -> Done:
        """The last."""
        assert self._done is not None
        return self._done

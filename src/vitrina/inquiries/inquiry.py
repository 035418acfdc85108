"""What answers a request that is no run: the plan it is about, its source, and a session in the warehouse."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from uuid import UUID

from vitrina.domain.pipeline import Pipeline, Plan
from vitrina.engine.job import Job
from vitrina.meta.db import Connection, transaction
from vitrina.planning import make_job, resolve_key
from vitrina.settings import Settings
from vitrina.sources.source import Source


@dataclass(frozen=True)
class Inquiry:
    """One request in progress. Scratch tables are named after it, so a run of the same pipeline is not disturbed."""

    id: UUID
    pipeline: Pipeline
    plan: Plan
    reader: Source
    conn: Connection
    reading: dict[str, str]
    writing: dict[str, str]
    settings: Settings
    running: bool  # the pipeline, when the request was claimed
    check: Callable[[], None]  # raises when the request should be given up
    fence: Callable[[Connection], None] = lambda _: None  # raises when another runner has the request

    @contextmanager
    def scratch(self) -> Iterator[Connection]:
        """A transaction over scratch tables: of a runner that lost the request, nothing reaches its successor's."""
        with transaction(self.conn, self.writing) as conn:
            yield conn
            self.fence(conn)

    def job(self) -> Job:
        """The same as a run's, without a past and under the request's own name."""
        key = resolve_key(self.conn, self.plan)
        return make_job(self.id, self.pipeline, self.plan, self.reader, key, self.settings, self.check)

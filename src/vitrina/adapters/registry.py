"""Which adapter serves a plan: by source, by mode, by target."""

from collections.abc import Iterator
from typing import Protocol

from vitrina.adapters.finders.full import FullMode
from vitrina.adapters.finders.incremental import IncrementalMode
from vitrina.adapters.finders.repair import RepairMode
from vitrina.adapters.job import Job, Step
from vitrina.domain.errors import ConfigError
from vitrina.domain.policy import is_index


class Mode(Protocol):
    """A way of finding keys, as the steps that find and converge them."""

    def steps(self) -> Iterator[Step]:
        """In order; each is one fenced transaction."""
        ...


def resolve_mode(job: Job) -> Mode:
    """The steps for a job's mode and target."""
    if is_index(job.plan.target):
        raise ConfigError(f"target {job.plan.target!r}: no Elasticsearch writer is installed", "use a Postgres table")
    if job.options.repair or job.options.rebuild:
        return RepairMode(job)
    return IncrementalMode(job) if job.plan.mode == "incremental" else FullMode(job)

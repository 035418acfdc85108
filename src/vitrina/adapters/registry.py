"""Which adapter serves a plan: by source, by mode, by target."""

from collections.abc import Sequence

from vitrina.adapters.elastic.delivery import Delivery
from vitrina.adapters.elastic.shape import Shape
from vitrina.adapters.elastic.writer import IndexWriter
from vitrina.adapters.finders.full import FullMode
from vitrina.adapters.finders.incremental import IncrementalMode
from vitrina.adapters.finders.repair import RepairMode
from vitrina.adapters.job import Job, Mode
from vitrina.adapters.writers.writer import TableWriter, Writer
from vitrina.domain.pipeline import Plan
from vitrina.domain.policy import is_index
from vitrina.settings import Settings
from vitrina.sql.describe import Column


def resolve_writer(plan: Plan, output: Sequence[Column]) -> Writer:
    """For the target, over what the query or the last transform gives."""
    if is_index(plan.target):
        return IndexWriter(Shape.of(plan, output), built=not plan.transforms)
    return TableWriter()


def resolve_mode(job: Job, settings: Settings, epoch: int) -> Mode:
    """The steps for a job's mode and target."""
    if isinstance(job.writer, IndexWriter):
        return Delivery(job, job.writer, _by_mode, settings, epoch)
    return _by_mode(job)


def _by_mode(job: Job) -> Mode:
    if job.options.repair or job.options.rebuild:
        return RepairMode(job)
    return IncrementalMode(job) if job.plan.mode == "incremental" else FullMode(job)

"""Which adapter serves a plan: by source, by mode, by target."""

from collections.abc import Sequence
from functools import partial

from vitrina.adapters.connections import Connections
from vitrina.adapters.elastic.delivery import Delivery
from vitrina.adapters.elastic.shape import Shape
from vitrina.adapters.elastic.writer import IndexWriter
from vitrina.adapters.finders.full import FullMode
from vitrina.adapters.finders.incremental import IncrementalMode
from vitrina.adapters.finders.live import LiveMode
from vitrina.adapters.finders.repair import RepairMode
from vitrina.adapters.job import Job, Mode
from vitrina.adapters.writers.writer import TableWriter, Writer
from vitrina.domain.pipeline import Plan
from vitrina.domain.policy import is_index
from vitrina.sql.describe import Column


def resolve_writer(plan: Plan, output: Sequence[Column]) -> Writer:
    """For the target, over what the query or the last transform gives."""
    if is_index(plan.target):
        return IndexWriter(Shape.of(plan, output), built=not plan.transforms)
    return TableWriter()


def resolve_mode(job: Job, connections: Connections, epoch: int) -> Mode:
    """The steps for a job's mode and target."""
    make_mode = partial(_by_mode, connections=connections)
    if isinstance(job.writer, IndexWriter):
        return Delivery(job, job.writer, make_mode, connections.settings, epoch)
    return make_mode(job)


def _by_mode(job: Job, connections: Connections) -> Mode:
    if job.options.repair or job.options.rebuild:
        return RepairMode(job)
    if job.plan.mode == "live":
        return LiveMode(job, connections)
    return IncrementalMode(job) if job.plan.mode == "incremental" else FullMode(job)

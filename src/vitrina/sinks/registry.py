"""Which sink serves a plan, by its target: ours, or one that a plug-in has registered."""

from collections.abc import Sequence
from functools import partial

from vitrina.domain.pipeline import Plan
from vitrina.domain.policy import is_index, is_outside
from vitrina.engine.job import Job, Mode
from vitrina.engine.modes import make_mode
from vitrina.engine.writer import Writer
from vitrina.neighbours import Neighbours
from vitrina.settings import Settings
from vitrina.sinks.documents.delivery import Delivery
from vitrina.sinks.documents.writer import IndexWriter
from vitrina.sinks.elasticsearch.outlet import ElasticOutlet, Outlet
from vitrina.sinks.elasticsearch.shape import Shape
from vitrina.sinks.plugin.store import StoreOutlet
from vitrina.sinks.table.writer import TableWriter
from vitrina.sources.connections import Connections
from vitrina.sql.describe import Column


def resolve_writer(plan: Plan, output: Sequence[Column], *, builds: bool) -> Writer:
    """For the target, over what the query or the last transform gives; documents are built by the source, if it can."""
    if is_outside(plan.target):
        return IndexWriter(Shape.of(plan, output), built=builds)
    return TableWriter()


def resolve_mode(job: Job, connections: Connections, epoch: int) -> Mode:
    """The steps for a job's mode and target."""
    make = partial(make_mode, connections=connections)
    if isinstance(job.writer, IndexWriter):
        outlet = resolve_outlet(job, connections.settings, epoch, connections.neighbours)
        return Delivery(job, job.writer, make, outlet, connections.settings.es_grace_seconds)
    return make(job)


def resolve_outlet(job: Job, settings: Settings, epoch: int, neighbours: Neighbours | None = None) -> Outlet:
    """The way to a mart that is no table."""
    if is_index(job.plan.target):
        return ElasticOutlet(settings, job.pipeline_id, job.plan.target, epoch, neighbours)
    return StoreOutlet(job.pipeline_id, job.plan.target, epoch, job.written)

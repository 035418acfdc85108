"""Which adapter serves a plan: by source, by mode, by target; ours, or one that a plug-in has registered."""

from collections.abc import Sequence
from functools import partial
from importlib.metadata import entry_points

from vitrina.adapters.captures.changes import Tap
from vitrina.adapters.captures.trigger import TriggerTap
from vitrina.adapters.captures.wal import WalTap
from vitrina.adapters.connections import Connections
from vitrina.adapters.elastic.delivery import Delivery
from vitrina.adapters.elastic.outlet import ElasticOutlet, Outlet
from vitrina.adapters.elastic.shape import Shape
from vitrina.adapters.elastic.writer import IndexWriter
from vitrina.adapters.finders.full import FullMode
from vitrina.adapters.finders.incremental import IncrementalMode
from vitrina.adapters.finders.live import LiveMode
from vitrina.adapters.finders.repair import LiveRepair, RepairMode
from vitrina.adapters.job import Job, Mode
from vitrina.adapters.neighbours import Neighbours
from vitrina.adapters.plugged import StoreOutlet
from vitrina.adapters.writers.writer import TableWriter, Writer
from vitrina.domain.pipeline import Plan
from vitrina.domain.policy import is_index, is_outside
from vitrina.settings import Settings
from vitrina.sql.describe import Column

CAPTURES = "vitrina.captures"
TAPS: dict[str, type[WalTap] | type[TriggerTap]] = {"wal": WalTap, "trigger": TriggerTap}


def resolve_writer(plan: Plan, output: Sequence[Column]) -> Writer:
    """For the target, over what the query or the last transform gives."""
    if is_outside(plan.target):
        return IndexWriter(Shape.of(plan, output), built=not plan.transforms)
    return TableWriter()


def resolve_tap(kind: str, conninfo: str) -> Tap:
    """What reads the changes of a source that is captured in this way: a plug-in's tap for it, else our own."""
    for point in entry_points(group=CAPTURES):
        if point.name == kind:
            plugged: Tap = point.load()(conninfo)
            return plugged
    return TAPS[kind](conninfo)


def resolve_mode(job: Job, connections: Connections, epoch: int) -> Mode:
    """The steps for a job's mode and target."""
    make_mode = partial(_by_mode, connections=connections)
    if isinstance(job.writer, IndexWriter):
        outlet = resolve_outlet(job, connections.settings, epoch, connections.neighbours)
        return Delivery(job, job.writer, make_mode, outlet, connections.settings.es_grace_seconds)
    return make_mode(job)


def resolve_outlet(job: Job, settings: Settings, epoch: int, neighbours: Neighbours | None = None) -> Outlet:
    """The way to a mart that is no table."""
    if is_index(job.plan.target):
        return ElasticOutlet(settings, job.pipeline_id, job.plan.target, epoch, neighbours)
    return StoreOutlet(job.pipeline_id, job.plan.target, epoch, job.written)


def _by_mode(job: Job, connections: Connections) -> Mode:
    if job.options.repair or job.options.rebuild:
        return LiveRepair(job) if job.plan.mode == "live" else RepairMode(job)
    if job.plan.mode == "live":
        return LiveMode(job, connections)
    return IncrementalMode(job) if job.plan.mode == "incremental" else FullMode(job)

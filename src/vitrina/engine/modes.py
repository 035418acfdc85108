"""Which mode serves a job."""

from vitrina.engine.full import FullMode
from vitrina.engine.incremental import IncrementalMode
from vitrina.engine.job import Job, Mode
from vitrina.engine.live.mode import LiveMode
from vitrina.engine.repair import LiveRepair, RepairMode
from vitrina.sources.connections import Connections


def make_mode(job: Job, connections: Connections) -> Mode:
    """The steps of a job, as if its mart were a table."""
    if job.options.repair or job.options.rebuild:
        return LiveRepair(job) if job.plan.mode == "live" else RepairMode(job)
    if job.plan.mode == "live":
        return LiveMode(job, connections)
    return IncrementalMode(job) if job.plan.mode == "incremental" else FullMode(job)

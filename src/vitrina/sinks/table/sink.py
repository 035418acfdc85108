"""Tables of the warehouse, as a kind of marts."""

from collections.abc import Callable, Sequence

from vitrina.domain.pipeline import Plan
from vitrina.engine.job import Job, Mode
from vitrina.sinks.sink import Sink
from vitrina.sinks.table.writer import ABILITIES, TableWriter
from vitrina.sources.connections import Connections
from vitrina.sql.describe import Column


class TableSink(Sink):
    """Rows and position commit together, so a run needs nothing but its mode."""

    abilities = ABILITIES

    def writer(self, plan: Plan, output: Sequence[Column], *, builds: bool) -> TableWriter:
        """A table's statements need nothing but the mart."""
        del plan, output, builds
        return TableWriter()

    def mode(self, job: Job, make: Callable[[Job], Mode], connections: Connections, epoch: int) -> Mode:
        """The mode itself: its steps write the mart, and nothing has to be sent."""
        del connections, epoch
        return make(job)

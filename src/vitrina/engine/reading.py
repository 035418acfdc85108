"""How a run reads its query. Decided here, for the run itself and for whoever foretells it (`forecast.py`)."""

from dataclasses import dataclass
from enum import StrEnum

from vitrina.domain.reasons import Reason
from vitrina.domain.wording import Because
from vitrina.engine.job import Job
from vitrina.engine.work import Work
from vitrina.engine.writer import UNLIMITED


class How(StrEnum):
    """The ways there are."""

    BY_KEY = "by key"  # compared where the data is; then only what differs is read
    BY_RANGE = "by key range"  # an empty mart is loaded, batch by batch
    AT_ONCE = "at once"  # everything goes into an empty mart in one transaction
    STAGED = "staged"  # everything is read once, into a scratch table
    INSIDE = "inside the engine"  # compared and written where the data is: nothing comes here


@dataclass(frozen=True)
class Reading:
    """A way, and why not a simpler one."""

    how: How
    why: Because | None = None

    def __str__(self) -> str:
        return f"{self.how}: {self.why}" if self.why else self.how


def is_inside(job: Job) -> bool:
    """Whether source and mart are of one engine, which then finds and converges by itself."""
    can = job.reader.abilities.writes_files and job.writer.abilities.takes_files
    return can and job.plan.mode == "full" and job.transformer is None


def why_apart(work: Work) -> Because | None:
    """Why the query cannot be compared with the mart where it is; None when it can."""
    if not work.job.reader.abilities.is_local:
        return Reason.OTHER_SERVER.of(source=work.job.plan.source)
    if work.job.transformer:
        return Reason.THROUGH_PYTHON.of()
    if work.mart.seal:
        return Reason.SEALED.of()
    return None if work.mart.pushable else Reason.KEY_OF_ANOTHER_TYPE.of()


def why_whole(work: Work) -> Because | None:
    """Why everything has to be read before anything is written; None when the query can be read bit by bit."""
    if apart := why_apart(work):
        return apart
    if work.job.sharing:
        return Reason.SHARED.of()
    if work.job.options.rebuild:
        return Reason.REBUILD.of()
    return Reason.ATOMIC.of() if work.job.plan.publish == "atomic" else None


def whole_load(work: Work, why: Because, *, is_costly: bool = False) -> Reading:
    """Everything into an empty mart: at once where the mart takes the rows as they are, or ranges would be costly."""
    takes = (
        not work.job.sharing
        and work.job.writer.most_rows >= UNLIMITED
        and (is_costly or work.mart.takes(work.job.output))
    )
    return Reading(How.AT_ONCE if takes else How.STAGED, why)

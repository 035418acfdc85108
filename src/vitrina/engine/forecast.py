"""What a run would do, told without doing it: the same objects are asked that a run asks."""

from vitrina.engine.comparison import Comparison
from vitrina.engine.load import Load
from vitrina.engine.reading import How, Reading, is_inside, whole_load, why_whole
from vitrina.engine.work import Work


def foretell_full(work: Work, *, is_empty: bool) -> Reading:
    """How a full run over this mart would read its query. How many keys differ nobody knows before: all, perhaps."""
    if is_inside(work.job):
        return Reading(How.INSIDE)
    why = why_whole(work)
    if is_empty:
        return whole_load(work, why) if why else Load(work).foretell()
    if why:
        return Reading(How.STAGED, why)
    return Reading(How.BY_KEY, Comparison(work).foretell())

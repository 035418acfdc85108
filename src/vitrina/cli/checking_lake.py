"""The doctor's look at the lake."""

from vitrina.cli.checking import Check, Checks, allowed_targets
from vitrina.domain.diagnoses import Diagnosis
from vitrina.domain.policy import LAKE_TARGET_PREFIX
from vitrina.settings import Settings


def check_lake(settings: Settings) -> Checks:
    """Only pipelines to lake: need it: without an address there is nothing to say."""
    if settings.lake_url is None:
        return
    from vitrina.sinks.lake.sink import look

    version = look(settings)
    yield Check("ok", "lake", Diagnosis.LAKE, {"url": settings.lake_url, "version": version})
    yield allowed_targets("tables of the lake", LAKE_TARGET_PREFIX, settings, "cinema.*")

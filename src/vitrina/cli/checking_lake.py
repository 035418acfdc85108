"""The doctor's look at the lake."""

from vitrina.cli.checking import Check, Checks
from vitrina.settings import Settings


def check_lake(settings: Settings) -> Checks:
    """Only pipelines to lake: need it: without an address there is nothing to say."""
    if settings.lake_url is None:
        return
    from vitrina.sinks.lake.sink import look

    version = look(settings)
    yield Check("ok", "lake", f"answers at {settings.lake_url} (pyiceberg {version})")
    allowed = ", ".join(settings.allowed_lake_tables)
    if allowed:
        yield Check("ok", "tables of the lake", f"allowed: {allowed}")
    else:
        remedy = "name them in VITRINA_ALLOWED_LAKE_TABLES, e.g. cinema.*"
        yield Check("warn", "tables of the lake", "none is allowed: pipelines to lake: are refused", remedy)

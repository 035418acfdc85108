"""The doctor's look at ClickHouse."""

from contextlib import closing

from vitrina.cli.checking import Check, Checks, allowed_targets
from vitrina.domain.diagnoses import Diagnosis
from vitrina.domain.policy import CLICKHOUSE_TARGET_PREFIX
from vitrina.settings import Settings


def check_clickhouse(settings: Settings) -> Checks:
    """Only pipelines to ch: need it: without an address there is nothing to say."""
    if settings.clickhouse_url is None:
        return
    from vitrina.sinks.clickhouse.client import LITTLE_TIME, ClickHouse, shown  # only here: most have none

    with closing(ClickHouse(settings, LITTLE_TIME)) as server:
        version = server.version()
    where = shown(settings.clickhouse_url.get_secret_value())
    yield Check("ok", "ClickHouse", Diagnosis.CLICKHOUSE, {"version": version, "url": where})
    yield allowed_targets("tables of ClickHouse", CLICKHOUSE_TARGET_PREFIX, settings, "cinema.*")

"""When scheduled pipelines are due next."""

import structlog

from vitrina.domain.errors import ConfigError
from vitrina.domain.schedule import next_due
from vitrina.meta.repos.pipelines import PipelineRepo

log = structlog.get_logger()


def plan_due(pipelines: PipelineRepo) -> None:
    """Give every scheduled pipeline that has none its next due time, by the database's clock."""
    for row in pipelines.unplanned():
        try:
            due = next_due(row["schedule_interval"], row["now"], row["last_due_at"])
        except ConfigError as error:
            log.error("schedule ignored", pipeline=row["name"], error=str(error))
            continue
        pipelines.schedule(row["id"], row["schedule_interval"], due)

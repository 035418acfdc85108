"""The shape of a mart in files."""

from vitrina.domain.errors import ConfigError
from vitrina.domain.mart_refusals import MartRefusal
from vitrina.domain.pipeline import Plan
from vitrina.sinks.parquet.shape import RowShape


class FilesShape(RowShape):
    """Rows in files of Parquet, all of them written for whoever reads nothing else."""

    @classmethod
    def check_plan(cls, plan: Plan) -> None:
        """What files cannot do."""
        if plan.mode == "live":
            raise ConfigError.of(MartRefusal.FILES_NOT_LIVE)
        if plan.adopt:
            raise ConfigError.of(MartRefusal.FOR_AN_INDEX, fields=["adopt"], target=plan.target)

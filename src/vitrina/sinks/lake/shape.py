"""The shape of a lake table."""

from vitrina.domain.errors import ConfigError
from vitrina.domain.mart_refusals import MartRefusal
from vitrina.domain.pipeline import Plan
from vitrina.sinks.parquet.shape import RowShape


class LakeShape(RowShape):
    """Rows in a table of Iceberg."""

    @classmethod
    def check_plan(cls, plan: Plan) -> None:
        """What a table of a lake cannot do."""
        if plan.publish == "atomic":
            raise ConfigError.of(MartRefusal.LAKE_NOT_ATOMIC)
        if plan.adopt:
            raise ConfigError.of(MartRefusal.FOR_AN_INDEX, fields=["adopt"], target=plan.target)

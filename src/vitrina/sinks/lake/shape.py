"""The shape of a lake table."""

from vitrina.domain.errors import ConfigError
from vitrina.domain.pipeline import Plan
from vitrina.sinks.parquet.shape import RowShape


class LakeShape(RowShape):
    """Rows in a table of Iceberg."""

    @classmethod
    def check_plan(cls, plan: Plan) -> None:
        """What a table of a lake cannot do."""
        if plan.publish == "atomic":
            remedy = "leave it out; run --rebuild replaces the table at once"
            raise ConfigError("publish: atomic is for tables of the warehouse", remedy)
        if plan.adopt:
            raise ConfigError("adopt is for an index, and a table of a lake is none", "leave it out")

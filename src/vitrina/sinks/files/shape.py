"""The shape of a mart in files."""

from vitrina.domain.errors import ConfigError
from vitrina.domain.pipeline import Plan
from vitrina.sinks.parquet.shape import RowShape


class FilesShape(RowShape):
    """Rows in files of Parquet, all of them written for whoever reads nothing else."""

    @classmethod
    def check_plan(cls, plan: Plan) -> None:
        """What files cannot do."""
        if plan.mode == "live":
            said = "a mart in files is kept by mode full or incremental: every change writes a version of all of it"
            raise ConfigError(said, "set mode: full, with a schedule; a table, an index or ClickHouse can be live")
        if plan.adopt:
            raise ConfigError("adopt is for an index, and files are none", "leave it out")

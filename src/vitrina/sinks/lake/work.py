"""The rows by which an engine sees a mart while it writes there: each run has its own, and what it commits there counts
for nobody until the pointer of the mart is moved."""

from dataclasses import dataclass
from uuid import UUID

from vitrina.domain.errors import RetryableError
from vitrina.meta.db import Connection, fetch_all, translated
from vitrina.sinks.lake.catalogue import SQL

SPACE = "work"


@dataclass(frozen=True)
class LakeWork:
    """Of one run. A run that took over has removed the rows of those before it, so these commit nothing any more."""

    pipeline_id: UUID
    epoch: int

    @property
    def table(self) -> str:
        """The mart."""
        return f"m_{self.pipeline_id.hex}_{self.epoch}"

    @property
    def found(self) -> str:
        """What differs."""
        return f"f_{self.pipeline_id.hex}_{self.epoch}"

    def begin(self, conn: Connection, location: str) -> bool:
        """From here on, in the place of all before it; whether one of those was lost."""
        left = self.end(conn)
        with translated():
            conn.execute(SQL["begin_work"], {"table": self.table, "location": location})
        return left > 0

    def location(self, conn: Connection) -> str:
        """What the engine has come to."""
        rows = fetch_all(conn, SQL["find_work"], {"table": self.table})
        if not rows:
            raise RetryableError("somebody else has begun to write this mart meanwhile")
        return str(rows[0]["metadata_location"])

    def end(self, conn: Connection) -> int:
        """Of this pipeline, whoever began it; how much was left."""
        prefixes = [f"{kind}_{self.pipeline_id.hex}_" for kind in "mf"]
        with translated():
            return sum(conn.execute(SQL["end_work"], {"prefix": prefix}).rowcount for prefix in prefixes)

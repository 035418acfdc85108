"""The audit's look at a live mart in a lake: whether its table is still as we left it."""

from collections.abc import Callable
from dataclasses import dataclass

from psycopg import sql

from vitrina.domain.errors import RetryableError
from vitrina.meta.db import Connection


@dataclass(frozen=True)
class LakeAudit:
    """See `Beyond`. A table changes by its pointer alone: as long as that stays, it is what was committed with it."""

    is_as_left: Callable[[Connection], bool]

    def is_emptied(self, conn: Connection) -> bool:
        """Not by us. Who has committed meanwhile is noticed: the next attempt looks at the table itself."""
        if not self.is_as_left(conn):
            raise RetryableError("somebody else has committed to the table in the lake")
        return False

    def weed(self, conn: Connection) -> int:
        """There are no strangers."""
        del conn
        return 0

    def doubt(self, conn: Connection, condition: sql.Composable) -> None:
        """Nothing is in doubt."""
        del conn, condition

"""What a run's query means, held to what was checked when the run began: a view may be replaced meanwhile."""

from dataclasses import dataclass

from psycopg import sql

from vitrina.domain.errors import RetryableError
from vitrina.domain.pipeline import Plan
from vitrina.engine.job import Step, StepResult
from vitrina.meta.db import Connection, fetch_one
from vitrina.sources.source import Source
from vitrina.sql.dependencies import needs_of
from vitrina.sql.lineage import tables_of
from vitrina.sql.stamps import stamp_query, take_stamp

READS_VIEWS = """
SELECT EXISTS (SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
               WHERE c.relkind = 'v' AND concat(n.nspname, '.', c.relname) = ANY (%s::text[])) AS yes
"""


@dataclass(frozen=True)
class Meaning:
    """Taken before the query is judged; a live mart has its own way of noticing (`sql/dependencies.py`)."""

    reader: Source
    query: sql.Composed | None = None  # for the stamp; None: nothing that could be replaced
    stamp: str = ""

    @classmethod
    def take(cls, reader: Source, plan: Plan) -> "Meaning":
        """What the views of a query are now; a query over tables alone costs one question and no more."""
        if plan.mode == "live" or not reader.abilities.has_catalogue or not _reads_views(reader, plan):
            return cls(reader)
        query = stamp_query(needs_of(*reader.catalogue, plan.select))
        return cls(reader, query, take_stamp(reader.catalogue.conn, query))

    def hold(self, step: Step) -> Step:
        """The step, committed only if the query meant the same to its end.

        A view that it read is locked by its transaction until then, so what is looked at is what was read.
        """

        def held(conn: Connection) -> StepResult:
            result = step(conn)
            self._require_same()
            return result

        return held if self.query else step

    def _require_same(self) -> None:
        if self.query and take_stamp(self.reader.catalogue.conn, self.query) != self.stamp:
            raise RetryableError(
                "a view that the query reads, or something behind it, was replaced during the run; it is checked anew"
            )


def _reads_views(reader: Source, plan: Plan) -> bool:
    row = fetch_one(reader.catalogue.conn, READS_VIEWS, [tables_of(plan.select)])
    return bool(row and row["yes"])

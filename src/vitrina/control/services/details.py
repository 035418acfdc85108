"""One thing looked at closely: a run's log, a mart's rows, who did what, the parts of the system."""

import platform
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from psycopg import sql
from psycopg.rows import DictRow

from vitrina import __version__
from vitrina.control.plane import ControlPlane
from vitrina.control.problems import Invalid
from vitrina.control.services.checks import CheckStanding, checks_of
from vitrina.control.services.inspection import Inspection
from vitrina.domain.errors import VitrinaError
from vitrina.domain.events import Event, Said
from vitrina.domain.pipeline import WAREHOUSE
from vitrina.domain.policy import split_table
from vitrina.engine.pieces import column_of, shown
from vitrina.inquiries.preview import SHOWN_LENGTH
from vitrina.meta.db import fetch_one, queries
from vitrina.meta.repos.overview import OverviewRepo
from vitrina.meta.repos.pipelines import StoredPipeline
from vitrina.meta.repos.runs import RunRepo
from vitrina.meta.repos.state import StateRepo
from vitrina.sinks.registry import abilities_of
from vitrina.sources.source import Source
from vitrina.sql.owned import code_of_reading

LOOK_SECONDS = 3
CHANGED_RUNS, CHANGED_STEPS, CHANGED_ROWS = 20, 200, 100  # that are looked at and shown
CAPTURE_COLUMNS = (
    "source",
    "kind",
    "runner",
    "lag_seconds",
    "lag_bytes",
    "safe_wal_size",
    "wal_status",
    "last_commit",
    "warnings",
)
RUNNERS = queries("runners")


@dataclass(frozen=True)
class Details:
    """Reads, and changes nothing."""

    plane: ControlPlane

    # ── runs ─────────────────────────────────────────────────────────────────────────────────────────────────

    def log(self, run_id: int, limit: int, text: str | None = None, named: Sequence[Event] = ()) -> list[Said]:
        """The end of a run's log, or of those of its lines that hold a text, or are events that are named."""
        with self.plane.session() as conn:
            return OverviewRepo(conn).last_events(run_id, text or None, named, limit)

    def steps(self, run_id: int, slots: int) -> list[DictRow]:
        """What took time in a run, all of it, however many events it has."""
        with self.plane.session() as conn:
            return OverviewRepo(conn).steps(run_id, slots)

    def history(self, stored: StoredPipeline, limit: int) -> list[DictRow]:
        """Its last runs, newest first."""
        with self.plane.session() as conn:
            return RunRepo(conn).recent(stored.id, limit)

    def attempts(self, run_ids: Sequence[int]) -> dict[int, list[DictRow]]:
        """The attempts of some runs, by run and in order."""
        found = defaultdict[int, list[DictRow]](list)
        with self.plane.session() as conn:
            for row in RunRepo(conn).attempts_of(run_ids):
                found[row["run_id"]].append(row)
        return dict(found)

    def changes(self, pipeline_id: UUID, run_id: int | None = None) -> list[DictRow]:
        """Rows that the last runs, or one, changed: as they were and as they are, as far as that was kept."""
        with self.plane.session() as conn:
            told = RunRepo(conn).changes(pipeline_id, run_id, CHANGED_RUNS, CHANGED_STEPS)
        rows = [{"run_id": step["run_id"], "at": step["at"]} | change for step in told for change in step["changes"]]
        return rows[:CHANGED_ROWS]

    # ── pipelines ────────────────────────────────────────────────────────────────────────────────────────────

    def state(self, stored: StoredPipeline) -> DictRow | None:
        """Its checkpoint; None if it is gone."""
        with self.plane.session() as conn:
            return StateRepo(conn).get(stored.id)

    def checks(self, stored: StoredPipeline) -> list[CheckStanding]:
        """What it asks of its mart, and how that stands."""
        with self.plane.session() as conn:
            return checks_of(conn, stored)

    def audit(self, stored: StoredPipeline | None, limit: int) -> list[DictRow]:
        """Who did what, newest first; with one pipeline, or at all."""
        with self.plane.session() as conn:
            return OverviewRepo(conn).audit(stored.id if stored else None, limit)

    def sample(self, stored: StoredPipeline, limit: int) -> dict[str, Any]:
        """The first rows of its mart, every value as Postgres writes it."""
        target = stored.target or ""
        if not abilities_of(target).is_compared_in_place:
            raise Invalid(f"{target} is no table: its documents are not shown here", "search it where it is")
        with self.plane.connections.read_warehouse() as reader:
            for code in code_of_reading(reader.conn, *split_table(target)):
                said = f"looking at {target} would run {code.function} of {code.owner} with the reader's rights"
                raise Invalid(said, "look at it with rights of your own")
            table = sql.SQL("TABLE {}").format(sql.Identifier(*split_table(target))).as_string(None)
            return _first_rows(reader.within(LOOK_SECONDS), table, limit)

    # ── the system ───────────────────────────────────────────────────────────────────────────────────────────

    def runners(self) -> list[dict[str, Any]]:
        """Each runner with what it holds."""
        with self.plane.session() as conn:
            leases = OverviewRepo(conn).leases()
        runners = Inspection(self.plane).runners()
        return [dict(runner) | {"leases": [x for x in leases if x["owner"] == runner["id"]]} for runner in runners]

    def versions(self) -> dict[str, Any]:
        """Of this process, the meta-store and its server."""
        with self.plane.session() as conn:
            return {"vitrina": __version__, "python": platform.python_version(), **OverviewRepo(conn).versions()}

    def databases(self) -> list[dict[str, Any]]:
        """Every source, and how quickly it answers."""
        return [self._database(name) for name in (WAREHOUSE, *self.plane.connections.sources)]

    def sinks(self) -> list[dict[str, Any]]:
        """Other places that marts live in, as `databases` gives them: name, version, milliseconds or error."""
        with self.plane.session() as conn:
            row = fetch_one(conn, RUNNERS["sinks"], {"seconds": self.plane.settings.lease_seconds})
        return [{"name": name, **seen} for name, seen in (row["sinks"] if row else {}).items()]

    def captures(self) -> list[dict[str, Any]]:
        """Where changes are captured, how far behind, and what to worry about."""
        reports = [found | {"warnings": found["findings"]} for found in Inspection(self.plane).captures()]
        return [{name: found[name] for name in CAPTURE_COLUMNS} for found in reports]

    def _database(self, name: str) -> dict[str, Any]:
        started = time.monotonic()
        try:
            with self.plane.connections.resolve_reader(name) as reader:
                version = reader.version()
        except VitrinaError as error:
            return {"name": name, "error": str(error)}
        milliseconds = (time.monotonic() - started) * 1000
        return {"name": name, "version": version, "milliseconds": round(milliseconds, 1)}


def _first_rows(reader: Source, table: str, limit: int) -> dict[str, Any]:
    columns = reader.describe(table)
    values = [sql.SQL("{} AS {}").format(shown(column_of("q", c.name), SHOWN_LENGTH), c.identifier) for c in columns]
    text = sql.SQL("SELECT {} FROM ({}) AS q LIMIT {}")
    rows = reader.fetch(text.format(sql.SQL(", ").join(values), sql.SQL(table), sql.Literal(limit)))
    return {
        "columns": [{"name": c.name, "type": c.type} for c in columns],
        "rows": [dict(row) for row in rows],
    }
